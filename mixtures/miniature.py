"""Mixtures of the miniature suite's tasks, of 4,000 training examples or 500.

Groups stand for the T5 paper's benchmarks: one task each for SQuAD, CNN/Daily
Mail (summaries) and WMT (translation), several for GLUE and SuperGLUE.
"""

import seqio

import tasks  # noqa: F401 (registers them)
from transformer_zoo.data.mixing import ExamplesProportional

# Not `mini_mrpc`, `mini_stsb` and `mini_nli`: they are not learnt in the
# suite's steps (docs/log/experiments.md).
_GLUE = ("mini_cola", "mini_sst2")
_SUPER_GLUE = ("mini_copa", "mini_wsc", "mini_wic")
_TASKS = (
  *_GLUE,
  *_SUPER_GLUE,
  "mini_squad",
  "mini_summarize",
  "mini_translate",
)
_CORPUS = "mini_corpus"
# What stands for the paper's K = 2^19: the corpus has 70,000 documents.
_LIMITED = ExamplesProportional(maximum=4_096)

# All supervised tasks at the same rate: the quickstart, and supervised
# multi-task pre-training.
seqio.MixtureRegistry.add("miniature", _TASKS, default_rate=1.0)

# The groups of more than one task.
seqio.MixtureRegistry.add("miniature_glue", _GLUE, default_rate=1.0)
seqio.MixtureRegistry.add("miniature_super_glue", _SUPER_GLUE, default_rate=1.0)

# Those whose answer is a class or a number: an encoder with a head for each.
seqio.MixtureRegistry.add(
  "miniature_heads",
  ["mini_cola", "mini_sst2", "mini_mrpc", "mini_stsb", "mini_nli"],
  default_rate=1.0,
)

# Multi-task training: the supervised tasks and the corpus, which only a limit
# keeps from being almost everything.
seqio.MixtureRegistry.add(
  "miniature_multitask", (_CORPUS, *_TASKS), default_rate=_LIMITED
)

# The same without a group, by the suite's names of groups: leave-one-out
# multi-task training.
seqio.MixtureRegistry.add(
  "miniature_without_GLUE",
  [task for task in (_CORPUS, *_TASKS) if task not in _GLUE],
  default_rate=_LIMITED,
)
seqio.MixtureRegistry.add(
  "miniature_without_CNNDM",
  [task for task in (_CORPUS, *_TASKS) if task != "mini_summarize"],
  default_rate=_LIMITED,
)
seqio.MixtureRegistry.add(
  "miniature_without_SQuAD",
  [task for task in (_CORPUS, *_TASKS) if task != "mini_squad"],
  default_rate=_LIMITED,
)
seqio.MixtureRegistry.add(
  "miniature_without_SGLUE",
  [task for task in (_CORPUS, *_TASKS) if task not in _SUPER_GLUE],
  default_rate=_LIMITED,
)
seqio.MixtureRegistry.add(
  "miniature_without_EnDe",
  [task for task in (_CORPUS, *_TASKS) if task != "mini_translate"],
  default_rate=_LIMITED,
)
