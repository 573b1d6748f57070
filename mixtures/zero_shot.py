"""Mixtures to evaluate a language model on; nothing is trained on them."""

import seqio

from mixtures.available import AvailableMixture
from tasks.prompts import few_shot_miniature as _few_shot  # noqa: F401
from tasks.prompts import gpt as _gpt  # noqa: F401 (registers what is mixed)

# The heuristics of GPT's paper, and the heuristics whose data is on disk.
_GPT = (
  "zero_shot_sst2_very",
  "zero_shot_race_high",
  "zero_shot_race_middle",
  "zero_shot_dpr",
  "zero_shot_winogrande",
  "zero_shot_cola",
)
seqio.MixtureRegistry.add("zero_shot_gpt", _GPT, default_rate=1.0)
seqio.MixtureRegistry.add(
  "zero_shot_gpt_available",
  _GPT,
  default_rate=1.0,
  mixture_cls=AvailableMixture,
)
seqio.MixtureRegistry.add(
  "zero_shot_miniature",
  [
    "zero_shot_mini_sst2_very",
    "zero_shot_mini_race",
    "zero_shot_mini_wsc",
    "zero_shot_mini_cola",
  ],
  default_rate=1.0,
)
# The same questions behind 0 to 8 demonstrations.
for _shots in (0, 1, 2, 4, 8):
  seqio.MixtureRegistry.add(
    f"miniature_{_shots}_shot",
    [
      f"{_task}_{_shots}_shot"
      for _task in ("mini_sst2", "mini_wic", "mini_translate", "mini_tldr")
    ],
    default_rate=1.0,
  )
