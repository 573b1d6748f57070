"""Lengths of features that follow from how examples are made."""

from typing import Any

import gin

from transformer_zoo.errors import UserError


@gin.register
def fitting_lengths(
  corruption: Any, inputs: int, targets: int = 1
) -> dict[str, int]:
  """Returns the `TASK_FEATURE_LENGTHS` that hold nearly all examples.

  A study whose rows differ in their objective says once how long inputs are,
  after the file of the objective:

      TASK_FEATURE_LENGTHS = @fitting_lengths()
      fitting_lengths.corruption = %CORRUPTION
      fitting_lengths.inputs = 64

  Span corruption's are those of t5's `random_spans_helper`; noise of a random
  size is drawn, and one example in a thousand may lose the end of its targets;
  a language model's targets are as long as the others' inputs; everything else
  has the whole text as its targets, or is an encoder's, with one length.

  Args:
    corruption: the objective's.
    inputs: tokens of the inputs, EOS counted.
    targets: the least tokens of the targets: what other tasks of the mixture
      need.

  Raises:
    UserError: there is no corruption, or the inputs are too short for it.
  """
  if corruption is None:
    raise UserError(
      "fitting_lengths has no corruption to find lengths for; name a file of "
      "objectives/ before it, or set TASK_FEATURE_LENGTHS by hand"
    )
  if not isinstance(inputs, int) or inputs < 1:
    raise UserError(
      f"fitting_lengths.inputs is {inputs!r}; it must be a number of tokens, 1 "
      "or more"
    )
  if hasattr(corruption, "fitting_lengths"):
    lengths = corruption.fitting_lengths(inputs)
  else:
    lengths = {"inputs": inputs, "targets": inputs}
  return lengths | {"targets": max(targets, lengths["targets"])}
