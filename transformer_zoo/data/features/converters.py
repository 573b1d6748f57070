"""Token features of a model, equal to SeqIO's key by key.

A converter lays out the trimmed examples of a whole batch at once, in numpy, as
SeqIO's feature converter of the same architecture does one by one
(seqio/feature_converters.py), with three differences that a vocabulary whose
padding is not id 0 needs: padding is `pad_id`, loss weights come from the
places that are filled and not from their ids, and the places that a masked
language model predicts are given and not found by the id of the mask. In gin
their names end in `Features`.
"""

from collections.abc import Mapping
import dataclasses
from typing import ClassVar, Protocol

import numpy as np

from transformer_zoo.corruption.ragged import interleave
from transformer_zoo.corruption.ragged import Ragged
from transformer_zoo.data.features.row_places import decoder_features
from transformer_zoo.data.features.row_places import label_of_rows
from transformer_zoo.data.features.row_places import RowPlaces


def trim(
  ids: np.ndarray, length: int, eos_after_trim: bool, eos_id: int
) -> np.ndarray:
  """Returns at most `length` ids.

  Args:
    ids: int32 [any length], EOS included where the task has one.
    length: the most that stays.
    eos_after_trim: a sequence that ended in EOS still does, as after SeqIO's
      `append_eos_after_trim`; otherwise the end is cut off with it.
    eos_id: of the vocabulary.
  """
  if len(ids) <= length:
    return ids
  trimmed = ids[:length]
  if eos_after_trim and ids[-1] == eos_id:
    trimmed = trimmed.copy()
    trimmed[-1] = eos_id
  return trimmed


class Converter(Protocol):
  """From examples to the features that a model reads.

  Attributes:
    features: names of the token features that it lays out; their lengths are
      needed.
  """

  features: ClassVar[tuple[str, ...]]

  def capacities(self, lengths: Mapping[str, int]) -> tuple[int, ...]:
    """Returns the tokens that a row has room for, in each of its parts.

    Args:
      lengths: tokens of an example, per feature, at most.
    """

  def sizes(self, lengths: np.ndarray) -> np.ndarray:
    """Returns the tokens that examples take in each part of a row.

    Args:
      lengths: trimmed tokens of each example, int [n, features].

    Returns:
      int [n, parts], for a plan of packed rows with `capacities`.
    """

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
    """Lays examples out in rows.

    Args:
      examples: trimmed ids of each example, per feature, EOS included.
      rows: int [examples], the row of each, ascending; without packing no two
        are the same.
      num_rows: rows of the batch; those without an example are padding.
      lengths: as for `capacities`; all examples of a row fit into it together.
      packing: adds segment ids, from 1 on and 0 for padding, and positions,
        from 0 on in each example.
      pad_id: of the vocabulary.

    Returns:
      {SeqIO's key: int32 [num_rows, capacity]}
    """


@dataclasses.dataclass(frozen=True)
class EncoderDecoder:
  """Inputs to the encoder, targets to the decoder.

  SeqIO's `EncDecFeatureConverter`.

  Attributes:
    bos_id: what the decoder reads first; padding if None (T5).
  """

  bos_id: int | None = None
  features: ClassVar[tuple[str, ...]] = ("inputs", "targets")

  def capacities(self, lengths: Mapping[str, int]) -> tuple[int, ...]:
    """As `Converter.capacities`: one part for each side."""
    return lengths["inputs"], lengths["targets"]

  def sizes(self, lengths: np.ndarray) -> np.ndarray:
    """As `Converter.sizes`."""
    return lengths

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
    """As `Converter.__call__`."""
    inputs, targets = examples["inputs"], examples["targets"]
    encoder = RowPlaces(inputs.lengths, rows, num_rows, lengths["inputs"])
    decoder = RowPlaces(targets.lengths, rows, num_rows, lengths["targets"])
    batch = {"encoder_input_tokens": encoder.put(inputs.values, pad_id)}
    if packing:
      batch |= encoder.packed("encoder")
    return batch | decoder_features(
      decoder, targets.values, packing, pad_id, self.bos_id
    )


@dataclasses.dataclass(frozen=True)
class LanguageModel:
  """Targets alone, read from left to right. SeqIO's `LMFeatureConverter`.

  Where examples have `segment_lengths`, the tokens of each document in a row
  (concatenate and split), each document has a segment id when packed.

  Attributes:
    bos_id: what the decoder reads first; padding if None.
  """

  bos_id: int | None = None
  features: ClassVar[tuple[str, ...]] = ("targets",)

  def capacities(self, lengths: Mapping[str, int]) -> tuple[int, ...]:
    """As `Converter.capacities`."""
    return (lengths["targets"],)

  def sizes(self, lengths: np.ndarray) -> np.ndarray:
    """As `Converter.sizes`."""
    return lengths

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
    """As `Converter.__call__`."""
    targets = examples["targets"]
    sizes, owners = _segments(examples, "targets", rows)
    places = RowPlaces(sizes, owners, num_rows, lengths["targets"])
    return decoder_features(
      places, targets.values, packing, pad_id, self.bos_id
    )


@dataclasses.dataclass(frozen=True)
class PrefixLanguageModel:
  """Inputs and targets behind each other. SeqIO's `PrefixLMFeatureConverter`.

  `decoder_causal_attention` is 1 where every place of the prefix may be seen:
  at the inputs, and at the place that reads their last token.

  Attributes:
    loss_on_targets_only: inputs have no weight.
    bos_id: what the decoder reads first; padding if None.
  """

  loss_on_targets_only: bool = True
  bos_id: int | None = None
  features: ClassVar[tuple[str, ...]] = ("inputs", "targets")

  def capacities(self, lengths: Mapping[str, int]) -> tuple[int, ...]:
    """As `Converter.capacities`: one part for both sides."""
    return (lengths["inputs"] + lengths["targets"],)

  def sizes(self, lengths: np.ndarray) -> np.ndarray:
    """As `Converter.sizes`."""
    return lengths.sum(axis=1, keepdims=True)

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
    """As `Converter.__call__`."""
    inputs, targets = examples["inputs"], examples["targets"]
    both = interleave([inputs, targets])
    places = RowPlaces(both.lengths, rows, num_rows, *self.capacities(lengths))
    prefix = np.repeat(inputs.lengths, both.lengths)
    batch = decoder_features(places, both.values, packing, pad_id, self.bos_id)
    batch["decoder_causal_attention"] = places.put(places.positions <= prefix)
    if self.loss_on_targets_only:
      batch["decoder_loss_weights"] = places.put(places.positions >= prefix)
    return batch


@dataclasses.dataclass(frozen=True)
class Encoder:
  """Inputs and, place by place, what they should be.

  SeqIO's `EncoderFeatureConverter`, with weights of its own: `inputs`,
  `targets`, `weights` and, where a corruption makes them, `token_types` are
  sequences of the same lengths; `segment_lengths` is as for `LanguageModel`.
  Every other feature has one number per example (`next_sentence`) and becomes
  an array [num_rows] with `NO_LABEL` in the rows that have no example.
  """

  features: ClassVar[tuple[str, ...]] = ("inputs",)

  def capacities(self, lengths: Mapping[str, int]) -> tuple[int, ...]:
    """As `Converter.capacities`."""
    return (lengths["inputs"],)

  def sizes(self, lengths: np.ndarray) -> np.ndarray:
    """As `Converter.sizes`."""
    return lengths

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
      UserError: a row has several examples with a number each.
    """
    rest = dict(examples)
    inputs = rest.pop("inputs")
    sizes, owners = _segments(examples, "inputs", rows)
    places = RowPlaces(sizes, owners, num_rows, lengths["inputs"])
    rest.pop("segment_lengths", None)
    batch = {
      "encoder_input_tokens": places.put(inputs.values, pad_id),
      "encoder_target_tokens": places.put(rest.pop("targets").values, pad_id),
      "encoder_loss_weights": places.put(rest.pop("weights").values),
    }
    if "token_types" in rest:
      batch["encoder_token_types"] = places.put(rest.pop("token_types").values)
    if packing:
      batch |= places.packed("encoder")
    for name, labels in rest.items():
      batch[name] = label_of_rows(name, labels.values, rows, num_rows)
    return batch


def _segments(
  examples: Mapping[str, Ragged], feature: str, rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
  """Returns the tokens of each segment, and its row: int64 [segments]."""
  if "segment_lengths" not in examples:
    return examples[feature].lengths, rows
  inner = examples["segment_lengths"]
  return inner.values, np.repeat(rows, inner.lengths)
