"""Mixtures of GLUE tasks. A rate is the number of training examples."""

import seqio

from mixtures import counts
from mixtures.available import AvailableMixture
from tasks.benchmarks import glue as _tasks  # noqa: F401 (registers what is mixed)
from transformer_zoo.data.mixing import Equal
from transformer_zoo.data.mixing import ExamplesProportional

# GLUE as one task, as T5 is fine-tuned on it. WNLI is left out.
seqio.MixtureRegistry.add("glue_v002_proportional", list(counts.GLUE.items()))

# What is trained of it, for an encoder with a head for each task.
seqio.MixtureRegistry.add(
  "glue_v002_heads",
  [(name, number) for name, number in counts.GLUE.items() if number],
)

# MNLI with its validation sets in tasks of their own.
seqio.MixtureRegistry.add(
  "glue_mnli_and_dev_v002",
  ["glue_mnli_v002", "glue_mnli_matched_v002", "glue_mnli_mismatched_v002"],
  default_rate=Equal(),
)

# What is on disk, at the counts of what is there.
seqio.MixtureRegistry.add(
  "glue_available",
  list(counts.GLUE),
  default_rate=ExamplesProportional(),
  mixture_cls=AvailableMixture,
)

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
