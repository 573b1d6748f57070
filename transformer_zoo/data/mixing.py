"""Rates: the shares in which the tasks of a mixture are drawn.

A rate is a frozen dataclass. SeqIO calls it with a task, like any rate function
of a mixture; `prepare` and `train` know the counts of prepared tasks. All count
the same: the training examples after the task's steps, which may filter rows or
make several examples of one. (SeqIO's own `mixing_rate_num_examples` counts raw
rows until a task is cached and examples from then on, so that caching ReCoRD,
one example per answer, changes the mixture.)
"""

from collections.abc import Mapping, Sequence
import dataclasses
import math
from typing import Any

import gin

from transformer_zoo.data.storage import manifest
from transformer_zoo.errors import nearest
from transformer_zoo.errors import UserError


@gin.register
@dataclasses.dataclass(frozen=True)
class Equal:
  """The same rate for every task that has training examples."""

  def rate(self, count: int, name: str = "") -> float:
    """Returns 1, or 0 where there is nothing to train on."""
    del name
    return 1.0 if count else 0.0

  def __call__(self, task: Any) -> float:
    """Returns the rate of a `seqio.Task`."""
    return 1.0 if "train" in task.splits else 0.0


@gin.register
@dataclasses.dataclass(frozen=True)
class ExamplesProportional:
  """Rates by the number of examples (Raffel et al. 2020, section 3.5.2).

  rate = min(count * scale, maximum) ^ (1 / temperature), in SeqIO's order.
  The paper's artificial limit K is `maximum`; its temperature-scaled mixing has
  a `temperature` T of 2, 4 or 8 and K = 2^21. K clips every task.

  Attributes:
    maximum: K, or None for no limit.
    temperature: T; the larger, the nearer to equal rates.
    scale: factor on every count.
    counts: task -> count that stands for its own, such as a published one, or
      the virtual size of an unlabelled task.
    unclipped: tasks whose rate is their count, whatever the rest says: in the
      released t5 code K clips neither GLUE nor SuperGLUE.
    halved: tasks that the mixture has twice under two names (RTE); each gets
      half of the rate.
  """

  maximum: float | None = None
  temperature: float = 1.0
  scale: float = 1.0
  counts: Mapping[str, int] | None = None
  unclipped: Sequence[str] = ()
  halved: Sequence[str] = ()

  def __post_init__(self):
    for name in ("maximum", "temperature", "scale"):
      value = getattr(self, name)
      if value is not None and not value > 0:
        raise UserError(
          f"ExamplesProportional.{name} is {value}; it must be above 0."
        )
    for task, count in (self.counts or {}).items():
      if count < 0:
        raise UserError(
          f"ExamplesProportional.counts has {count} for {task!r}; a count is "
          "not negative."
        )

  def rate(self, count: int, name: str = "") -> float:
    """Returns the rate of a task.

    Args:
      count: The number of training examples of the task.
      name: The name of the task, for error messages.
    """
    count = (self.counts or {}).get(name, count)
    rate = float(count)
    if name not in self.unclipped:
      rate *= self.scale
      if self.maximum is not None:
        rate = min(rate, self.maximum)
      rate **= 1 / self.temperature
    return rate / 2 if name in self.halved else rate

  def __call__(self, task: Any) -> float:
    """Returns the rate of a `seqio.Task`; counts its examples once.

    Raises:
      UserError: its training split cannot be read.
    """
    if task.name in (self.counts or {}):
      return self.rate(0, task.name)
    return self.rate(_count(task), task.name)


@gin.register
@dataclasses.dataclass(frozen=True)
class TemplatesProportional:
  """The rate of one template of a set, as T0 mixes (Sanh et al. 2022).

  A template counts the examples of its set. A set of more than `maximum` counts
  as `maximum` examples, of which each template gets an equal part.

  Attributes:
    maximum: The most examples of a set that count.
    templates: The number of templates of the set.
  """

  maximum: float = 500_000
  templates: int = 1

  def __post_init__(self):
    for name in ("maximum", "templates"):
      if not getattr(self, name) > 0:
        raise UserError(
          f"TemplatesProportional.{name} is {getattr(self, name)}; it must be "
          "above 0."
        )

  def rate(self, count: int, name: str = "") -> float:
    """Returns the rate of a template of a set with `count` examples."""
    del name
    if count > self.maximum:
      return self.maximum / self.templates
    return float(count)

  def __call__(self, task: Any) -> float:
    """Returns the rate of a `seqio.Task`; counts its examples once.

    Raises:
      UserError: its training split cannot be read.
    """
    return self.rate(_count(task), task.name)


def train_count(task: manifest.PreparedTask) -> int:
  """Returns the number of training examples, 0 without a training split."""
  return task.splits["train"].num_examples if "train" in task.splits else 0


def rates_by_task(
  mixture: manifest.PreparedMixture, rates: Mapping[str, float], setting: str
) -> tuple[float, ...]:
  """Returns the rates of all tasks of a mixture, 0 for those not named.

  Args:
    mixture: prepared.
    rates: The rates by the name of a task.
    setting: The name of the setting, for the message.

  Raises:
    UserError: A task is none of the mixture, a rate is no number of 0 or more,
      or none is above 0.
  """
  names = [task.name for task in mixture.tasks]
  if not isinstance(rates, Mapping):
    raise UserError(
      f"{setting} is {rates!r}; give a rate for each task that is read, as in "
      f"{{{names[0]!r}: 1.0}}"
    )
  for name, rate in rates.items():
    if name not in names:
      raise UserError(
        f"{setting} names {name!r}, which is no task of mixture "
        f"{mixture.name!r}{nearest(name, names)}"
      )
    is_number = isinstance(rate, (int, float)) and not isinstance(rate, bool)
    if not (is_number and 0 <= rate < math.inf):
      raise UserError(
        f"{setting} gives {name!r} the rate {rate!r}; it must be a finite "
        "number of 0 or more"
      )
  if not any(rates.values()):
    raise UserError(
      f"{setting} has no rate above 0; give one to a task of mixture "
      f"{mixture.name!r}: {', '.join(names)}"
    )
  return tuple(float(rates.get(name, 0.0)) for name in names)


def with_rates(
  mixture: manifest.PreparedMixture, rates: Any
) -> manifest.PreparedMixture:
  """Returns the mixture with other rates, computed from the manifests.

  A task of rate 0 is there for evaluation alone and keeps it.

  Args:
    mixture: prepared.
    rates: `Equal`, `ExamplesProportional`, or another object with a method
      `rate(count, name) -> float`.

  Raises:
    UserError: no task has training examples.
  """
  if isinstance(rates, type):
    raise UserError(
      f"rates is {rates.__name__}, not an object of it; write "
      f"@{rates.__name__}() with its parentheses"
    )
  names = [task.name for task in mixture.tasks]
  for field in ("counts", "unclipped", "halved"):
    for name in getattr(rates, field, None) or ():
      if name not in names:
        raise UserError(
          f"ExamplesProportional.{field} names {name!r}, which is no task of "
          f"mixture {mixture.name!r}{nearest(name, names)}"
        )
  new = tuple(
    rates.rate(train_count(task), task.name) if old else 0.0
    for task, old in zip(mixture.tasks, mixture.rates, strict=True)
  )
  if not any(new):
    raise UserError(
      f"Mixture {mixture.name!r} has no task with training examples among "
      + ", ".join(task.name for task in mixture.tasks)
      + "."
    )
  return dataclasses.replace(mixture, rates=new)


def normalized(rates: Sequence[float]) -> list[float]:
  """Returns the rates with a sum of 1, or all 0."""
  total = sum(rates)
  return [rate / total if total else 0.0 for rate in rates]


def _count(task: Any) -> int:
  """Returns the number of training examples of a `seqio.Task`."""
  # Needs SeqIO, as the caller does.
  from transformer_zoo.data.prepare import reading

  return reading.count_examples(task)
