"""The facts of `facts` made false, as edits of a model that knows them.

Apart from `facts` because it registers with gin, which a module of tasks must
not do: T5X imports those after it has read its gin files.
"""

from collections.abc import Sequence

import gin

from tasks.miniature import facts
from transformer_zoo.editing.facts import Fact


@gin.register
def miniature_facts() -> list[Fact]:
  """Returns the edits of all facts of the world, grouped by person."""
  told = facts.world()
  return [Fact(**request(fact, told)) for fact in told]


@gin.register
def miniature_facts_text() -> list[str]:
  """Returns documents for the covariance of keys."""
  return facts.documents(2000, seed=2)


def request(fact: facts.Told, told: Sequence[facts.Told]) -> dict:
  """An edit that makes a fact false, in the fields of `editing.facts.Fact`.

  Args:
    fact: The fact; its `other` becomes the target.
    told: The world, which neighbours (other people of the same object) and
      the essence (other facts of the person) are taken from; these in other
      words are the texts to keep.
  """
  prompt, *others = facts.RELATIONS[fact.relation]
  stays = [
    known
    for known in told
    if known.subject == fact.subject and known.relation != fact.relation
  ]
  return {
    "prompt": prompt,
    "subject": fact.subject,
    "target": fact.other,
    "true_target": fact.target,
    "paraphrases": tuple(o.replace("{}", fact.subject) for o in others),
    "neighbours": tuple(
      prompt.replace("{}", known.subject)
      for known in told
      if known.relation == fact.relation
      and known.target == fact.target
      and known.subject != fact.subject
    ),
    "essence": tuple(
      (
        facts.RELATIONS[known.relation][0].replace("{}", known.subject),
        known.target,
      )
      for known in stays
    ),
    "kept": tuple(
      wording.replace("{}", fact.subject)
      for known in stays
      for wording in facts.RELATIONS[known.relation][1:]
    ),
  }
