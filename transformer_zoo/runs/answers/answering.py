"""Answers to texts, and scores of targets, by a model on a mesh."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
import dataclasses
import functools
import itertools
import math
from typing import Any

from flax import linen as nn
import jax
import numpy as np

from transformer_zoo.corruption.ragged import Ragged
from transformer_zoo.data.features import converters
from transformer_zoo.data.features import prompts
from transformer_zoo.data.vocabularies import Vocabulary
from transformer_zoo.decoding.generate import generate
from transformer_zoo.decoding.options import DecodingOptions
from transformer_zoo.errors import UserError
from transformer_zoo.runs.answers import scoring
from transformer_zoo.training.sharding import partitioning as partitioning_lib

Example = Mapping[str, Any]

# What an answer may add to its example.
OF_ANSWERS = ("prediction", "predictions", "score", "log_likelihood")
# Widths of batches are at least this, and powers of two up to the length.
_NARROWEST = 16


class Answering:
  """Computes answers batch by batch.

  Call it inside of `Partitioning.activate`.
  """

  def __init__(
    self,
    model: nn.Module,
    vocabulary: Vocabulary,
    *,
    params: Any,
    mesh: jax.sharding.Mesh,
    lengths: Mapping[str, int],
    batch_size: int,
    converter: converters.Converter,
    decoding: DecodingOptions,
    report: Callable[[str], None],
  ):
    """Prepares the functions; nothing is compiled.

    Args:
      model: The architecture.
      vocabulary: The vocabulary of inputs and targets.
      params: The parameters on the mesh.
      mesh: The mesh of devices.
      lengths: The number of tokens of each feature. Longer texts lose their
        end, or their beginning if a language model continues them.
      batch_size: The number of examples of a batch, a multiple of the data axis
        of the mesh.
      converter: The layout of a batch.
      decoding: The options of the search.
      report: A function that is called with a sentence on texts that are cut.

    Raises:
      UserError: The options do not fit the length of the targets.
    """
    self._vocabulary = vocabulary
    self._params = params
    self._mesh = mesh
    self._lengths = converters.with_room(converter, lengths)
    self._batch_size = batch_size
    self._continued = converters.continues(converter)
    self._converter = converters.with_inputs(converter)
    self._decoding = decoding.with_length(lengths["targets"])
    self._widths = Widths.of_model(model, self._lengths, self._decoding)
    self._report = report
    self._ids = scoring.special_ids(vocabulary, converter)
    self._generate = scoring.with_room(
      jax.jit(
        functools.partial(
          generate,
          model,
          max_length=lengths["targets"],
          options=decoding,
          **self._ids,
        )
      ),
      self._decoding,
      mesh,
    )
    self._example_sums = scoring.make_example_sums(model, decoding)

  def answers(
    self, examples: Iterable[Example], first: int = 0
  ) -> Iterator[list[dict[str, Any]]]:
    """Yields, for each batch, its examples with their answers.

    Each has `prediction`, `score` and `log_likelihood` of the best output; all
    outputs are listed under `predictions` if several are returned. Values of
    these names from an earlier answer are left out.

    Args:
      examples: The examples, with `inputs` and an optional `prefix` that
        outputs begin with.
      first: The number of the first example, which random draws depend on.

    Raises:
      UserError: The devices have no room for the search, the options forbid
        every token, or the model's log-probabilities are NaN.
    """
    for batch in batches(examples, self._batch_size):
      inputs = prompts.before(
        self._converter, self._encoded(batch, "inputs", first)
      )
      forced_BF = self._prefixes(batch)
      width = self._widths.of_prompts(inputs)
      inputs_BM, _ = self._filled(inputs).padded(width, self._ids["pad_id"])
      put = self._put(
        inputs_BM=inputs_BM,
        lengths_B=self._filled(inputs).lengths.astype(np.int32),
        example_ids_B=first + np.arange(self._batch_size, dtype=np.int32),
        **({} if forced_BF is None else {"forced_BF": forced_BF}),
      )
      outputs = self._generate(self._params, **put)
      outputs = jax.tree.map(partitioning_lib.fetch_whole, outputs)
      yield [
        {
          **_given(example),
          **self._answer(outputs, row, first + row + 1),
        }
        for row, example in enumerate(batch)
      ]
      first += len(batch)

  def scores(
    self, examples: Iterable[Example], first: int = 0
  ) -> Iterator[list[dict]]:
    """Yields, for each batch, its examples with scores of their targets.

    Each has `log_likelihood`, the sum over the `target_tokens` tokens of its
    targets, EOS included, in nats. Values of an earlier answer are left out.

    Args:
      examples: The examples, with `inputs` and `targets`.
      first: The number of the first example.

    Raises:
      UserError: The model's log-probabilities are NaN.
    """
    for batch in batches(examples, self._batch_size):
      sums = self.sums(self._texts(batch, first))
      yield [
        {
          **_given(example),
          "log_likelihood": -_number(sums["loss_sum"][row], first + row + 1),
          "target_tokens": int(sums["weight_sum"][row]),
        }
        for row, example in enumerate(batch)
      ]
      first += len(batch)

  def sums(self, sides: Mapping[str, Ragged]) -> dict[str, np.ndarray]:
    """Returns `example_sums` of the model, float32 [rows] each.

    Args:
      sides: The ids of `inputs` and `targets`, a batch of rows at most.
    """
    put = self._put(**self._laid_out(sides))
    return jax.tree.map(
      partitioning_lib.fetch_whole, self._example_sums(self._params, put)
    )

  def continuation(
    self, context: str, text: str
  ) -> tuple[list[int], list[int]]:
    """Returns the ids of a context, and of a text that stands right behind it.

    Spaces that end the context go to the text. A model that continues its
    inputs has both encoded together; otherwise the context ends as inputs do.
    Nothing ends the text.

    Args:
      context: The context, which may be empty.
      text: The text.
    """
    kept = context.rstrip()
    text = context[len(kept) :] + text
    begin, end = self._marks("inputs")
    known = [*begin, *self._vocabulary.encode_prompt(kept), *end]
    if not self._continued:
      return known, [*self._vocabulary.encode_targets(text)]
    whole = [*begin, *self._vocabulary.encode_prompt(kept + text)]
    said = whole[len(known) :]
    if not known and not self._decoding.start_before_prompt:
      # Something has to be read before the first token.
      ids = (self._vocabulary.bos_id, self._vocabulary.eos_id)
      known = [next((i for i in ids if i is not None), self._ids["pad_id"])]
    return known, said

  def pairs(
    self, batch: Sequence[Example], first: int = 0
  ) -> dict[str, np.ndarray]:
    """Returns what the model reads of `inputs` and `targets`, a row for each.

    Args:
      batch: At most a batch of examples.
      first: The number of the first example, for messages.
    """
    return self._laid_out(self._texts(batch, first))

  def _texts(self, batch: Sequence[Example], first: int) -> dict[str, Ragged]:
    return {
      feature: self._encoded(batch, feature, first)
      for feature in ("inputs", "targets")
    }

  def _laid_out(self, sides: Mapping[str, Ragged]) -> dict[str, np.ndarray]:
    return self._converter(
      sides,
      np.arange(len(sides["targets"].lengths)),
      num_rows=self._batch_size,
      lengths=self._widths.of_pairs(sides),
      packing=False,
      pad_id=self._ids["pad_id"],
    )

  def _put(self, **arrays: np.ndarray) -> dict[str, jax.Array]:
    return partitioning_lib.put_whole_batch(arrays, self._mesh)

  def _encoded(
    self, batch: Sequence[Example], feature: str, first: int
  ) -> Ragged:
    """Returns the ids of a text of each example, cut to the feature's length.

    The converter's `begin_id` begins them, and EOS ends them unless the model
    continues them, or the vocabulary has no EOS (GPT's); the converter's
    `end_id` ends inputs.
    """
    continued = self._continued and feature == "inputs"
    begin, end = self._marks(feature)
    room = self._lengths[feature] - len(begin) - len(end)
    encode = (
      self._vocabulary.encode_targets
      if feature == "targets"
      else self._vocabulary.encode_prompt
    )
    rows, cut = [], []
    for number, example in enumerate(batch, first + 1):
      ids = encode(example[feature])
      if len(ids) > room:
        cut.append(number)
        ids = ids[-room:] if continued else ids[:room]
      rows.append(np.array([*begin, *ids, *end], np.int32))
    if cut:
      self._report(
        f"{feature} of example {', '.join(map(str, cut))} exceed "
        f"{self._lengths[feature]} tokens and lose their "
        f"{'beginning' if continued else 'end'}; TASK_FEATURE_LENGTHS has the "
        "lengths"
      )
    return Ragged.of(rows)

  def _marks(self, feature: str) -> tuple[list[int], list[int]]:
    """The ids that begin and end a feature."""
    eos_id = self._ids["eos_id"]
    begin_id = self._converter.begin_id
    begin = [] if begin_id is None else [begin_id]
    continued = self._continued and feature == "inputs"
    end = [] if continued or eos_id == scoring.NO_END else [eos_id]
    if feature == "inputs" and self._converter.end_id is not None:
      end.append(self._converter.end_id)
    return begin, end

  def _prefixes(self, batch: Sequence[Example]):
    """Returns the ids that outputs begin with, padded by -1, or None."""
    rows = [
      self._vocabulary.encode_targets(example.get("prefix", ""))
      for example in batch
    ]
    if not any(rows):
      return None
    prefixes = Ragged.of([np.array(ids, np.int32) for ids in rows])
    options = self._decoding
    longest = options.max_length - len(options.forced_prefix)
    return self._filled(prefixes).padded(width(prefixes, longest), -1)[0]

  def _filled(self, rows: Ragged) -> Ragged:
    """The rows, the last one repeated up to a whole batch."""
    order = np.minimum(np.arange(self._batch_size), len(rows.lengths) - 1)
    return rows.take(order)

  def _answer(self, outputs, row: int, number: int) -> dict[str, Any]:
    if _number(outputs.scores[row, 0], number) == -math.inf:
      raise UserError(
        f"nothing can be made for example {number}: the options forbid every "
        "token at some place; loosen no_repeat_ngram_size, forbidden_ids or "
        "min_length"
      )
    found = [
      {
        "prediction": self._vocabulary.decode(
          self._decoding.before_end(ids),
          skip_special_tokens=self._decoding.skip_special_tokens,
        ),
        "score": float(score),
        "log_likelihood": float(log_likelihood),
      }
      for ids, score, log_likelihood in zip(
        outputs.tokens[row].tolist(),
        outputs.scores[row],
        outputs.log_likelihoods[row],
        strict=True,
      )
    ]
    if len(found) == 1:
      return found[0]
    # A score of -inf is an empty place: there were no more outputs to find.
    some = [each for each in found if each["score"] > -math.inf]
    return found[0] | {"predictions": some}


def _given(example: Example) -> dict[str, Any]:
  """Returns the values of an example, without an earlier answer's."""
  return {k: v for k, v in example.items() if k not in OF_ANSWERS}


def _number(found: np.ndarray, example: int) -> float:
  """Returns a log-probability of an example.

  Raises:
    UserError: It is NaN.
  """
  check_numbers("log-probabilities", found, example)
  return float(found)


def check_numbers(name: str, found: np.ndarray, example: int) -> None:
  """Refuses outputs of a model that are no numbers.

  Args:
    name: What the outputs are, in the plural.
    found: The outputs for one example, of any shape.
    example: The number of the example.

  Raises:
    UserError: One of them is NaN.
  """
  if np.isnan(found).any():
    raise UserError(
      f"the {name} of example {example} are no numbers (NaN): the parameters "
      "are damaged or have diverged; take another checkpoint"
    )


def batches(examples: Iterable[Any], size: int) -> Iterator[list[Any]]:
  """Yields lists of `size` examples; the last one may be shorter."""
  examples = iter(examples)
  while batch := list(itertools.islice(examples, size)):
    yield batch


@dataclasses.dataclass(frozen=True)
class Widths:
  """Widths of batches: few, so that few shapes are compiled.

  If a model has learned positions, padding alone never makes a batch wider than
  their number.

  Attributes:
    lengths: The largest number of tokens of each feature.
    decoding: The options of the search, with their `max_length`.
    positions: The number of positions of each feature, infinite if unlimited.
    one_sequence: Whether inputs and targets share the positions, because there
      is no encoder.
  """

  lengths: Mapping[str, int]
  decoding: DecodingOptions
  positions: Mapping[str, float]
  one_sequence: bool

  @classmethod
  def of_model(
    cls,
    model: nn.Module,
    lengths: Mapping[str, int],
    decoding: DecodingOptions,
  ) -> "Widths":
    """Returns the widths of an architecture, or of an ensemble of several."""
    offers = model.offers
    sides = {"inputs": offers.sides[0], "targets": offers.sides[-1]}
    positions = {
      feature: offers.num_positions(side) or math.inf
      for feature, side in sides.items()
    }
    return cls(lengths, decoding, positions, len(offers.sides) == 1)

  @property
  def room(self) -> float:
    """The number of positions of inputs that outputs are made for."""
    room = self.positions["inputs"]
    if self.one_sequence:
      room += self.unread - self.decoding.max_length
    return room

  def of_prompts(self, inputs: Ragged) -> int:
    """Returns the width of inputs that outputs are made for."""
    return width(inputs, min(self.lengths["inputs"], self.room))

  def of_pairs(self, sides: Mapping[str, Ragged]) -> dict[str, int]:
    """Returns the widths of `inputs` and `targets`, by these names.

    If both are one sequence, the sum of the widths has room for every row.
    """
    widths = {
      name: width(side, min(self.lengths[name], self.positions[name]))
      for name, side in sides.items()
    }
    if self.one_sequence:
      longest = sum(side.lengths for side in sides.values()).max()
      room = max(self.positions["targets"] + self.unread, int(longest))
      widths["targets"] = min(widths["targets"], room)
      widths["inputs"] = min(widths["inputs"], room - widths["targets"])
    return widths

  @property
  def unread(self) -> int:
    """The number of places of a row that are not read: the start token's."""
    return int(not self.decoding.start_before_prompt)


def width(rows: Ragged, longest: float) -> int:
  """Returns the next width, at most `longest` unless a row is longer."""
  needed = int(rows.lengths.max())
  found = _NARROWEST
  while found < needed:
    found *= 2
  return max(min(found, longest), needed)
