"""Token features of a model, equal to SeqIO's key by key.

A converter lays out the trimmed examples of a whole batch at once, in numpy, as
SeqIO's feature converter of the same architecture does one by one
(seqio/feature_converters.py), with three differences that a vocabulary whose
padding is not id 0 needs: padding is `pad_id`, loss weights come from the
places that are filled and not from their ids, and the places that a masked
language model predicts are given and not found by the id of the mask. In gin
their names end in `Features`.
"""

from collections.abc import Mapping, Sequence
import dataclasses
import math
from typing import ClassVar, Protocol

import numpy as np

from transformer_zoo.corruption.ragged import interleave
from transformer_zoo.corruption.ragged import Ragged
from transformer_zoo.data.features.forms import FORMS
from transformer_zoo.data.features.forms import OF_EACH_TASK
from transformer_zoo.errors import UserError

# What stands for a number of an example (`next_sentence`) in a row without one.
NO_LABEL = -1
# The numbers of an example that rows of an encoder may have.
ROW_LABELS = ("next_sentence", "sentence_order", "answer_starts", "answer_ends")
# The tokens that may stand for a whole text.
ANSWERING = ("first", "last")

Shape = tuple[int, ...]


class RowPlaces:
  """The places of the tokens of a batch of examples in its rows.

  Attributes:
    positions: The position of each token in its example, int64 [tokens].
  """

  def __init__(
    self, sizes: np.ndarray, rows: np.ndarray, num_rows: int, width: int
  ):
    self._shape = num_rows, width
    # Text that was cut to fill its rows: nothing has a place to be found.
    self._is_full = len(sizes) == num_rows and bool((sizes == width).all())
    if self._is_full:
      self._segments = 1
      self.positions = np.tile(np.arange(width), num_rows)
      return
    starts = np.cumsum(sizes) - sizes
    self.positions = np.arange(sizes.sum()) - np.repeat(starts, sizes)
    # Tokens before an example within its row: those before it in the batch,
    # less those before the row's first example.
    first_of_row = np.searchsorted(rows, rows)
    self._segments = np.repeat(np.arange(len(rows)) - first_of_row + 1, sizes)
    offsets = rows * width + starts - starts[first_of_row]
    self._places = np.repeat(offsets, sizes) + self.positions

  def put(self, values: np.ndarray | int, fill: int = 0) -> np.ndarray:
    """Returns `values` in their places, `fill` elsewhere, int32."""
    if self._is_full:
      values = np.broadcast_to(values, self._shape[0] * self._shape[1])
      return values.astype(np.int32).reshape(self._shape)
    result = np.full(self._shape, fill, np.int32)
    result.reshape(-1)[self._places] = values
    return result

  def packed(self, side: str) -> dict[str, np.ndarray]:
    """Returns the features that separate the examples of a row."""
    return {
      f"{side}_segment_ids": self.put(self._segments),
      f"{side}_positions": self.put(self.positions),
    }


def decoder_features(
  places: RowPlaces,
  tokens: np.ndarray,
  packing: bool,
  pad_id: int,
  start_id: int,
) -> dict[str, np.ndarray]:
  """Returns what a decoder reads and should write, int32 [rows, width]."""
  targets = places.put(tokens, pad_id)
  inputs = np.full_like(targets, start_id)
  inputs[:, 1:] = targets[:, :-1]
  batch = {
    "decoder_target_tokens": targets,
    "decoder_input_tokens": inputs,
    "decoder_loss_weights": places.put(1),
  }
  if packing:
    batch |= places.packed("decoder")
    segments = batch["decoder_segment_ids"]
    inputs[:, 1:][segments[:, 1:] != segments[:, :-1]] = start_id
  return batch


def _shapes_of_rows(
  side: str, names: Sequence[str], shape: Shape, packing: bool
) -> dict[str, Shape]:
  """Returns the shapes of features of one side that are as wide as rows."""
  if packing:
    names = (*names, "segment_ids", "positions")
  return {f"{side}_{name}": shape for name in names}


_DECODER_FEATURES = ("target_tokens", "input_tokens", "loss_weights")


def label_of_rows(
  name: str, labels: Ragged | None, rows: np.ndarray, num_rows: int
) -> np.ndarray:
  """Returns one number per row, `NO_LABEL` without one, int32 [num_rows]."""
  result = np.full(num_rows, NO_LABEL, np.int32)
  if labels is None:
    return result
  if (np.diff(rows) == 0).any():
    raise UserError(
      f"Examples with a number of their own, {name!r}, cannot share a row; set "
      "packing to False."
    )
  result[rows] = labels.values
  return result


def trim(
  ids: np.ndarray, length: int, eos_after_trim: bool, eos_id: int
) -> np.ndarray:
  """Returns at most `length` ids.

  Args:
    ids: int32 [any length], EOS included where the task has one.
    length: the most that stays.
    eos_after_trim: a sequence that ended in EOS still does, as after SeqIO's
      `append_eos_after_trim`; otherwise the end is cut off with it.
    eos_id: The EOS id of the vocabulary.
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

  Two converters with equal fields are equal.

  Attributes:
    features: names of the token features that it lays out; their lengths are
      needed.
    layout: The kind of examples that it lays out, the `layout` of their source:
      "encoder_decoder", "encoder", or the form of an encoder's examples.
    form: The form of a benchmark's rows; None for text.
    writes: Whether targets are text that a model writes.
    bos_id: The first id that a decoder reads; the padding id if None.
    begin_id: The id that inputs and targets begin with, which counts in their
      lengths; None for none.
    end_id: The id that inputs end with behind their EOS, which counts in their
      length; None for none.
    token_types: Whether `encoder_token_types` is laid out.
    num_token_types: The number of token types that are laid out.
    prompt_length: The number of places of a prompt before each example.
  """

  features: ClassVar[tuple[str, ...]]
  layout: str
  form: str | None = None
  writes: ClassVar[bool] = True
  bos_id: int | None = None
  begin_id: int | None = None
  end_id: int | None = None
  token_types: bool = False
  num_token_types: int = 0
  prompt_length: int = 0

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

  def shapes(
    self, lengths: Mapping[str, int], num_rows: int, packing: bool
  ) -> dict[str, Shape]:
    """Returns the shapes of a batch, whose arrays are all int32.

    Args:
      lengths: The length of the rows for each feature, in tokens.
      num_rows: The number of rows of the batch.
      packing: As in `__call__`.
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
      lengths: The length of the rows for each feature, in tokens; all examples
        of a row fit into it together.
      packing: adds segment ids, from 1 on and 0 for padding, and positions,
        from 0 on in each example.
      pad_id: The padding id of the vocabulary.

    Returns:
      {SeqIO's key: int32 [num_rows, capacity]}
    """


@dataclasses.dataclass(frozen=True)
class EncoderDecoder(Converter):
  """Inputs to the encoder, targets to the decoder.

  SeqIO's `EncDecFeatureConverter`.

  Attributes:
    bos_id: The first id that the decoder reads; the padding id if None (T5).
    begin_id: The id that inputs and targets begin with, which counts in their
      lengths, like `<s>` of BART; None for none.
    end_id: The id that inputs end with behind their EOS, which counts in their
      length, like the language code of mBART; None for none.
    original_positions: Whether targets have the positions that they have in the
      text, from `target_starts` of the examples on (MASS), or begin from 0.
  """

  bos_id: int | None = None
  begin_id: int | None = None
  end_id: int | None = None
  original_positions: bool = False
  layout: ClassVar[str] = "encoder_decoder"
  features: ClassVar[tuple[str, ...]] = ("inputs", "targets")

  def capacities(self, lengths: Mapping[str, int]) -> tuple[int, ...]:
    """As `Converter.capacities`: one part for each side."""
    return lengths["inputs"], lengths["targets"]

  def sizes(self, lengths: np.ndarray) -> np.ndarray:
    """As `Converter.sizes`."""
    return lengths

  def shapes(
    self, lengths: Mapping[str, int], num_rows: int, packing: bool
  ) -> dict[str, Shape]:
    """As `Converter.shapes`."""
    targets = num_rows, lengths["targets"]
    placed = {"decoder_positions": targets} if self.original_positions else {}
    return (
      _shapes_of_rows(
        "encoder", ("input_tokens",), (num_rows, lengths["inputs"]), packing
      )
      | _shapes_of_rows("decoder", _DECODER_FEATURES, targets, packing)
      | placed
    )

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
    batch |= decoder_features(
      decoder, targets.values, packing, pad_id, start_id(self, pad_id)
    )
    if self.original_positions:
      if "target_starts" not in examples:
        raise UserError(
          "EncoderDecoderFeatures.original_positions is True, but examples do "
          "not say where their targets stand in the text; set it to False, or "
          "CORRUPTION to @PlacedDenoising() of objectives/mass_positions.gin."
        )
      starts = np.repeat(examples["target_starts"].values, targets.lengths)
      batch["decoder_positions"] = decoder.put(decoder.positions + starts)
    return batch


@dataclasses.dataclass(frozen=True)
class LanguageModel(Converter):
  """Targets alone, read from left to right. SeqIO's `LMFeatureConverter`.

  Where examples have `segment_lengths`, the tokens of each document in a row
  (concatenate and split), each document has a segment id when packed.

  Attributes:
    bos_id: The first id that the decoder reads; the padding id if None.
  """

  bos_id: int | None = None
  layout: ClassVar[str] = "encoder_decoder"
  features: ClassVar[tuple[str, ...]] = ("targets",)

  def capacities(self, lengths: Mapping[str, int]) -> tuple[int, ...]:
    """As `Converter.capacities`."""
    return (lengths["targets"],)

  def sizes(self, lengths: np.ndarray) -> np.ndarray:
    """As `Converter.sizes`."""
    return lengths

  def shapes(
    self, lengths: Mapping[str, int], num_rows: int, packing: bool
  ) -> dict[str, Shape]:
    """As `Converter.shapes`."""
    return _shapes_of_rows(
      "decoder", _DECODER_FEATURES, (num_rows, lengths["targets"]), packing
    )

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
      places, targets.values, packing, pad_id, start_id(self, pad_id)
    )

  def with_inputs(self) -> Converter:
    """The converter that lays out the inputs too, which targets continue."""
    return PrefixLanguageModel(bos_id=self.bos_id)


@dataclasses.dataclass(frozen=True)
class PrefixLanguageModel(Converter):
  """Inputs and targets behind each other. SeqIO's `PrefixLMFeatureConverter`.

  `decoder_causal_attention` is 1 where every place of the prefix may be seen:
  at the inputs, and at the place that reads their last token.

  Attributes:
    loss_on_targets_only: inputs have no weight.
    bos_id: The first id that the decoder reads; the padding id if None.
  """

  loss_on_targets_only: bool = True
  bos_id: int | None = None
  layout: ClassVar[str] = "encoder_decoder"
  features: ClassVar[tuple[str, ...]] = ("inputs", "targets")

  def capacities(self, lengths: Mapping[str, int]) -> tuple[int, ...]:
    """As `Converter.capacities`: one part for both sides."""
    return (lengths["inputs"] + lengths["targets"],)

  def sizes(self, lengths: np.ndarray) -> np.ndarray:
    """As `Converter.sizes`."""
    return lengths.sum(axis=1, keepdims=True)

  def shapes(
    self, lengths: Mapping[str, int], num_rows: int, packing: bool
  ) -> dict[str, Shape]:
    """As `Converter.shapes`."""
    names = (*_DECODER_FEATURES, "causal_attention")
    shape = num_rows, *self.capacities(lengths)
    return _shapes_of_rows("decoder", names, shape, packing)

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
    batch = decoder_features(
      places, both.values, packing, pad_id, start_id(self, pad_id)
    )
    batch["decoder_causal_attention"] = places.put(places.positions <= prefix)
    if self.loss_on_targets_only:
      batch["decoder_loss_weights"] = places.put(places.positions >= prefix)
    return batch


@dataclasses.dataclass(frozen=True)
class Encoder(Converter):
  """Inputs and, place by place, what they should be.

  SeqIO's `EncoderFeatureConverter`, with weights of its own. Examples have
  `inputs`, `targets`, `weights` and perhaps `token_types`, sequences of the
  same lengths; `segment_lengths` is as for `LanguageModel`; and numbers of
  their own, `ROW_LABELS` and `attention_kind`, which become arrays [num_rows].

  `encoder_predicted_places` [num_rows, predicted places] has, in ascending
  order, the places with a weight, then as many others as there is room for.

  Attributes:
    form: None for text with masked tokens, or the form of a benchmark's rows,
      which chooses the form `TASK:FORM` of each task:
      "classes": the class at the answering token of each example;
      "number": the bits of a float32, as int32, at its answering token;
      "spans": `answer_starts` and `answer_ends`, the first and the last place
      of the answer, of one window of a text in each row;
      "choices": a row of one example, a segment for each choice; 1 at the
      answering token of the right choice and 0 at the others' tokens; "tags":
      the tag of each word at its first piece; "embedding": a row of one
      example, a segment for each text, with the bits of a float32 at its
      answering token; "heads": rows of several tasks, each in its own form.
    separators: The number of [SEP] between two texts; RoBERTa's format has 2.
    token_types: Whether `encoder_token_types` is laid out: 0 in the first text,
      1 in the second.
    predicted_share: The share of a row's places that may be predicted, above 0
      and at most 1. Logits are computed for these alone.
    attention_kinds: Whether `attention_kind` is laid out, as UniLM needs;
      examples without one are bidirectional.
    orders: Whether `encoder_order` is laid out, the number of each predicted
      token in the order of prediction and -1 elsewhere, as XLNet needs.
    longest_example: The most tokens of an example in a form, or of a choice,
      where rows are longer to have room for several; None for the whole row.
    answering: The token of a text that its class, number or score is read from:
      "first", or "last" for a model that reads from left to right.
    cls_place: Where [CLS] stands in the rows of a form, "first", or "last" for
      behind the last [SEP] with the token type 2, as in XLNet.
    first_new_id: The id of the first of three tokens behind the vocabulary:
      start, delimiter and extract, which stand before, between and behind the
      texts of a form (GPT); None for the special tokens of the vocabulary.
    both_orders: Whether a pair stands in both orders, a segment each, of which
      `encoder_other_order` [num_rows] says where the first is answered; -1
      without one. For "classes" and "number" that the last token answers.
    num_texts: The most texts of a row in the form "embedding", 2 or more: an
      anchor, its positive, and hard negatives. Each has at most an equal share
      of the row.
    heads: The form of each task in the form "heads", whose name is its head's.
      `encoder_heads` has the number of its task at each token, by the order of
      their names, and -1 at padding.
    head: The name of the head that answers one form; None for the form's own.
  """

  form: str | None = None
  separators: int = 1
  token_types: bool = True
  predicted_share: float = 0.2
  attention_kinds: bool = False
  orders: bool = False
  longest_example: int | None = None
  answering: str = "first"
  cls_place: str = "first"
  first_new_id: int | None = None
  both_orders: bool = False
  num_texts: int = 2
  heads: Mapping[str, str] = dataclasses.field(default_factory=dict, hash=False)
  head: str | None = None
  writes: ClassVar[bool] = False
  features: ClassVar[tuple[str, ...]] = ("inputs",)

  def __post_init__(self):
    known = (*FORMS, OF_EACH_TASK)
    if self.form is not None and self.form not in known:
      raise UserError(
        f"EncoderFeatures.form is {self.form!r}; it must be one of "
        f"{', '.join(map(repr, known))}, or None for text with masked tokens."
      )
    for task, form in self.heads.items():
      if form not in FORMS:
        raise UserError(
          f"EncoderFeatures.heads has the form {form!r} for {task!r}; it must "
          f"be one of {', '.join(map(repr, FORMS))}."
        )
    if bool(self.heads) != (self.form == OF_EACH_TASK):
      raise UserError(
        f"EncoderFeatures.form is {self.form!r} and heads are "
        f"{dict(self.heads)}; name the form of each task for {OF_EACH_TASK!r}, "
        "and none otherwise."
      )
    if self.separators not in (1, 2):
      raise UserError(
        f"EncoderFeatures.separators is {self.separators!r}; it must be 1, or "
        "2 for RoBERTa's format."
      )
    share = self.predicted_share
    if not isinstance(share, (int, float)) or not 0 < share <= 1:
      raise UserError(
        f"EncoderFeatures.predicted_share is {share!r}; it must be a share of "
        "a row's places above 0, at most 1."
      )

    longest = self.longest_example
    if longest is not None and (not isinstance(longest, int) or longest < 1):
      raise UserError(
        f"EncoderFeatures.longest_example is {longest!r}; it must be a number "
        "of tokens, 1 or more, or None for the whole row."
      )
    if not isinstance(self.num_texts, int) or self.num_texts < 2:
      raise UserError(
        f"EncoderFeatures.num_texts is {self.num_texts!r}; it must be 2 or "
        "more, an anchor and its positive."
      )
    for name in ("answering", "cls_place"):
      if (value := getattr(self, name)) not in ANSWERING:
        raise UserError(
          f"EncoderFeatures.{name} is {value!r}; it must be one of "
          f"{', '.join(map(repr, ANSWERING))}."
        )
    if self.both_orders and (
      not self.answers_at_one_token or self.answering != "last"
    ):
      raise UserError(
        "EncoderFeatures.both_orders is True, but the form is "
        f"{self.form!r} and the {self.answering} token answers; pairs stand in "
        "both orders for the forms 'classes' and 'number' of a model that "
        "answers at the last token."
      )

  @property
  def layout(self) -> str:
    """As `Converter.layout`."""
    return self.form or "encoder"

  @property
  def num_token_types(self) -> int:
    """As `Converter.num_token_types`: UniLM's types, or two texts'."""
    if not self.token_types:
      return 0
    return (6 if self.attention_kinds else 2) + (self.cls_place == "last")

  @property
  def answers_at_one_token(self) -> bool:
    """Whether each example has one prediction, at one token."""
    return self.form in FORMS and FORMS[self.form].answers_at_one_token

  def of_texts(self) -> "Encoder":
    """Returns the converter of texts alone, whatever the form of examples."""
    return dataclasses.replace(self, form=None, heads={})

  def of_task(self, task: str) -> "Encoder":
    """Returns the converter of one of `heads` alone, in its form.

    Args:
      task: The name of the task.

    Raises:
      UserError: There is no such task.
    """
    if task not in self.heads:
      raise UserError(
        f"the model has no head for the task {task!r}; it has "
        f"{', '.join(map(repr, self.heads)) or 'none'}"
      )
    return dataclasses.replace(self, form=self.heads[task], heads={}, head=task)

  def predicted(self, length: int) -> int:
    """Returns how many places of rows of `length` tokens may be predicted."""
    if self.form == "embedding":
      return min(self.num_texts, length)
    return math.ceil(self.predicted_share * length - 1e-9)

  def capacities(self, lengths: Mapping[str, int]) -> tuple[int, ...]:
    """As `Converter.capacities`: tokens, and the places of answers."""
    length = lengths["inputs"]
    if self._answers_share_rows:
      return length, self.predicted(length)
    return (length,)

  def sizes(self, lengths: np.ndarray) -> np.ndarray:
    """As `Converter.sizes`."""
    if self._answers_share_rows:
      return np.append(lengths, np.ones_like(lengths), axis=1)
    return lengths

  def shapes(
    self, lengths: Mapping[str, int], num_rows: int, packing: bool
  ) -> dict[str, Shape]:
    """As `Converter.shapes`."""
    length = lengths["inputs"]
    names = ["input_tokens", "target_tokens", "loss_weights"]
    if self.token_types:
      names.append("token_types")
    if self.orders:
      names.append("order")
    names += ["heads"] * bool(self.heads)
    labels = ROW_LABELS + ("attention_kind",) * self.attention_kinds
    return (
      _shapes_of_rows(
        "encoder", names, (num_rows, length), self._has_segments(packing)
      )
      | {"encoder_predicted_places": (num_rows, self.predicted(length))}
      | dict.fromkeys(labels, (num_rows,))
      | dict.fromkeys(("encoder_other_order",) * self.both_orders, (num_rows,))
    )

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
      UserError: a row has several examples with a number each, or more
        predictions than `predicted_share` allows; examples have an attention
        kind that is not laid out.
    """
    inputs = examples["inputs"]
    sizes, owners = _segments(examples, "inputs", rows)
    places = RowPlaces(sizes, owners, num_rows, lengths["inputs"])
    weights = places.put(examples["weights"].values)
    batch = {
      "encoder_input_tokens": places.put(inputs.values, pad_id),
      "encoder_target_tokens": places.put(examples["targets"].values, pad_id),
      "encoder_loss_weights": weights,
      "encoder_predicted_places": self._predicted_places(weights),
    }
    if self.token_types:
      types = examples.get("token_types")
      batch["encoder_token_types"] = places.put(
        0 if types is None else types.values
      )
    if self.heads:
      batch["encoder_heads"] = places.put(examples["heads"].values, -1)
    if self.orders != ("orders" in examples):
      raise UserError(
        f"EncoderFeatures.orders is {self.orders}, but examples have "
        f"{'no' if self.orders else 'an'} order of prediction; set it to True "
        "for objectives/xlnet.gin alone."
      )
    if self.orders:
      batch["encoder_order"] = places.put(examples["orders"].values, -1)
    if self._has_segments(packing):
      batch |= places.packed("encoder")
    for name in ROW_LABELS:
      batch[name] = label_of_rows(name, examples.get(name), rows, num_rows)
    if self.both_orders:
      batch["encoder_other_order"] = label_of_rows(
        "other_order", examples.get("other_order"), rows, num_rows
      )
    kinds = examples.get("attention_kind")
    if self.attention_kinds:
      batch["attention_kind"] = np.maximum(
        label_of_rows("attention_kind", kinds, rows, num_rows), 0
      )
    elif kinds is not None:
      raise UserError(
        "Examples have an attention kind, as UniLM's have, which the converter "
        "does not lay out; set EncoderFeatures.attention_kinds to True."
      )
    return batch

  @property
  def _answers_share_rows(self) -> bool:
    return self.answers_at_one_token and not self.both_orders

  def _has_segments(self, packing: bool) -> bool:
    named = [*self.heads.values()] or [self.form]
    several = any(FORMS[form].has_segments for form in named if form)
    return packing or several or self.both_orders

  def _predicted_places(self, weights_BL: np.ndarray) -> np.ndarray:
    """Returns the places with a weight first, int32 [rows, places]."""
    most = int(np.count_nonzero(weights_BL, axis=1).max(initial=0))
    length = weights_BL.shape[1]
    allowed = self.predicted(length)
    if most > allowed:
      raise UserError(
        f"A row of {length} tokens predicts {most}, but "
        f"EncoderFeatures.predicted_share {self.predicted_share} allows "
        f"{allowed}; set it to {math.ceil(100 * most / length) / 100} or more."
      )
    order = np.argsort(weights_BL == 0, axis=1, kind="stable")
    return order[:, :allowed].astype(np.int32)


@dataclasses.dataclass(frozen=True)
class Unified(Converter):
  """Inputs and targets as the two segments of a row, as UniLM writes.

  Each row has one example: `bos_id`, the inputs and the targets, both with
  their EOS, of which the targets have a weight. `encoder_predicted_places`
  [num_rows, length of targets] has the places of the targets, then others, and
  `encoder_order` the numbers of the targets from left to right, -1 elsewhere.

  Attributes:
    bos_id: The first id of a row, [CLS]; None for none.
  """

  bos_id: int | None = None
  layout: ClassVar[str] = "encoder_decoder"
  features: ClassVar[tuple[str, ...]] = ("inputs", "targets")
  token_types: ClassVar[bool] = True
  num_token_types: ClassVar[int] = 6

  def capacities(self, lengths: Mapping[str, int]) -> tuple[int, ...]:
    """As `Converter.capacities`: one part for both sides."""
    before = int(self.bos_id is not None)
    return (before + lengths["inputs"] + lengths["targets"],)

  def sizes(self, lengths: np.ndarray) -> np.ndarray:
    """As `Converter.sizes`."""
    before = int(self.bos_id is not None)
    return before + lengths.sum(axis=1, keepdims=True)

  def shapes(
    self, lengths: Mapping[str, int], num_rows: int, packing: bool
  ) -> dict[str, Shape]:
    """As `Converter.shapes`."""
    names = (
      *("input_tokens", "target_tokens", "loss_weights", "token_types"),
      "order",
    )
    shape = num_rows, *self.capacities(lengths)
    return _shapes_of_rows("encoder", names, shape, packing) | {
      "encoder_predicted_places": (num_rows, lengths["targets"]),
      "attention_kind": (num_rows,),
    }

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
      UserError: rows are packed.
    """
    if packing:
      raise UserError(
        "@UnifiedFeatures() has one example in a row; set packing to False"
      )
    # A run of another layout does not need it.
    from transformer_zoo.corruption import unified_lm

    inputs, targets = examples["inputs"], examples["targets"]
    if self.bos_id is not None:
      first = Ragged.full(np.full((len(rows), 1), self.bos_id, np.int32))
      inputs = interleave([first, inputs])
    both = interleave([inputs, targets])
    places = RowPlaces(both.lengths, rows, num_rows, *self.capacities(lengths))
    second = places.positions >= np.repeat(inputs.lengths, both.lengths)
    kind = unified_lm.ATTENTION_KINDS.index("sequence_to_sequence")
    weights = places.put(second)
    order = np.argsort(weights == 0, axis=1, kind="stable")
    numbers = np.cumsum(weights, axis=1, dtype=np.int32) - 1
    return {
      "encoder_input_tokens": places.put(both.values, pad_id),
      "encoder_target_tokens": places.put(both.values, pad_id),
      "encoder_loss_weights": weights,
      "encoder_token_types": places.put(
        unified_lm.TOKEN_TYPES[kind][second.astype(np.int8)]
      ),
      "encoder_order": np.where(weights > 0, numbers, -1),
      "encoder_predicted_places": order[:, : lengths["targets"]].astype(
        np.int32
      ),
      "attention_kind": np.full(num_rows, kind, np.int32),
    }


def _segments(
  examples: Mapping[str, Ragged], feature: str, rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
  """Returns the tokens of each segment, and its row: int64 [segments]."""
  if "segment_lengths" not in examples:
    return examples[feature].lengths, rows
  inner = examples["segment_lengths"]
  return inner.values, np.repeat(rows, inner.lengths)


ENCODER_DECODER = EncoderDecoder()


def start_id(converter: Converter, pad_id: int) -> int:
  """Returns the id that a decoder reads first, in training and decoding.

  Args:
    converter: The layout of a batch.
    pad_id: The padding id of the vocabulary, which starts if nothing else does.
  """
  return pad_id if converter.bos_id is None else converter.bos_id


def continues(converter: Converter) -> bool:
  """Whether targets continue inputs that the converter leaves out."""
  return "inputs" not in converter.features


def with_inputs(converter: Converter) -> Converter:
  """The converter, or one that lays out what a language model continues."""
  return converter.with_inputs() if continues(converter) else converter


def with_room(
  converter: Converter, lengths: Mapping[str, int]
) -> Mapping[str, int]:
  """The lengths, in which a text to continue may be as long as targets.

  Language modelling sets the length of its empty inputs to 1.
  """
  if not continues(converter):
    return lengths
  longest = max(lengths.get("inputs", 1), lengths["targets"])
  return {**lengths, "inputs": longest}


def room(converter: Converter, lengths: Mapping[str, int]) -> Mapping[str, int]:
  """The tokens of each feature that are left for the text of an example.

  Args:
    converter: The converter; `begin_id` takes one token, and `end_id` one of
      inputs.
    lengths: The tokens of each feature.
  """
  begin, end = (i is not None for i in (converter.begin_id, converter.end_id))
  return {
    feature: length - begin - (end and feature == "inputs")
    for feature, length in lengths.items()
  }


def without_end(sequences: Ragged, eos_id: int) -> Ragged:
  """The sequences without the EOS that they end in."""
  kept = np.ones(len(sequences.values), bool)
  filled = sequences.lengths > 0
  ends = (sequences.starts + sequences.lengths - 1)[filled]
  kept[ends] = sequences.values[ends] != eos_id
  return sequences.where(kept)
