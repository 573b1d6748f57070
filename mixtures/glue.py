"""Mixtures of GLUE tasks. A rate is the number of training examples."""

import seqio

from tasks import glue as _tasks  # noqa: F401 (registers what is mixed)

# The part of GLUE whose training sets are small or at hand. Its average is one
# over five tasks, not a GLUE average.
seqio.MixtureRegistry.add(
  "glue_real_small",
  [
    ("glue_cola_v002", 8_551),
    ("glue_sst2_v002", 67_349),
    ("glue_mrpc_v002", 3_668),
    ("glue_stsb_v002", 5_749),
    ("glue_rte_v002", 2_490),
  ],
)
