"""Mixtures of supervised tasks from several benchmarks, without plain text."""

import seqio

from mixtures import counts
from tasks.benchmarks import glue as _glue  # noqa: F401 (registers)
from tasks.benchmarks import squad as _squad  # noqa: F401 (registers)
from tasks.benchmarks import super_glue as _super_glue  # noqa: F401 (registers)
from tasks.benchmarks import trivia_qa as _trivia_qa  # noqa: F401 (registers)
from tasks.benchmarks.summaries import cnn_dailymail as _cnn_dailymail  # noqa: F401 (registers)
from tasks.benchmarks.translation import wmt as _wmt  # noqa: F401 (registers)
from transformer_zoo.data.mixing import Equal
from transformer_zoo.data.mixing import ExamplesProportional

# All tasks of the T5 paper (section 2.3).
TASKS = (
  *counts.GLUE,
  *counts.SUPER_GLUE,
  "cnn_dailymail_v002",
  "squad_v010_allanswers",
  "wmt_t2t_ende_v003",
  "wmt15_enfr_v003",
  "wmt16_enro_v003",
)
COUNTS = counts.GLUE | counts.SUPER_GLUE
# GLUE and SuperGLUE have the same RTE: it is one task at half the rate twice.
TWICE = ("glue_rte_v002", "super_glue_rte_v102")

seqio.MixtureRegistry.add("supervised_equal", TASKS, default_rate=Equal())

# Without an artificial limit; `--gin.train.rates=@ExamplesProportional()` with
# `--gin.ExamplesProportional.maximum=524288` has one.
seqio.MixtureRegistry.add(
  "supervised_proportional",
  TASKS,
  default_rate=ExamplesProportional(counts=COUNTS, halved=TWICE),
)

# Pre-training on supervised tasks alone ("supervised multi-task pre-training",
# Raffel et al. 2020, section 3.5.3, has all tasks; these are the large ones).
seqio.MixtureRegistry.add(
  "large_supervised_equal",
  ["wmt_t2t_ende_v003", "wmt15_enfr_v003", "cnn_dailymail_v002"],
  default_rate=Equal(),
)
seqio.MixtureRegistry.add(
  "large_supervised_proportional",
  ["wmt_t2t_ende_v003", "wmt15_enfr_v003", "cnn_dailymail_v002"],
  default_rate=ExamplesProportional(),
)
seqio.MixtureRegistry.add(
  "large_translation_equal",
  ["wmt_t2t_ende_v003", "wmt15_enfr_v003"],
  default_rate=Equal(),
)

seqio.MixtureRegistry.add(
  "squad_trivia_qa_equal",
  ["squad_v010_allanswers", "trivia_qa_v010"],
  default_rate=Equal(),
)
