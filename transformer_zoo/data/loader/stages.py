"""Batch sizes, lengths and rates that change, as functions of the step.

BERT's pre-training has 128 tokens for nine tenths of its steps and 512 for the
last (Devlin et al. 2019, appendix A.2); GPT-3's batch grows during the first
tokens (Brown et al. 2020, section 2.3).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
import dataclasses
from typing import Any

import numpy as np

from transformer_zoo.errors import UserError


@dataclasses.dataclass(frozen=True)
class Bucket:
  """Examples up to some lengths.

  Attributes:
    lengths: The most tokens of each feature, the width of the batch's rows.
    batch_size: The number of rows of its batches.
  """

  lengths: Mapping[str, int]
  batch_size: int


@dataclasses.dataclass(frozen=True)
class Stage:
  """Steps of one batch size and one length of rows.

  Attributes:
    first_step: The first step of the stage.
    batch_size: rows of its batches.
    phase: The number of earlier changes of the lengths or the rates.
    first_row: rows of the same phase before the first step.
  """

  first_step: int
  batch_size: int
  phase: int
  first_row: int


class Stages:
  """The stages of a run; the last has no end.

  Attributes:
    phases: lengths of the rows, feature -> tokens, of each phase.
    mixes: How often the rates have changed, of each phase.
    stages: The stages in order.
  """

  def __init__(
    self,
    batch_size: int,
    lengths: Mapping[str, int],
    batch_size_warmup: Mapping[int, int] | None = None,
    length_warmup: Mapping[int, Mapping[str, int]] | None = None,
    rate_changes: Collection[int] = (),
  ):
    """Plans the stages.

    Args:
      batch_size: The batch size after the warm-up.
      lengths: feature -> tokens, after the warm-up.
      batch_size_warmup: step -> rows of the batches before that step, `{1000:
        32, 3000: 64}` for 32 rows in the steps 0 to 999 and 64 up to 2999.
      length_warmup: step -> lengths of the rows before that step, for all
        features, none above `lengths`.
      rate_changes: The steps from which tasks have other rates.

    Raises:
      UserError: a step, a size or a length is not what is said here.
    """
    batch_sizes = _checked_steps("batch_size_warmup", batch_size_warmup)
    shorter = _checked_steps("length_warmup", length_warmup)
    mixes = sorted(_checked_steps("later_rates", dict.fromkeys(rate_changes)))
    for size in (batch_size, *batch_sizes.values()):
      if not _is_count(size):
        raise UserError(
          f"The batch size {size!r} must be a whole number of rows, 1 or more."
        )
    for until, given in shorter.items():
      _check_lengths(until, given, lengths)
    changes = sorted({*shorter, *mixes})
    widths = (*map(dict, shorter.values()), dict(lengths))
    starts = 0, *changes
    self.phases = tuple(widths[_passed(shorter, start)] for start in starts)
    self.mixes = tuple(_passed(mixes, start) for start in starts)
    self.stages = []
    first_row, before = 0, None
    for first_step in sorted({0, *batch_sizes, *changes}):
      phase = _passed(changes, first_step)
      if before and before.phase == phase:
        first_row += (first_step - before.first_step) * before.batch_size
      else:
        first_row = 0
      sizes = [
        size for until, size in batch_sizes.items() if until > first_step
      ]
      before = Stage(first_step, (*sizes, batch_size)[0], phase, first_row)
      self.stages.append(before)
    self._first_steps = [stage.first_step for stage in self.stages]

  def __call__(self, step: int) -> tuple[Stage, int]:
    """Returns the stage of a step, and its first row within the phase."""
    number = int(np.searchsorted(self._first_steps, step, side="right")) - 1
    stage = self.stages[number]
    return stage, stage.first_row + (step - stage.first_step) * stage.batch_size

  def rows_of(self, phase: int) -> int:
    """Returns the rows of a phase that is not the last."""
    following = next(s for s in self.stages if s.phase == phase + 1)
    return self.rows_before(following.first_step)[phase]

  def rows_before(self, step: int) -> list[int]:
    """Returns the rows before a step of each phase that begins before it."""
    rows = []
    for stage, following in zip(
      self.stages, [*self._first_steps[1:], step], strict=True
    ):
      if stage.first_step >= step and rows:
        break
      steps = min(following, step) - stage.first_step
      del rows[stage.phase :]
      rows.append(stage.first_row + steps * stage.batch_size)
    return rows

  def tokens(self, start: int, stop: int, features: Sequence[str]) -> int:
    """Returns the places of tokens, padding included, in steps.

    Args:
      start: the first step.
      stop: The step after the last one.
      features: The features that a row has (`features.Converter`).
    """
    return self._before(stop, features) - self._before(start, features)

  def _before(self, step: int, features: Sequence[str]) -> int:
    return sum(
      number * sum(lengths[name] for name in features)
      for number, lengths in zip(
        self.rows_before(step), self.phases, strict=False
      )
    )


def _passed(steps: Iterable[int], step: int) -> int:
  return sum(each <= step for each in steps)


def _is_count(value: Any) -> bool:
  whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
  return whole and value >= 1


def _checked_steps(name: str, stages: Mapping[int, Any] | None) -> dict:
  """Returns the stages in order of their steps."""
  for until in stages or ():
    if not _is_count(until):
      raise UserError(
        f"{name} has the step {until!r}; give the first step after each stage, "
        "a whole number of 1 or more."
      )
  return dict(sorted((stages or {}).items()))


def _check_lengths(until: int, given: Any, lengths: Mapping[str, int]) -> None:
  if not isinstance(given, Mapping) or given.keys() != lengths.keys():
    raise UserError(
      f"length_warmup before step {until} is {given!r}; give the tokens of "
      f"{', '.join(map(repr, lengths))}, as in {dict(lengths)}."
    )
  for feature, length in given.items():
    if not _is_count(length) or length > lengths[feature]:
      raise UserError(
        f"length_warmup before step {until} gives {feature!r} {length!r} "
        f"tokens; it must be between 1 and the {lengths[feature]} of the steps "
        "after the warm-up."
      )
