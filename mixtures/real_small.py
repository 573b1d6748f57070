"""Multi-task training on the part of the benchmarks that is at hand.

Wikipedia stands for C4; `glue_real_small`, `super_glue_real_small` and SQuAD
are the supervised tasks. The paper's K is divided by 32, so that 2^19 becomes
16,384: Wikipedia's 16 million tokens make 128,656 examples of 128.
"""

import seqio

from mixtures import composition
from mixtures import glue as _glue  # noqa: F401 (registers what is mixed)
from mixtures import super_glue as _super_glue  # noqa: F401 (registers)
from mixtures.supervised import TWICE
from tasks.benchmarks import squad as _squad  # noqa: F401 (registers)
from tasks.corpora import unlabelled_text as _text  # noqa: F401 (registers)
from transformer_zoo.data.mixing import ExamplesProportional

_CORPUS = "wikipedia_text_span_corruption"
_GLUE = composition.members("glue_real_small")
_SUPER_GLUE = composition.members("super_glue_real_small")
_SQUAD = "squad_v010_allanswers"
_COUNTS = _GLUE | _SUPER_GLUE | {_CORPUS: 128_656, _SQUAD: 87_599}
_WHOLE = ExamplesProportional(16_384, counts=_COUNTS)
_HALVED = ExamplesProportional(16_384, counts=_COUNTS, halved=TWICE)

seqio.MixtureRegistry.add(
  "real_small_multitask", tuple(_COUNTS), default_rate=_HALVED
)
seqio.MixtureRegistry.add(
  "real_small_supervised",
  (*_GLUE, *_SUPER_GLUE, _SQUAD),
  default_rate=_HALVED,
)

# Leave-one-out multi-task training, by the suite's names of groups. Where one
# of GLUE and SuperGLUE is left out, RTE is there once.
seqio.MixtureRegistry.add(
  "real_small_without_GLUE",
  (_CORPUS, *_SUPER_GLUE, _SQUAD),
  default_rate=_WHOLE,
)
seqio.MixtureRegistry.add(
  "real_small_without_SGLUE", (_CORPUS, *_GLUE, _SQUAD), default_rate=_WHOLE
)
seqio.MixtureRegistry.add(
  "real_small_without_SQuAD",
  (_CORPUS, *_GLUE, *_SUPER_GLUE),
  default_rate=_HALVED,
)
