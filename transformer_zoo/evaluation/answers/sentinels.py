"""Answers of tasks whose targets begin with sentinels (span corruption)."""

from collections.abc import Mapping
import re
from typing import Any

from transformer_zoo.data.storage import function_references


def without_sentinels(
  answer: str,
  example: Mapping[str, Any] | None = None,
  is_target: bool = False,
  *,
  sentinels: str,
  postprocess: Mapping[str, Any] | None = None,
) -> Any:
  """Returns what the task makes of the text after its sentinels.

  A text that does not begin with them is taken as it is. From SeqIO's
  `experimental.add_task_with_sentinels`.

  Args:
    answer: the text.
    example: the whole example.
    is_target: whether the text is the target's.
    sentinels: as the vocabulary writes them, `<extra_id_0>` for one.
    postprocess: reference to the task's own function, {'function':
      'module:name', 'kwargs': {...}}; None where it has none.
  """
  # The pieces of some vocabularies have no space before a sentinel.
  marks = r"\s*".join(map(re.escape, sentinels.split()))
  if begin := re.match(marks, answer):
    answer = answer[begin.end() :].strip()
  if postprocess is None:
    return answer
  function = function_references.resolve_post_processing(postprocess)
  return function(answer, example=example, is_target=is_target)


def without_reference(
  postprocess: Mapping[str, Any] | None,
) -> Mapping[str, Any] | None:
  """Returns the reference to a task's own function, unwrapped if it is."""
  here = f"{__name__}:{without_sentinels.__name__}"
  if postprocess and postprocess["function"] == here:
    return postprocess["kwargs"]["postprocess"]
  return postprocess
