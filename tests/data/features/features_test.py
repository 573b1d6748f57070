"""Converters against SeqIO's own, key by key, and what SeqIO does not have."""

import pathlib

import numpy as np
import pytest

from transformer_zoo.corruption.ragged import Ragged
from transformer_zoo.data.features.converters import Encoder
from transformer_zoo.data.features.converters import EncoderDecoder
from transformer_zoo.data.features.converters import LanguageModel
from transformer_zoo.data.features.converters import NO_LABEL
from transformer_zoo.data.features.converters import PrefixLanguageModel
from transformer_zoo.data.features.converters import ROW_LABELS
from transformer_zoo.data.features.converters import trim
from transformer_zoo.data.features.forms import FORMS
from transformer_zoo.errors import UserError

# SeqIO's rows of `cases`: `np.savez_compressed` of what it gives, by
# CONVERTER/CASE/FEATURE.
RECORDED = pathlib.Path(__file__).parents[2] / "golden" / "seqio_rows.npz"
LENGTHS = {"inputs": 12, "targets": 9}
MASK = 60


def theirs_of(name, **kwargs):
  """SeqIO's converter; imported here, as it takes seconds."""
  import seqio

  return getattr(seqio, name)(**kwargs)


# ours, SeqIO's class, its arguments
PAIRS = {
  "encoder_decoder": (EncoderDecoder(), "EncDecFeatureConverter", {}),
  "encoder_decoder_bos": (
    EncoderDecoder(bos_id=7),
    "EncDecFeatureConverter",
    {"bos_id": 7},
  ),
  "language_model": (LanguageModel(), "LMFeatureConverter", {}),
  "language_model_bos": (
    LanguageModel(bos_id=7),
    "LMFeatureConverter",
    {"bos_id": 7},
  ),
  "prefix": (PrefixLanguageModel(), "PrefixLMFeatureConverter", {}),
  "prefix_all": (
    PrefixLanguageModel(loss_on_targets_only=False),
    "PrefixLMFeatureConverter",
    {"loss_on_targets_only": False},
  ),
  "prefix_bos": (
    PrefixLanguageModel(bos_id=7),
    "PrefixLMFeatureConverter",
    {"bos_id": 7},
  ),
  "encoder": (
    Encoder(predicted_share=1),
    "EncoderFeatureConverter",
    {"mask_id": MASK},
  ),
}


def convert_with_seqio(name, examples, packing):
  """Rows of SeqIO's converter on the same examples."""
  import tensorflow as tf

  _, class_name, kwargs = PAIRS[name]
  converter = theirs_of(class_name, pack=packing, **kwargs)
  keys = converter.TASK_FEATURES
  lengths = LENGTHS | ({"targets": 12} if name == "encoder" else {})
  dataset = tf.data.Dataset.from_generator(
    lambda: ({k: e[k] for k in keys} for e in examples),
    output_signature={k: tf.TensorSpec([None], tf.int32) for k in keys},
  )
  rows = list(
    converter(dataset, {k: lengths[k] for k in keys}).as_numpy_iterator()
  )
  return {key: np.stack([row[key] for row in rows]) for key in rows[0]}


def draw_examples(name, number, seed):
  rng = np.random.default_rng(seed)

  def draw(most):
    size = rng.integers(1, most)
    return np.append(rng.integers(3, 50, size), 1).astype(np.int32)

  if name != "encoder":
    return [{"inputs": draw(8), "targets": draw(6)} for _ in range(number)]
  examples = []
  for _ in range(number):
    targets = draw(8)
    weights = (rng.random(len(targets)) < 0.4).astype(np.int32)
    inputs = np.where(weights, MASK, targets).astype(np.int32)
    examples.append({"inputs": inputs, "targets": targets, "weights": weights})
  return examples


def ragged(examples):
  return {
    key: Ragged.of([example[key] for example in examples])
    for key in examples[0]
  }


def lay_out(converter, examples, rows, packing, num_rows=None, pad_id=0):
  return converter(
    ragged(examples),
    np.asarray(rows),
    num_rows=max(rows) + 1 if num_rows is None else num_rows,
    lengths=LENGTHS,
    packing=packing,
    pad_id=pad_id,
  )


def pack_as_seqio(name, seed):
  """Returns examples and their rows: one behind the other while they fit."""
  converter, _, _ = PAIRS[name]
  # SeqIO packs as many examples together as the longest feature has tokens.
  examples = draw_examples(name, 12, seed)
  lengths = [[len(e[k]) for k in converter.features] for e in examples]
  rows, row, room = [], 0, np.array(converter.capacities(LENGTHS))
  for size in converter.sizes(np.array(lengths)):
    if (size > room).any():
      row, room = row + 1, np.array(converter.capacities(LENGTHS))
    rows.append(row)
    room = room - size
  assert row < len(rows) - 1  # something was packed
  return examples, np.array(rows)


# What an encoder's rows have beside SeqIO's.
BESIDES = {"encoder_token_types", "encoder_predicted_places", *ROW_LABELS}


def assert_equal(batch, theirs):
  assert set(batch) - BESIDES == set(theirs)
  for key, value in batch.items():
    if key in BESIDES:
      continue
    assert value.dtype == np.int32
    np.testing.assert_array_equal(value, theirs[key], key)


def cases(name):
  """Layouts of a converter: (packing, examples, their rows) by name."""
  examples = draw_examples(name, 12, seed=0)
  yield "unpacked", False, examples, np.arange(12)
  for seed in range(2):
    yield f"packed_{seed}", True, *pack_as_seqio(name, seed)


@pytest.mark.parametrize("name", PAIRS)
def test_batches_are_the_recorded_ones_of_seqio(name):
  with np.load(RECORDED) as recorded:
    for case, packing, examples, rows in cases(name):
      batch = lay_out(PAIRS[name][0], examples, rows, packing)
      start = f"{name}/{case}/"
      theirs = {
        key.removeprefix(start): recorded[key]
        for key in recorded.files
        if key.startswith(start)
      }
      assert_equal(batch, theirs)


@pytest.mark.slow
@pytest.mark.parametrize("name", PAIRS)
def test_what_is_recorded_is_what_seqio_gives(name):
  with np.load(RECORDED) as recorded:
    # Packing takes SeqIO a second, whatever is packed.
    for case, packing, examples, _ in list(cases(name))[:2]:
      for key, value in convert_with_seqio(name, examples, packing).items():
        np.testing.assert_array_equal(
          recorded[f"{name}/{case}/{key}"], value, key
        )


@pytest.mark.parametrize("name", PAIRS)
def test_another_padding_changes_the_empty_places_alone(name):
  """SeqIO pads with 0; RoBERTa's padding is 1, an id that T5's text ends in."""
  converter, _, _ = PAIRS[name]
  examples, rows = pack_as_seqio(name, 0)
  batch = lay_out(converter, examples, rows, packing=True)
  other = lay_out(converter, examples, rows, packing=True, pad_id=1)
  bos_id = getattr(converter, "bos_id", None) or 1
  for key, value in batch.items():
    if key in BESIDES:
      np.testing.assert_array_equal(other[key], value, key)
      continue
    side = key.split("_")[0]
    empty = batch[f"{side}_segment_ids"] == 0
    assert empty.any()
    expected = value
    if key == "decoder_input_tokens":
      starts = ~empty & (batch["decoder_positions"] == 0)
      expected = np.where(starts, bos_id, value)
      expected = np.where(empty, other[key], expected)
    elif "tokens" in key:
      expected = np.where(empty, 1, value)
    np.testing.assert_array_equal(other[key], expected, key)


def contexts(batch, side, causal):
  """What each filled place may see: (own id, weight, [(position, id), ...])."""
  inputs = batch[f"{side}_input_tokens"]
  targets = batch[f"{side}_target_tokens"]
  weights = batch[f"{side}_loss_weights"]
  width = inputs.shape[1]
  segments = batch.get(f"{side}_segment_ids", (targets > 0).astype(np.int32))
  positions = batch.get(f"{side}_positions", np.arange(width) + 0 * inputs)
  prefix = batch.get(f"{side}_causal_attention", np.zeros_like(inputs))
  seen = []
  for row, column in zip(*np.nonzero(segments), strict=True):
    visible = segments[row] == segments[row, column]
    if causal:
      visible &= (np.arange(width) <= column) | (prefix[row] == 1)
    pairs = zip(positions[row][visible], inputs[row][visible], strict=True)
    seen.append((targets[row, column], weights[row, column], sorted(pairs)))
  return seen


@pytest.mark.parametrize(
  "name", ["encoder", "language_model", "prefix", "prefix_all"]
)
def test_packing_shows_every_token_the_same(name):
  """So a model that heeds segments has the same loss for it."""
  examples, rows = pack_as_seqio(name, 0)
  converter, _, _ = PAIRS[name]
  side = "encoder" if name == "encoder" else "decoder"
  packed, apart = (
    contexts(
      lay_out(converter, examples, some, packing), side, side == "decoder"
    )
    for some, packing in ((rows, True), (np.arange(len(rows)), False))
  )
  assert packed == apart


@pytest.mark.parametrize("packing", [True, False])
def test_weights_come_from_places_and_not_from_ids(packing):
  """An id of 0 in the text is a target; SeqIO takes it for padding."""
  examples = [{"inputs": np.array([5, 0]), "targets": np.array([4, 0, 6, 0])}]
  for converter, weights in (
    (EncoderDecoder(), [1, 1, 1, 1]),
    (LanguageModel(), [1, 1, 1, 1]),
    (PrefixLanguageModel(), [0, 0, 1, 1, 1, 1]),
    (PrefixLanguageModel(loss_on_targets_only=False), [1] * 6),
  ):
    batch = lay_out(converter, examples, [0], packing, pad_id=3)
    row = batch["decoder_loss_weights"][0]
    assert row[: len(weights)].tolist() == weights
    assert not row[len(weights) :].any()


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("packing", [True, False])
def test_rows_without_examples_are_empty(name, packing):
  converter, _, _ = PAIRS[name]
  examples = draw_examples(name, 1, 0)
  batch = lay_out(converter, examples, [1], packing, num_rows=3)
  for key, value in batch.items():
    if key == "decoder_input_tokens":
      continue  # a row begins with `bos_id` all the same
    if key == "encoder_predicted_places":
      assert (value[[0, 2]] == np.arange(value.shape[1])).all()
    else:
      absent = NO_LABEL if key in ROW_LABELS else 0
      assert (value[[0, 2]] == absent).all(), key
  weights = next(value for key, value in batch.items() if "weights" in key)
  if name != "encoder":
    assert weights[1].any()


@pytest.mark.parametrize("name", PAIRS)
def test_a_batch_without_examples_is_empty(name):
  examples = draw_examples(name, 1, 0)
  none = {
    key: Ragged(np.zeros(0, np.int32), np.zeros(0, np.int64))
    for key in examples[0]
  }
  batch = PAIRS[name][0](
    none,
    np.zeros(0, np.int64),
    num_rows=2,
    lengths=LENGTHS,
    packing=True,
    pad_id=0,
  )
  for key, value in batch.items():
    assert value.shape[0] == 2
    if key not in BESIDES:
      assert key == "decoder_input_tokens" or not value.any()


def test_an_example_without_inputs_or_targets():
  """The prefix is one place, where nothing is read; no target, no weight."""
  nothing = np.zeros(0, np.int32)
  examples = [
    {"inputs": nothing, "targets": np.array([4, 1])},
    {"inputs": np.array([5, 1]), "targets": nothing},
  ]
  batch = lay_out(PrefixLanguageModel(), examples, [0, 0], packing=True)
  begin = {key: value[0, :5].tolist() for key, value in batch.items()}
  assert begin == {
    "decoder_target_tokens": [4, 1, 5, 1, 0],
    "decoder_input_tokens": [0, 4, 0, 5, 0],
    "decoder_loss_weights": [1, 1, 0, 0, 0],
    "decoder_segment_ids": [1, 1, 2, 2, 0],
    "decoder_positions": [0, 1, 0, 1, 0],
    "decoder_causal_attention": [1, 0, 1, 1, 0],
  }


def test_encoder_lays_out_token_types_and_numbers_of_examples():
  examples = {
    "inputs": Ragged.of([np.array([8, 9, 3]), np.array([8, 4])]),
    "targets": Ragged.of([np.array([8, 5, 3]), np.array([8, 4])]),
    "weights": Ragged.of([np.array([0, 1, 0]), np.array([0, 1])]),
    "token_types": Ragged.of([np.array([0, 0, 1]), np.array([0, 1])]),
    "next_sentence": Ragged.of([np.array([1]), np.array([0])]),
  }
  batch = Encoder()(
    examples,
    np.array([0, 2]),
    num_rows=4,
    lengths={"inputs": 4},
    packing=False,
    pad_id=1,
  )
  expected = {
    "encoder_input_tokens": [[8, 9, 3, 1], [1] * 4, [8, 4, 1, 1], [1] * 4],
    "encoder_target_tokens": [[8, 5, 3, 1], [1] * 4, [8, 4, 1, 1], [1] * 4],
    "encoder_loss_weights": [[0, 1, 0, 0], [0] * 4, [0, 1, 0, 0], [0] * 4],
    "encoder_token_types": [[0, 0, 1, 0], [0] * 4, [0, 1, 0, 0], [0] * 4],
    "encoder_predicted_places": [[1], [0], [1], [0]],
    "next_sentence": [1, -1, 0, -1],
    "sentence_order": [-1] * 4,
    "answer_starts": [-1] * 4,
    "answer_ends": [-1] * 4,
  }
  assert {key: value.tolist() for key, value in batch.items()} == expected


def test_examples_with_a_number_each_cannot_share_a_row():
  one = Ragged.of([np.array([8, 3]), np.array([8, 4])])
  examples = dict.fromkeys(("inputs", "targets", "weights"), one)
  examples["sentence_order"] = Ragged.of([np.array([1]), np.array([0])])
  with pytest.raises(UserError) as error:
    Encoder(predicted_share=1)(
      examples,
      np.array([0, 0]),
      num_rows=1,
      lengths={"inputs": 4},
      packing=True,
      pad_id=0,
    )
  assert str(error.value) == (
    "Examples with a number of their own, 'sentence_order', cannot share a "
    "row; set packing to False."
  )


def test_documents_of_a_row_are_told_apart():
  """Concatenate and split: one example, several segments."""
  examples = {
    "targets": Ragged.of([np.array([5, 1, 6, 7, 1]), np.array([8, 9])]),
    "segment_lengths": Ragged.of([np.array([2, 3]), np.array([2])]),
  }
  arguments = {"num_rows": 2, "lengths": {"targets": 6}, "pad_id": 0}
  rows = np.array([0, 1])
  packed = LanguageModel()(examples, rows, packing=True, **arguments)
  assert {key: value.tolist() for key, value in packed.items()} == {
    "decoder_target_tokens": [[5, 1, 6, 7, 1, 0], [8, 9, 0, 0, 0, 0]],
    "decoder_input_tokens": [[0, 5, 0, 6, 7, 0], [0, 8, 0, 0, 0, 0]],
    "decoder_loss_weights": [[1, 1, 1, 1, 1, 0], [1, 1, 0, 0, 0, 0]],
    "decoder_segment_ids": [[1, 1, 2, 2, 2, 0], [1, 1, 0, 0, 0, 0]],
    "decoder_positions": [[0, 1, 0, 1, 2, 0], [0, 1, 0, 0, 0, 0]],
  }
  apart = LanguageModel()(examples, rows, packing=False, **arguments)
  assert apart["decoder_input_tokens"].tolist() == [
    [0, 5, 1, 6, 7, 1],
    [0, 8, 9, 0, 0, 0],
  ]


def test_capacities_and_sizes():
  lengths = np.array([[3, 4], [5, 6]])
  assert EncoderDecoder().capacities(LENGTHS) == (12, 9)
  assert EncoderDecoder().sizes(lengths).tolist() == [[3, 4], [5, 6]]
  assert PrefixLanguageModel().capacities(LENGTHS) == (21,)
  assert PrefixLanguageModel().sizes(lengths).tolist() == [[7], [11]]
  assert LanguageModel().capacities({"targets": 9}) == (9,)
  assert LanguageModel().sizes(lengths[:, 1:]).tolist() == [[4], [6]]
  assert Encoder().capacities({"inputs": 12}) == (12,)
  assert Encoder().sizes(lengths[:, :1]).tolist() == [[3], [5]]


@pytest.mark.parametrize("packing", [True, False])
@pytest.mark.parametrize(
  "converter",
  [
    *(ours for ours, _, _ in PAIRS.values()),
    *map(Encoder, FORMS),
    Encoder(token_types=False, predicted_share=0.6),
    Encoder(attention_kinds=True),
  ],
  ids=str,
)
def test_shapes_are_those_of_a_batch(converter, packing):
  name = "encoder" if isinstance(converter, Encoder) else "both"
  examples = draw_examples(name, 2, 0)
  batch = lay_out(converter, examples, [0, 2], packing, num_rows=4, pad_id=1)
  shapes = converter.shapes(LENGTHS, 4, packing)
  assert {key: value.shape for key, value in batch.items()} == shapes
  assert {value.dtype for value in batch.values()} == {np.dtype(np.int32)}


def test_converters_are_compared_by_value():
  assert Encoder(form="tags") == Encoder(form="tags") != Encoder()
  assert Encoder(form="tags").layout == "tags"
  assert Encoder().layout == "encoder"
  assert EncoderDecoder().layout == LanguageModel().layout


def draw_predictions(length, most, seed):
  """Weights of four rows, with at most `most` predictions."""
  rng = np.random.default_rng(seed)
  weights = np.zeros((4, length), np.int32)
  for row in weights:
    row[rng.permutation(length)[: rng.integers(0, most + 1)]] = 1
  return weights


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("share", [0.2, 0.55, 1.0])
def test_every_prediction_has_a_place(share, seed):
  """The places of a row are all different, those with a weight first."""
  converter = Encoder(predicted_share=share)
  weights = draw_predictions(15, converter.predicted(15), seed)
  tokens = Ragged.full(np.full((4, 15), 7))
  batch = converter(
    {"inputs": tokens, "targets": tokens, "weights": Ragged.full(weights)},
    np.arange(4),
    num_rows=4,
    lengths={"inputs": 15},
    packing=False,
    pad_id=0,
  )
  places = batch["encoder_predicted_places"]
  assert places.shape == (4, converter.predicted(15))
  for row, chosen in zip(weights, places, strict=True):
    number = row.sum()
    np.testing.assert_array_equal(chosen[:number], np.flatnonzero(row))
    assert len({*chosen.tolist()}) == len(chosen)


@pytest.mark.parametrize(
  "share, length, places",
  [(0.2, 15, 3), (0.2, 16, 4), (0.15, 20, 3), (1, 7, 7)],
)
def test_number_of_predicted_places(share, length, places):
  assert Encoder(predicted_share=share).predicted(length) == places


def test_a_row_with_more_predictions_than_places_is_refused():
  tokens = Ragged.of([np.full(10, 7)])
  with pytest.raises(UserError) as error:
    Encoder()(
      dict.fromkeys(("inputs", "targets", "weights"), tokens),
      np.array([0]),
      num_rows=1,
      lengths={"inputs": 15},
      packing=False,
      pad_id=0,
    )
  assert str(error.value) == (
    "A row of 15 tokens predicts 10, but EncoderFeatures.predicted_share 0.2 "
    "allows 3; set it to 0.67 or more."
  )


def test_examples_of_one_prediction_share_as_many_rows_as_these_have_room():
  converter = Encoder(form="classes", predicted_share=0.5)
  assert converter.capacities({"inputs": 7}) == (7, 4)
  assert converter.sizes(np.array([[3], [5]])).tolist() == [[3, 1], [5, 1]]


def test_choices_are_told_apart_without_packing():
  """Three texts of one example: segments, positions, one prediction each."""
  examples = {
    "inputs": Ragged.of([np.array([2, 8, 2, 9, 5, 2])]),
    "targets": Ragged.of([np.array([0, 0, 1, 0, 0, 0])]),
    "weights": Ragged.of([np.array([1, 0, 1, 0, 0, 1])]),
    "segment_lengths": Ragged.of([np.array([2, 3, 1])]),
  }
  batch = Encoder("choices", predicted_share=0.5, token_types=False)(
    examples,
    np.array([0]),
    num_rows=1,
    lengths={"inputs": 8},
    packing=False,
    pad_id=0,
  )
  assert batch["encoder_segment_ids"].tolist() == [[1, 1, 2, 2, 2, 3, 0, 0]]
  assert batch["encoder_positions"].tolist() == [[0, 1, 0, 1, 2, 0, 0, 0]]
  assert batch["encoder_predicted_places"].tolist() == [[0, 2, 5, 1]]


def test_attention_kinds_are_laid_out_where_they_are_asked_for():
  tokens = Ragged.of([np.array([8, 3]), np.array([8, 4])])
  examples = dict.fromkeys(("inputs", "targets"), tokens)
  examples["weights"] = Ragged.of([np.array([0, 0])] * 2)
  kinds = {"attention_kind": Ragged.of([np.array([2]), np.array([1])])}

  def batch(converter, examples):
    return converter(
      examples,
      np.array([0, 2]),
      num_rows=3,
      lengths={"inputs": 4},
      packing=False,
      pad_id=0,
    )

  converter = Encoder(attention_kinds=True)
  laid_out = batch(converter, examples | kinds)
  assert laid_out["attention_kind"].tolist() == [2, 0, 1]
  assert batch(converter, examples)["attention_kind"].tolist() == [0, 0, 0]
  with pytest.raises(UserError) as error:
    batch(Encoder(), examples | kinds)
  assert str(error.value) == (
    "Examples have an attention kind, as UniLM's have, which the converter "
    "does not lay out; set EncoderFeatures.attention_kinds to True."
  )


@pytest.mark.parametrize(
  "fields, message",
  [
    (
      {"form": "class"},
      "EncoderFeatures.form is 'class'; it must be one of 'classes', 'number', "
      "'spans', 'choices', 'tags', 'embedding', 'heads', or None for text with "
      "masked tokens.",
    ),
    (
      {"separators": 0},
      "EncoderFeatures.separators is 0; it must be 1, or 2 for RoBERTa's "
      "format.",
    ),
    (
      {"longest_example": 0},
      "EncoderFeatures.longest_example is 0; it must be a number of tokens, 1 "
      "or more, or None for the whole row.",
    ),
    (
      {"predicted_share": 1.5},
      "EncoderFeatures.predicted_share is 1.5; it must be a share of a row's "
      "places above 0, at most 1.",
    ),
  ],
)
def test_impossible_fields_are_refused(fields, message):
  with pytest.raises(UserError) as error:
    Encoder(**fields)
  assert str(error.value) == message


def test_trim_keeps_eos_only_where_asked():
  ids = np.array([5, 6, 7, 8, 1], np.int32)
  assert trim(ids, 5, True, 1).tolist() == [5, 6, 7, 8, 1]
  assert trim(ids, 3, True, 1).tolist() == [5, 6, 1]
  assert trim(ids, 3, False, 1).tolist() == [5, 6, 7]
  assert trim(ids[:4], 3, True, 1).tolist() == [5, 6, 7]  # it had no EOS
  assert trim(ids, 3, True, 2).tolist() == [5, 6, 7]  # 1 is not its EOS
  assert ids.tolist() == [5, 6, 7, 8, 1]
