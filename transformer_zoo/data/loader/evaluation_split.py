"""A split of a prepared task in batches, for evaluation: each example once."""

from collections.abc import Callable, Iterator, Mapping, Sequence
import dataclasses
from typing import Any

import numpy as np

from transformer_zoo.corruption.ragged import Ragged
from transformer_zoo.data import trimming
from transformer_zoo.data.features import converters
from transformer_zoo.data.features import prompts
from transformer_zoo.data.loader import sources
from transformer_zoo.data.storage import manifest
from transformer_zoo.errors import UserError


@dataclasses.dataclass(frozen=True)
class EvaluationBatch:
  """Some examples of a split.

  Attributes:
    arrays: {SeqIO's key: int32 [batch size, width]}; rows without an example
      have weights of 0.
    places: place in the split of each example, int64 [examples].
    texts: the untokenised rest of each example.
    ids: feature -> int32 ids of each example, trimmed.
    inputs: int32 [batch size, width], what is read before targets are made.
    input_lengths: int32 [batch size], tokens of each; of rows of an encoder,
      those behind a prompt.
    prompt_length: The number of places of a prompt before each example.
  """

  arrays: dict[str, np.ndarray]
  places: np.ndarray
  texts: list[dict[str, Any]]
  ids: list[dict[str, np.ndarray]]
  inputs: np.ndarray
  input_lengths: np.ndarray
  prompt_length: int = 0


class EvaluationSplit:
  """A split of a task in batches.

  Attributes:
    num_examples: The number of examples in all batches; of a task with long
      contexts, the number of their windows.
    num_batches: The number of batches.
    lengths: feature -> the most tokens that are read of it.
    truncated: feature -> examples that are longer than its given length; in a
      form what is cut, such as "choices"; nothing for unlabelled text, which is
      cut to fit.
  """

  def __init__(
    self,
    task: manifest.PreparedTask,
    split: str,
    lengths: Mapping[str, int],
    batch_size: int,
    *,
    corruption: Callable[..., dict[str, Ragged]] | None = None,
    converter: converters.Converter = converters.ENCODER_DECODER,
    max_examples: int | None = None,
    grouped: bool = True,
  ):
    """Opens the split and plans its batches.

    Args:
      task: the prepared task.
      split: one of its splits.
      lengths: tokens of 'inputs' and 'targets', EOS counted.
      batch_size: rows of every batch; the last is filled with empty rows.
      corruption: instead of the task's own.
      converter: lays the examples out as a model reads them. One that leaves
        inputs out reads them nevertheless where the task is scored
        (`converters.continues`); too long ones lose their beginning.
      max_examples: The largest number of examples, from the first, where a
        question with its choices is one; None for all.
      grouped: examples of similar lengths share a batch, which is as narrow as
        they allow; otherwise all have the full widths and the split's order.

    Raises:
      UserError: the arguments do not fit each other or the data.
    """
    if batch_size < 1:
      raise UserError(f"The batch size {batch_size} must be 1 or more.")
    if max_examples is not None and max_examples < 1:
      raise UserError(
        f"The number of examples {max_examples} must be 1 or more; leave it "
        "out for all."
      )
    asked = task.scoring is not None and "inputs" in task.features
    self._continued = asked and converters.continues(converter)
    if self._continued:
      lengths = converters.with_room(converter, lengths)
      converter = converters.with_inputs(converter)
    self.lengths = lengths
    self._converter = converter
    self._source = sources.open_source(
      task,
      split,
      lengths,
      corruption,
      converter=converter,
      trimming_rule=trimming.ContinuedInputs() if self._continued else None,
    )
    self._seed = task.corruption_seed
    self._pad_id = task.vocabulary.pad_id
    self._eos_id = task.vocabulary.eos_id
    self._batch_size = batch_size
    total = self._source.num_examples
    if max_examples is not None and task.kind == "examples":
      # A long context, or a question with its choices, is several rows, which
      # are scored together.
      max_examples = self._source.rows_of(max_examples)
    self.num_examples = (
      total if max_examples is None else min(total, max_examples)
    )
    full = tuple(lengths[feature] for feature in converter.features)
    if grouped:
      self._plan = group(
        self._source.lengths(np.arange(self.num_examples)),
        [
          widths(feature, width)
          for feature, width in zip(converter.features, full, strict=True)
        ],
        batch_size,
      )
    else:
      places = np.arange(self.num_examples)
      cuts = range(batch_size, self.num_examples, batch_size)
      self._plan = [(some, full) for some in np.split(places, cuts)]
    self.num_batches = len(self._plan)
    self.truncated = {}
    if task.form is not None:
      number = self._source.num_cut(self.num_examples)
      self.truncated = {self._source.cut_part: number}
    elif task.kind == "examples":
      untrimmed = task.lengths(split)[: self.num_examples]
      room = converters.room(converter, lengths)
      self.truncated = {
        feature: int(np.sum(untrimmed[:, i] > room[feature]))
        for i, feature in enumerate(task.features)
        if feature in converter.features
      }

  def __iter__(self) -> Iterator[EvaluationBatch]:
    """Yields every example once; the same batches each time.

    Chunk i of an unlabelled task always gets the corruption of the key
    `(task.corruption_seed, i)`, as in SeqIO.
    """
    for places, widths in self._plan:
      read = self._source.read(places, self._seed, places)
      examples = dict(read.features)
      if self._continued:
        examples["inputs"] = converters.without_end(
          examples["inputs"], self._eos_id
        )
      lengths = dict(zip(self._converter.features, widths, strict=True))
      arrays = self._converter(
        examples,
        np.arange(len(places)),
        num_rows=self._batch_size,
        lengths=lengths,
        packing=False,
        pad_id=self._pad_id,
      )
      ids = [
        dict(zip(self._converter.features, rows, strict=True))
        for rows in zip(
          *(read.features[name].rows() for name in self._converter.features),
          strict=True,
        )
      ]
      yield EvaluationBatch(
        arrays,
        places,
        read.texts,
        ids,
        *self._inputs(examples, lengths),
        prompt_length=prompts.length_of(self._converter),
      )

  def _inputs(self, examples, lengths):
    """Inputs as they are read alone, and their lengths."""
    width, inputs = lengths.get("inputs", 1), examples.get("inputs")
    writes = self._converter.writes
    if inputs is not None and writes:
      width += prompts.length_of(self._converter)
      inputs = prompts.before(self._converter, inputs)
    inputs_BM = np.full((self._batch_size, width), self._pad_id, np.int32)
    lengths_B = np.zeros(self._batch_size, np.int32)
    if inputs is not None:
      rows, _ = inputs.padded(width, self._pad_id)
      inputs_BM[: len(rows)] = rows
      lengths_B[: len(rows)] = inputs.lengths
    return inputs_BM, lengths_B


# Feature -> (what each width is of the one above it, the smallest). The cost of
# a batch is mostly its inputs'; below the smallest, padding costs less than the
# compilation of one more program.
_MENUS = {"inputs": (2 / 3, 64), "targets": (1 / 2, 16)}


def widths(feature: str, length: int) -> tuple[int, ...]:
  """Returns the allowed widths of a feature, ascending, `length` the last.

  All but the last are multiples of 8.

  Args:
    feature: 'inputs' or 'targets'.
    length: the width that holds every example.
  """
  ratio, smallest = _MENUS[feature]
  found = [length]
  while True:
    narrower = -(-int(found[0] * ratio) // 8) * 8
    if not smallest <= narrower < found[0]:
      break
    found.insert(0, narrower)
  return tuple(found)


def group(
  lengths: np.ndarray, limits: Sequence[tuple[int, ...]], batch_size: int
) -> list[tuple[np.ndarray, tuple[int, ...]]]:
  """Divides examples into batches, the longest first.

  Sorted by the width that the first feature needs, then by the length of the
  last: the first is the cost of the encoder, the second is how many steps
  decoding will take. All batches but the last are full.

  Args:
    lengths: int [examples, features].
    limits: the allowed widths of each feature, ascending.
    batch_size: the most examples of a batch.

  Returns:
    (places of the examples, width of each feature) of each batch. Examples
    that need the same keep their order.
  """
  needed = np.stack(
    [
      np.asarray(allowed)[np.searchsorted(allowed, column)]
      for allowed, column in zip(limits, lengths.T, strict=True)
    ],
    axis=1,
  )
  # The last key is the first to sort by.
  order = np.lexsort((-lengths[:, -1], -needed[:, 0]))
  batches = []
  for start in range(0, len(order), batch_size):
    places = order[start : start + batch_size]
    batches.append((places, tuple(map(int, needed[places].max(axis=0)))))
  return batches
