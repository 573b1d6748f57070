"""Rules that shorten examples longer than the lengths of a run.

At their end, unless a step of the task cuts them otherwise. Such a step knows
the lengths only where SeqIO reads the task itself. Prepared examples are whole;
the step says what it does in its attribute `trimming`, the manifest keeps that,
and it is done when an example is read.
"""

from collections.abc import Iterable, Mapping, Sequence
import dataclasses
from typing import Any, ClassVar, Protocol

import numpy as np

from transformer_zoo.corruption.draws import Draws
from transformer_zoo.data.features import converters
from transformer_zoo.data.storage import manifest
from transformer_zoo.data.vocabularies import Vocabulary
from transformer_zoo.errors import UserError

Tokens = dict[str, np.ndarray]


class Rule(Protocol):
  """Shortens the features of an example that are too long.

  What is still too long is cut at its end.

  Attributes:
    drawn: whether it depends on the place in the mixture: another epoch has
      another result.
  """

  drawn: ClassVar[bool]

  def __call__(
    self,
    tokens: Tokens,
    text: Mapping[str, Any],
    lengths: Mapping[str, int],
    vocabulary: Vocabulary,
    draws: Draws | None,
  ) -> Tokens:
    """Returns the features of an example.

    Args:
      tokens: ids of each feature, EOS included where the task has one.
      text: the untokenised rest of the example.
      lengths: the most ids of each feature, EOS counted.
      vocabulary: The vocabulary of all features.
      draws: The draws of one example, or None if nothing is drawn.
    """


@dataclasses.dataclass(frozen=True)
class KeepLast:
  """Keeps the last tokens and cuts out what is before them.

  As SeqIO's `add_task_with_sentinels`, in inputs and targets alike.

  Attributes:
    number: The number of tokens that stay, EOS not counted.
  """

  drawn: ClassVar[bool] = False
  number: int

  def __call__(self, tokens, text, lengths, vocabulary, draws):
    del text, draws
    return {
      feature: self.cut(ids, lengths[feature], vocabulary.eos_id)
      if feature in lengths
      else ids
      for feature, ids in tokens.items()
    }

  def cut(self, ids: np.ndarray, length: int, eos_id: int) -> np.ndarray:
    """Returns at most `length` of the ids of one feature."""
    if len(ids) <= length:
      return ids
    last = min(self.number + int(ids[-1] == eos_id), length)
    return np.concatenate([ids[: length - last], ids[len(ids) - last :]])


@dataclasses.dataclass(frozen=True)
class WindowWithTargets:
  """Cuts inputs to a window, at a random place, that has the targets in it.

  As t5's `trivia_qa_truncate_inputs`, for examples that have them; inputs that
  do not are cut at their end.
  """

  drawn: ClassVar[bool] = True

  def __call__(self, tokens, text, lengths, vocabulary, draws):
    del text
    if "inputs" not in lengths:
      return tokens
    inputs, ended = _without_eos(tokens["inputs"], vocabulary.eos_id)
    targets, _ = _without_eos(tokens["targets"], vocabulary.eos_id)
    length = lengths["inputs"]
    first = _find(targets, inputs)
    if len(inputs) <= length or first is None:
      return tokens
    lowest = max(first + len(targets) - length, 0)
    highest = max(min(first, len(inputs) - length), lowest)
    start = lowest + int(draws.integers(highest - lowest + 1, 1)[0, 0])
    return tokens | {"inputs": np.append(inputs[start : start + length], ended)}


@dataclasses.dataclass(frozen=True)
class FewerDemonstrations:
  """Leaves out demonstrations, the first ones first, until the inputs fit.

  Inputs that do not fit without any lose their beginning.

  The example has `demonstration_starts`, the places in the UTF-8 of
  `inputs_pretokenized` where each demonstration begins and, last, the example's
  own part.
  """

  drawn: ClassVar[bool] = False

  def __call__(self, tokens, text, lengths, vocabulary, draws):
    del draws
    if "inputs" not in lengths:
      return tokens
    ids, ended = _without_eos(tokens["inputs"], vocabulary.eos_id)
    ids = self.cut(
      ids,
      text["inputs_pretokenized"].encode("utf-8"),
      text["demonstration_starts"],
      lengths["inputs"] - len(ended),
      vocabulary,
    )
    return tokens | {"inputs": np.append(ids, ended)}

  def cut(
    self,
    ids: np.ndarray,
    text: bytes,
    starts: Sequence[int],
    length: int,
    vocabulary: Vocabulary,
  ) -> np.ndarray:
    """Returns at most `length` ids.

    Args:
      ids: The ids of the whole `text`, without EOS.
      text: the inputs.
      starts: The starts of the demonstrations, as in the class.
      length: the most ids that stay.
      vocabulary: The vocabulary that made `ids`.
    """
    for start in starts[1:]:
      if len(ids) <= length:
        break
      shorter = (text[: starts[0]] + text[start:]).decode("utf-8")
      ids = np.array(vocabulary.encode(shorter), np.int32)
    return ids[max(len(ids) - length, 0) :]


@dataclasses.dataclass(frozen=True)
class ContinuedInputs:
  """Cuts inputs at their beginning: a text is continued at its end.

  Their EOS, which nothing continues, goes first. No step of a task has this
  rule; models that continue texts (`converters.continues`) apply it to tasks
  without one.
  """

  drawn: ClassVar[bool] = False

  def __call__(self, tokens, text, lengths, vocabulary, draws):
    del text, draws
    ids, _ = _without_eos(tokens["inputs"], vocabulary.eos_id)
    return tokens | {"inputs": ids[max(len(ids) - lengths["inputs"], 0) :]}


_RULES = {
  rule.__name__: rule
  for rule in (KeepLast, WindowWithTargets, FewerDemonstrations)
}


def find(steps: Iterable[Any]) -> dict[str, Any] | None:
  """Returns the spec of the rule of a task's steps, None where none has one.

  Raises:
    UserError: several steps have one.
  """
  rules = [step.trimming for step in steps if hasattr(step, "trimming")]
  if len(rules) > 1:
    raise UserError(
      "two steps of the task cut long examples, by "
      + " and ".join(type(rule).__name__ for rule in rules)
      + "; one rule is possible."
    )
  return to_spec(rules[0]) if rules else None


def to_spec(rule: Rule) -> dict[str, Any]:
  """Returns JSON of a rule: {'name': 'KeepLast', 'number': 1}."""
  return {"name": type(rule).__name__, **dataclasses.asdict(rule)}


def from_spec(spec: Mapping[str, Any]) -> Rule:
  """Returns the rule of a spec."""
  fields = dict(spec)
  return _RULES[fields.pop("name")](**fields)


class Trimmer:
  """Cuts the examples of a prepared task to the lengths of a run.

  Attributes:
    drawn: whether another epoch has another result.
  """

  def __init__(
    self,
    task: manifest.PreparedTask,
    lengths: Mapping[str, int],
    usual: Rule | None = None,
  ):
    """Makes one for a task.

    Args:
      task: has a rule, or none.
      lengths: the most ids of each feature, EOS counted.
      usual: the rule where the task has none.
    """
    self._rule = from_spec(task.trimming) if task.trimming else usual
    self._lengths = lengths
    self._vocabulary = task.vocabulary
    self._eos_after_trim = task.eos_after_trim
    self.drawn = self._rule is not None and self._rule.drawn

  def __call__(
    self,
    tokens: Tokens,
    text: Mapping[str, Any],
    key: tuple[int, int] | None = None,
  ) -> Tokens:
    """Returns the features of an example, cut where they are too long.

    Args:
      tokens: ids of each feature.
      text: the untokenised rest of the example.
      key: (seed, place in the mixture), where `drawn`.
    """
    too_long = any(
      len(tokens[name]) > length
      for name, length in self._lengths.items()
      if name in tokens
    )
    if too_long and self._rule is not None:
      draws = Draws(key[0], np.array([key[1]])) if self.drawn else None
      tokens = self._rule(tokens, text, self._lengths, self._vocabulary, draws)
    return {
      name: converters.trim(
        tokens[name], length, self._eos_after_trim, self._vocabulary.eos_id
      )
      for name, length in self._lengths.items()
      if name in tokens
    }


def _without_eos(ids: np.ndarray, eos_id: int) -> tuple[np.ndarray, np.ndarray]:
  """Returns the ids, and apart from them the EOS that they end in, if any."""
  number = len(ids) - int(len(ids) > 0 and ids[-1] == eos_id)
  return ids[:number], ids[number:]


def _find(part: np.ndarray, whole: np.ndarray) -> int | None:
  """Returns where `part` first is in `whole`, None where it is not."""
  if not 0 < len(part) <= len(whole):
    return None
  windows = np.lib.stride_tricks.sliding_window_view(whole, len(part))
  found = np.flatnonzero((windows == part).all(axis=1))
  return int(found[0]) if found.size else None
