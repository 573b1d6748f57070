"""The supervised tasks of the miniature suite, all at the same rate."""

import seqio

import tasks  # noqa: F401 (registers them)

seqio.MixtureRegistry.add(
  "miniature",
  [
    "mini_cola",
    "mini_sst2",
    "mini_mrpc",
    "mini_stsb",
    "mini_nli",
    "mini_copa",
    "mini_wsc",
    "mini_wic",
    "mini_squad",
    "mini_summarize",
    "mini_translate",
  ],
  default_rate=1.0,
)
