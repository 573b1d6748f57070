"""Concatenate and split: rows against the joined text, cut by hand."""

import itertools
import types

import numpy as np
import pytest

from transformer_zoo import corruption as corruptions
from transformer_zoo.corruption.concatenation import ConcatenatedDocuments
from transformer_zoo.corruption.draws import Draws
from transformer_zoo.corruption.masked_lm import Masking
from transformer_zoo.data.features.converters import Encoder
from transformer_zoo.data.features.converters import EncoderDecoder
from transformer_zoo.data.features.converters import LanguageModel
from transformer_zoo.data.loader import loader
from transformer_zoo.data.loader.concatenated_source import ConcatenatedRows
from transformer_zoo.data.loader.concatenated_source import ConcatenatedSource
from transformer_zoo.data.storage.manifest import PreparedMixture
from transformer_zoo.data.storage.token_stream import TokenStream
from transformer_zoo.errors import UserError

EOS = 1
SIZES = [5, 0, 0, 31, 1, 1, 1, 16, 15, 0, 200, 7, 16, 3, 0]


@pytest.fixture
def documents():
  rng = np.random.default_rng(0)
  return [rng.integers(3, 43, size).astype(np.int32) for size in SIZES]


@pytest.fixture
def task(make_task, documents):
  return make_task("text", [{"targets": d} for d in documents], kind="tokens")


def joined(documents):
  """Tokens of the joined documents, and the document of each."""
  ended = [np.append(ids, EOS) for ids in documents]
  tokens = np.concatenate(ended).astype(np.int32)
  owners = np.repeat(
    np.arange(len(documents)), [len(ids) + 1 for ids in documents]
  )
  return tokens, owners


@pytest.mark.parametrize("length", [1, 2, 5, 16, 17, 100])
def test_rows_are_those_of_the_joined_text(task, documents, length):
  tokens, owners = joined(documents)
  stream = TokenStream(task, "train")
  rows = ConcatenatedRows(stream, EOS, length, stream.num_tokens)
  assert rows.num_rows == len(tokens) // length
  order = np.random.default_rng(1).permutation(rows.num_rows)
  read, segments = rows(order, length)
  assert read.shape == (rows.num_rows, length)
  for number, row, sizes in zip(order, read, segments.rows(), strict=True):
    expected = slice(number * length, (number + 1) * length)
    np.testing.assert_array_equal(row, tokens[expected])
    _, counts = np.unique(owners[expected], return_counts=True)
    np.testing.assert_array_equal(sizes, counts)


def test_the_first_tokens_of_longer_rows(task, documents):
  tokens, _ = joined(documents)
  stream = TokenStream(task, "train")
  rows = ConcatenatedRows(stream, EOS, 20, stream.num_tokens)
  read, segments = rows(np.arange(rows.num_rows), 8)
  expected = tokens[: rows.num_rows * 20].reshape(-1, 20)[:, :8]
  np.testing.assert_array_equal(read, expected)
  assert segments.values.sum() == read.size


def batches_of(task, objective, number, **kwargs):
  arguments = {
    "split": "train",
    "lengths": {"targets": 16},
    "batch_size": 4,
    "seed": 3,
    "converter": LanguageModel(),
    "corruption": objective,
  } | kwargs
  batches = loader.training_batches(
    PreparedMixture("text", (task,), (1.0,)), **arguments
  )
  return list(itertools.islice(batches, number))


def test_language_model_batches(task, documents):
  """Segments, positions and shifted inputs begin anew with a document."""
  tokens, owners = joined(documents)
  number = tokens.size // 16
  batches = batches_of(task, ConcatenatedDocuments(), number)
  seen = {}
  for batch in batches:
    for row in zip(*(batch[key] for key in sorted(batch)), strict=True):
      cells = dict(zip(sorted(batch), row, strict=True))
      seen.setdefault(cells["decoder_target_tokens"].tobytes(), cells)
  assert len(seen) == number
  for row in range(number):
    own = owners[row * 16 : (row + 1) * 16]
    cells = seen[tokens[row * 16 : (row + 1) * 16].tobytes()]
    first = np.searchsorted(own, own)
    positions = np.arange(16) - first
    np.testing.assert_array_equal(cells["decoder_positions"], positions)
    segments = np.cumsum(positions == 0)
    np.testing.assert_array_equal(cells["decoder_segment_ids"], segments)
    assert cells["decoder_loss_weights"].all()  # there is no padding
    shifted = np.append(0, cells["decoder_target_tokens"][:-1])
    np.testing.assert_array_equal(
      cells["decoder_input_tokens"], np.where(positions == 0, 0, shifted)
    )


def test_without_packing_a_row_is_one_text(task):
  (batch,) = batches_of(task, ConcatenatedDocuments(), 1, packing=False)
  assert set(batch) == {
    "decoder_input_tokens",
    "decoder_target_tokens",
    "decoder_loss_weights",
  }
  np.testing.assert_array_equal(
    batch["decoder_input_tokens"][:, 1:], batch["decoder_target_tokens"][:, :-1]
  )


def test_masked_rows(task, documents):
  tokens, _ = joined(documents)
  lengths = {"inputs": 16, "targets": 16}
  batches = batches_of(
    task,
    ConcatenatedDocuments(masking=Masking()),
    tokens.size // 16,
    lengths=lengths,
    converter=Encoder(),
  )
  targets = np.concatenate([b["encoder_target_tokens"] for b in batches])
  inputs = np.concatenate([b["encoder_input_tokens"] for b in batches])
  hidden = np.concatenate([b["encoder_loss_weights"] for b in batches]) == 1
  assert (targets[hidden] != EOS).all()
  np.testing.assert_array_equal(targets[~hidden], inputs[~hidden])
  assert 0.05 < hidden.mean() < 0.25
  segments = np.concatenate([b["encoder_segment_ids"] for b in batches])
  np.testing.assert_array_equal(
    np.diff(segments, axis=1) == 1, targets[:, :-1] == EOS
  )


def test_cls_belongs_to_the_first_document_of_a_row(task):
  vocabulary = types.SimpleNamespace(
    size=60,
    pad_id=0,
    eos_id=EOS,
    unk_id=2,
    cls_id=50,
    sep_id=51,
    bos_id=None,
    mask_id=52,
    sentinel_ids=(),
  )
  objective = ConcatenatedDocuments(masking=Masking())
  lengths = {"inputs": 16, "targets": 16}
  assert objective.row_length(lengths, vocabulary) == 15
  stream = TokenStream(task, "train")
  rows = ConcatenatedRows(stream, EOS, 15, stream.num_tokens)
  tokens, segments = rows(np.arange(rows.num_rows), 15)
  draws = Draws(0, np.arange(rows.num_rows))
  features = objective(tokens, segments, draws, vocabulary)
  batch = Encoder()(
    features,
    np.arange(rows.num_rows),
    num_rows=rows.num_rows,
    lengths=lengths,
    packing=True,
    pad_id=0,
  )
  assert (batch["encoder_target_tokens"][:, 0] == 50).all()
  ended = batch["encoder_target_tokens"][:, :-1] == EOS
  np.testing.assert_array_equal(
    np.diff(batch["encoder_segment_ids"], axis=1) == 1, ended
  )
  assert (batch["encoder_segment_ids"][:, 0] == 1).all()
  assert (batch["encoder_positions"][:, 1][~ended[:, 0]] == 1).all()


@pytest.mark.parametrize("packing", [True, False])
def test_batches_are_the_same_on_any_processes_and_resumed(task, packing):
  objective = ConcatenatedDocuments()
  whole = batches_of(task, objective, 12, packing=packing)
  resumed = batches_of(task, objective, 4, packing=packing, start_step=8)
  shares = [
    batches_of(task, objective, 12, packing=packing, shares=(i,), num_shares=2)
    for i in range(2)
  ]
  for key in whole[0]:
    for some, others in zip(whole[8:], resumed, strict=True):
      np.testing.assert_array_equal(some[key], others[key])
    for some, left, right in zip(whole, *shares, strict=True):
      np.testing.assert_array_equal(
        some[key], np.concatenate([left[key], right[key]])
      )


def test_only_the_first_tokens(task, documents):
  tokens, _ = joined(documents)
  lengths = {"inputs": 1, "targets": 16}

  def rows_of(max_tokens):
    return ConcatenatedSource(
      task,
      "train",
      lengths,
      ConcatenatedDocuments(),
      ("targets",),
      lengths,
      max_tokens,
    ).num_examples

  assert rows_of(None) == tokens.size // 16
  assert rows_of(5 + 31) == (5 + 31 + 4) // 16  # and the EOS of four documents
  with pytest.raises(UserError) as error:
    rows_of(5)
  assert str(error.value) == (
    "Split 'train' of task 'text' has 5 tokens, fewer than one row of 16; use "
    "smaller lengths or more text."
  )


def test_tasks_that_add_eos_are_refused(vocabulary):
  import seqio

  from transformer_zoo.data.prepare.seqio_corruption import CorruptionStep

  feature = seqio.Feature(vocabulary.to_seqio())
  step = CorruptionStep(ConcatenatedDocuments())
  with pytest.raises(UserError) as error:
    step(None, {"inputs": 1, "targets": 16}, {"targets": feature})
  assert str(error.value) == (
    "ConcatenatedDocuments makes whole rows, but the task would add EOS to "
    "'targets'; give its features add_eos=False."
  )


def test_models_that_need_other_features_are_refused(task):
  with pytest.raises(UserError) as error:
    batches_of(
      task,
      ConcatenatedDocuments(),
      1,
      lengths={"inputs": 16, "targets": 16},
      converter=EncoderDecoder(),
    )
  assert str(error.value) == (
    "ConcatenatedDocuments makes 'targets' alone, but the model needs 'inputs' "
    "and 'targets'; use the converter LanguageModel without masking, Encoder "
    "with it."
  )


def test_bad_fields_and_specs():
  with pytest.raises(UserError) as error:
    ConcatenatedDocuments(masking=0.15)
  assert str(error.value) == (
    "ConcatenatedDocuments.masking is 0.15; it must be @Masking() or None."
  )
  for objective in (ConcatenatedDocuments(), ConcatenatedDocuments(Masking())):
    assert corruptions.from_spec(corruptions.to_spec(objective)) == objective


@pytest.mark.parametrize("masking", [None, Masking()])
def test_seqio_gives_the_rows_of_the_loader(
  task, documents, vocabulary, masking
):
  import seqio
  import tensorflow as tf

  from transformer_zoo.data.prepare.seqio_corruption import CorruptionStep

  objective = ConcatenatedDocuments(masking)
  lengths = {"inputs": 16, "targets": 16}
  feature = seqio.Feature(vocabulary.to_seqio(), add_eos=False)
  dataset = CorruptionStep(objective, seed=4)(
    tf.data.Dataset.from_generator(
      lambda: ({"targets": ids} for ids in documents),
      output_signature={"targets": tf.TensorSpec([None], tf.int32)},
    ),
    lengths,
    {"inputs": feature, "targets": feature},
  )
  theirs = list(dataset.as_numpy_iterator())
  made = ("targets",) if masking is None else ("inputs",)
  source = ConcatenatedSource(task, "train", lengths, objective, made, lengths)
  everything = np.arange(source.num_examples)
  ours = source.read(everything, 4, everything).features
  assert len(theirs) == source.num_examples
  assert set(theirs[0]) == set(ours)
  for name, feature in ours.items():
    for example, row in zip(theirs, feature.rows(), strict=True):
      np.testing.assert_array_equal(example[name], row, name)
