"""Mixtures of SuperGLUE tasks. A rate is the number of training examples."""

import seqio

from mixtures import counts
from mixtures.available import AvailableMixture
from tasks.benchmarks import definite_pronouns as _dpr  # noqa: F401 (registers)
from tasks.benchmarks import super_glue as _super_glue  # noqa: F401 (registers)
from tasks.benchmarks import super_glue_sentinel as _sentinel  # noqa: F401 (registers)
from transformer_zoo.data.mixing import ExamplesProportional

# SuperGLUE as one task, with definite pronouns beside the small WSC.
seqio.MixtureRegistry.add(
  "super_glue_v102_proportional", list(counts.SUPER_GLUE.items())
)

# The same with a sentinel that asks for the answer, as in span corruption.
seqio.MixtureRegistry.add(
  "super_glue_v102_proportional_sentinel",
  list(counts.SUPER_GLUE_SENTINEL.items()),
)

# What is on disk, at the counts of what is there.
seqio.MixtureRegistry.add(
  "super_glue_available",
  list(counts.SUPER_GLUE),
  default_rate=ExamplesProportional(),
  mixture_cls=AvailableMixture,
)

# The part of SuperGLUE whose training sets are at hand. Its average is one over
# six tasks, not a SuperGLUE average.
seqio.MixtureRegistry.add(
  "super_glue_real_small",
  [
    ("super_glue_wsc_v102_simple_train", 259),
    ("super_glue_wsc_v102_simple_eval", 0),
    ("super_glue_boolq_v102", 9_427),
    ("super_glue_cb_v102", 250),
    ("super_glue_copa_v102", 400),
    ("super_glue_rte_v102", 2_490),
    ("super_glue_wic_v102", 5_428),
  ],
)

# SuperGLUE's WSC alone, trained on one task and scored on the other.
seqio.MixtureRegistry.add(
  "super_glue_wsc_v102_simple",
  [
    ("super_glue_wsc_v102_simple_train", 259),
    ("super_glue_wsc_v102_simple_eval", 0),
  ],
)

# The Winograd schemas alone: "wsc: ... *it* ..." -> the referent.
seqio.MixtureRegistry.add(
  "wsc_dpr_simple_proportional",
  [
    ("dpr_v001_simple", 1_322),
    ("super_glue_wsc_v102_simple_train", 259),
    ("super_glue_wsc_v102_simple_eval", 0),
  ],
)
