"""Instruction mixtures in FLAN's way: weighted templates, some with examples.

The templates of a set have weights of their own, and each stands in the mixture
once alone and once behind demonstrations (Longpre et al. 2023, sections 2 and
3.2: prompts of both kinds together help both). No set of the mixtures is in a
column of the miniature suite's text-to-text groups.
"""

import seqio

from tasks.prompts import miniature_suite as _prompted  # noqa: F401 (registers)
from tasks.your_data.few_shot import register_few_shot

_SHOTS = 2
# template -> weight.
_ALONE = {
  "prompted_mini_nli_true": 1.0,
  "prompted_mini_nli_claim": 0.5,
  "prompted_mini_mrpc_same": 1.0,
  "prompted_mini_mrpc_other": 0.5,
}
_BEHIND_EXAMPLES = {
  register_few_shot(
    f"{name}_{_SHOTS}_shot",
    name,
    num_shots=_SHOTS,
    targets_prefix=" ",
    example_separator=" ",
  ).name: weight
  for name, weight in _ALONE.items()
}

seqio.MixtureRegistry.add("miniature_flan_zero_shot", list(_ALONE.items()))
seqio.MixtureRegistry.add(
  "miniature_flan", [*_ALONE.items(), *_BEHIND_EXAMPLES.items()]
)
