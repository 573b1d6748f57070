import numpy as np
import pytest

from transformer_zoo.corruption.ragged import Ragged
from transformer_zoo.data.features import to_batch
from transformer_zoo.data.features import trim

LENGTHS = {"inputs": 12, "targets": 9}


def convert_with_seqio(examples, packing):
  """Rows of `seqio.EncDecFeatureConverter` on the same examples."""
  import seqio
  import tensorflow as tf

  spec = {k: tf.TensorSpec([None], tf.int32) for k in ("inputs", "targets")}
  dataset = tf.data.Dataset.from_generator(
    lambda: ({k: e[k] for k in spec} for e in examples), output_signature=spec
  )
  converter = seqio.EncDecFeatureConverter(pack=packing)
  return list(converter(dataset, LENGTHS).as_numpy_iterator())


def draw_examples(number, seed):
  rng = np.random.default_rng(seed)

  def draw(most):
    return np.append(rng.integers(3, 50, rng.integers(1, most)), 1).astype(
      np.int32
    )

  return [{"inputs": draw(8), "targets": draw(6)} for _ in range(number)]


@pytest.mark.parametrize("seed", range(3))
def test_unpacked_batch_equals_seqio(seed):
  examples = draw_examples(6, seed)
  batch = to_batch(
    Ragged.of([e["inputs"] for e in examples]),
    Ragged.of([e["targets"] for e in examples]),
    np.arange(6),
    num_rows=6,
    lengths=LENGTHS,
    packing=False,
  )
  assert_equal(batch, convert_with_seqio(examples, packing=False))


@pytest.mark.parametrize("seed", range(5))
def test_packed_batch_equals_seqio(seed):
  """One row at a time: SeqIO and the loader fill rows in different orders."""
  examples, rows, theirs = [], [], []
  for row in range(4):
    in_row, room = [], dict(LENGTHS)
    for example in draw_examples(5, seed * 10 + row):
      if all(len(example[k]) <= room[k] for k in room):
        in_row.append(example)
        room = {k: room[k] - len(example[k]) for k in room}
    examples += in_row
    rows += [row] * len(in_row)
    packed = convert_with_seqio(in_row, packing=True)
    assert len(packed) == 1
    theirs += packed
  batch = to_batch(
    Ragged.of([e["inputs"] for e in examples]),
    Ragged.of([e["targets"] for e in examples]),
    np.array(rows),
    num_rows=4,
    lengths=LENGTHS,
    packing=True,
  )
  assert max(rows) < len(rows) - 1  # something was packed
  assert_equal(batch, theirs)


def assert_equal(batch, theirs):
  assert set(batch) == set(theirs[0])
  for key, value in batch.items():
    assert value.dtype == np.int32
    np.testing.assert_array_equal(value, np.stack([t[key] for t in theirs]))


def test_rows_without_examples_are_empty():
  one = Ragged.of([np.array([5, 1])])
  batch = to_batch(
    one, one, np.array([1]), num_rows=3, lengths=LENGTHS, packing=True
  )
  assert batch["encoder_input_tokens"].any(axis=1).tolist() == [0, 1, 0]
  assert batch["decoder_loss_weights"].sum(axis=1).tolist() == [0, 2, 0]


def test_trim_keeps_eos_only_where_asked():
  ids = np.array([5, 6, 7, 8, 1], np.int32)
  assert trim(ids, 5, True).tolist() == [5, 6, 7, 8, 1]
  assert trim(ids, 3, True).tolist() == [5, 6, 1]
  assert trim(ids, 3, False).tolist() == [5, 6, 7]
  assert trim(ids[:4], 3, True).tolist() == [5, 6, 7]  # it had no EOS
  assert ids.tolist() == [5, 6, 7, 8, 1]
