"""Miniature tasks behind 0, 1, 2, 4 and 8 demonstrations (Brown et al. 2020).

Sentiment and word senses are ranked, a translation continues pairs of
sentences, a summary follows "tl;dr:" (Radford et al. 2019, sections 3.6 and
3.7). `mini_translate_1_shot` is

    'the fox saw the pie. : vudi lemo kapek nila. the dog saw the mill. :' ->
    'vudi ...'
"""

from tasks.prompts import gpt as _gpt  # noqa: F401 (registers zero_shot_mini_*)
from tasks.prompts import miniature_suite as _suite  # noqa: F401
from tasks.your_data.few_shot import register_few_shot

for _shots in (0, 1, 2, 4, 8):
  for _name, _task in (
    ("mini_sst2", "prompted_mini_sst2_good"),
    ("mini_wic", "prompted_mini_wic_was"),
    ("mini_translate", "zero_shot_mini_translate"),
    ("mini_tldr", "zero_shot_mini_tldr"),
  ):
    register_few_shot(
      f"{_name}_{_shots}_shot",
      _task,
      num_shots=_shots,
      targets_prefix=" ",
      example_separator=" ",
      inputs_end=False,
    )
