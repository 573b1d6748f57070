"""Rows in which a prompt of trained vectors precedes every example.

The places of a prompt have ids beyond every vocabulary, `FIRST_ID` and those
after it, which `peft/prompts.py` embeds. They are laid out as tokens of the
inputs are: packed rows have a prompt in front of each of their texts, positions
and segments count it, and decoding reads it as it reads inputs. Rows are as
much longer than `task_feature_lengths`, so that a prompt cuts no text.
"""

from collections.abc import Mapping
import dataclasses
from typing import Any

import numpy as np

from transformer_zoo.corruption.ragged import Ragged
from transformer_zoo.data.features import converters
from transformer_zoo.data.features.converters import Converter
from transformer_zoo.data.features.converters import Shape
from transformer_zoo.errors import UserError

# The id of the first place of a prompt; no vocabulary has as many.
FIRST_ID = 1 << 28


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Prompted:
  """A converter before which prompts are put.

  Attributes:
    prompt_length: The number of vectors of the prompt.
    prompted: The feature whose examples a prompt precedes.
  """

  prompt_length: int
  prompted: str = "inputs"

  def __post_init__(self):
    if self.prompt_length < 1:
      raise UserError(
        f"PROMPT_LENGTH is {self.prompt_length}; a prompt has 1 vector or more"
      )

  def capacities(self, lengths: Mapping[str, int]) -> tuple[int, ...]:
    """As `Converter.capacities`."""
    return super().capacities(self._longer(lengths))

  def sizes(self, lengths: np.ndarray) -> np.ndarray:
    """As `Converter.sizes`."""
    place = self.features.index(self.prompted)
    more = np.zeros(len(self.features), lengths.dtype)
    more[place] = self.prompt_length
    return super().sizes(lengths + more)

  def shapes(
    self, lengths: Mapping[str, int], num_rows: int, packing: bool
  ) -> dict[str, Shape]:
    """As `Converter.shapes`."""
    return super().shapes(self._of_rows(lengths), num_rows, packing)

  def __call__(
    self,
    examples: Mapping[str, Ragged],
    rows: np.ndarray,
    *,
    num_rows: int,
    lengths: Mapping[str, int],
    packing: bool,
    pad_id: int,
  ) -> dict[str, np.ndarray]:
    """As `Converter.__call__`.

    Raises:
      UserError: Examples consist of several texts each.
    """
    if "segment_lengths" in examples:
      raise UserError(
        "a prompt precedes whole examples, and these consist of several texts "
        "each (choices, or documents that share a row); train them without a "
        "prompt"
      )
    batch = super().__call__(
      self._preceded(examples, pad_id),
      rows,
      num_rows=num_rows,
      lengths=self._of_rows(lengths),
      packing=packing,
      pad_id=pad_id,
    )
    ids = batch.get("decoder_target_tokens")
    if ids is not None:
      # A loss looks no id up beyond its logits, whatever the weight.
      is_prompt = ids >= FIRST_ID
      weights = batch["decoder_loss_weights"]
      batch["decoder_target_tokens"] = np.where(is_prompt, pad_id, ids)
      batch["decoder_loss_weights"] = np.where(is_prompt, 0, weights)
    return batch

  def _longer(self, lengths: Mapping[str, int]) -> dict[str, int]:
    longer = lengths[self.prompted] + self.prompt_length
    return {**lengths, self.prompted: longer}

  def _of_rows(self, lengths: Mapping[str, int]) -> Mapping[str, int]:
    """The lengths that the converter without a prompt lays rows out by."""
    return self._longer(lengths)

  def _preceded(
    self, examples: Mapping[str, Ragged], pad_id: int
  ) -> dict[str, Ragged]:
    """The examples with a prompt."""
    del pad_id
    return {**examples, self.prompted: before(self, examples[self.prompted])}


@dataclasses.dataclass(frozen=True)
class EncoderDecoder(_Prompted, converters.EncoderDecoder):
  """The prompt precedes what the encoder reads."""


@dataclasses.dataclass(frozen=True)
class PrefixLanguageModel(_Prompted, converters.PrefixLanguageModel):
  """The prompt precedes the inputs; it has no loss."""

  def _of_rows(self, lengths: Mapping[str, int]) -> Mapping[str, int]:
    return lengths  # Rows are as long as `capacities` says.


@dataclasses.dataclass(frozen=True, kw_only=True)
class LanguageModel(_Prompted, converters.LanguageModel):
  """The prompt precedes the text; it has no loss."""

  prompted: str = "targets"

  def with_inputs(self) -> Converter:
    """As `converters.LanguageModel.with_inputs`, with the prompt."""
    return PrefixLanguageModel(
      bos_id=self.bos_id, prompt_length=self.prompt_length
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Encoder(_Prompted, converters.Encoder):
  """The prompt precedes the text; answers are read where they were.

  Attributes:
    answers_at_prompt: Whether the class or number of a text is read at the
      first vector of its prompt, as in `peft`, and not at [CLS].
  """

  answers_at_prompt: bool = False

  def __post_init__(self):
    _Prompted.__post_init__(self)
    converters.Encoder.__post_init__(self)
    if self.answers_at_prompt and self.answering != "first":
      raise UserError(
        "PromptedFeatures.answers_at_prompt is True, but the last token of a "
        "text answers; no prompt lies there"
      )

  def _preceded(
    self, examples: Mapping[str, Ragged], pad_id: int
  ) -> dict[str, Ragged]:
    places = {"targets": pad_id, "weights": 0, "token_types": 0, "orders": -1}
    result = super()._preceded(examples, pad_id)
    for name, value in places.items():
      if name in examples:
        fill = np.full(self.prompt_length, value)
        result[name] = _preceded(examples[name], fill)
    for name in ("answer_starts", "answer_ends"):
      if name in examples:
        old = examples[name]
        moved = old.values + self.prompt_length * (old.values >= 0)
        result[name] = Ragged(moved.astype(old.values.dtype), old.lengths)
    if self.answers_at_prompt and self.answers_at_one_token:
      for name in ("targets", "weights"):
        result[name] = _swapped(result[name], self.prompt_length)
    return result


_KINDS = (EncoderDecoder, PrefixLanguageModel, LanguageModel, Encoder)


def prompted(
  of: Converter, length: int, answers_at_prompt: bool = False
) -> Converter:
  """Returns a converter that puts a prompt before every example.

  Args:
    of: The converter of the examples.
    length: The number of vectors of the prompt.
    answers_at_prompt: As in `Encoder`; without effect on other models.

  Raises:
    UserError: The converter has a prompt already, or is of an unknown kind.
  """
  for kind in _KINDS:
    if type(of) is kind.__bases__[-1]:
      own = {"answers_at_prompt": answers_at_prompt} if kind is Encoder else {}
      return kind(**vars(of), prompt_length=length, **own)
  raise UserError(
    f"prompted_features.of is {type(of).__name__}; a prompt goes before the "
    "examples of EncoderDecoderFeatures, LanguageModelFeatures, "
    "PrefixLanguageModelFeatures and EncoderFeatures, once"
  )


def length_of(part: Any) -> int:
  """The number of vectors of a prompt, of a converter or an embedder, or 0."""
  return getattr(part, "prompt_length", 0)


def before(converter: Converter, inputs: Ragged) -> Ragged:
  """The inputs as a model reads them before it writes.

  Args:
    converter: The converter, whose prompt precedes them if it has one.
    inputs: The inputs of some examples.
  """
  ids = FIRST_ID + np.arange(length_of(converter))
  return _preceded(inputs, ids) if len(ids) else inputs


def _swapped(sequences: Ragged, place: int) -> Ragged:
  """The sequences with their first value and that at a place exchanged."""
  values, first = sequences.values.copy(), sequences.starts
  values[first] = sequences.values[first + place]
  values[first + place] = sequences.values[first]
  return Ragged(values, sequences.lengths)


def _preceded(sequences: Ragged, values: np.ndarray) -> Ragged:
  """The sequences with the same values before each of them."""
  number = len(sequences.lengths)
  places = np.repeat(sequences.starts, len(values))
  return Ragged(
    np.insert(sequences.values, places, np.tile(values, number)),
    sequences.lengths + len(values),
  )
