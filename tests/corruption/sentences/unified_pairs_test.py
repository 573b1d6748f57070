"""UniLM over sentences: shares of kinds, types, and whose B is random."""

import json

import numpy as np
import pytest

from tests.corruption import documents
from tests.corruption import vocabulary
from tests.corruption.sentences.sentence_pairs_test import examples_of
from transformer_zoo import corruption as corruptions
from transformer_zoo.corruption import UnifiedSentences
from transformer_zoo.corruption.unified_lm import TOKEN_TYPES
from transformer_zoo.data.features.converters import Encoder
from transformer_zoo.errors import UserError

ROWS = 30_000


@pytest.fixture(scope="module")
def text():
  return documents.text_of(documents.draw_documents(0))


@pytest.fixture(scope="module")
def examples(text):
  return examples_of(
    UnifiedSentences(),
    text,
    chunks=np.zeros(ROWS, int),
    keys=np.arange(ROWS),
  )


@pytest.mark.slow
def test_kinds_have_the_published_shares_in_one_batch(examples):
  kinds = examples["attention_kind"].values
  expected = ROWS * np.array([1 / 3, 1 / 3, 1 / 6, 1 / 6])
  deviation = np.sqrt(expected * (1 - expected / ROWS))
  assert (np.abs(np.bincount(kinds) - expected) < 4 * deviation).all()


def test_next_sentence_is_of_the_bidirectional_part(examples):
  kinds = examples["attention_kind"].values
  labels = examples["next_sentence"].values
  assert set(labels[kinds > 0]) == {-1}
  of_bidirectional = labels[kinds == 0]
  assert set(of_bidirectional) == {0, 1}
  assert abs(of_bidirectional.mean() - 0.5) < 4 * 0.5 / np.sqrt(
    len(of_bidirectional)
  )


def test_the_second_segment_follows_the_first_unless_its_label_says_no(
  examples,
):
  rows = zip(
    examples["targets"].rows(),
    examples["token_types"].rows(),
    examples["attention_kind"].values,
    examples["next_sentence"].values,
    strict=True,
  )
  for row, types, kind, label in list(rows)[:2000]:
    first, second = np.split(row, [1 + int(np.argmax(row == vocabulary.SEP))])
    np.testing.assert_array_equal(
      types, np.repeat(TOKEN_TYPES[kind], [len(first), len(second)])
    )
    if label < 1:  # What is too long is cut on both sides.
      assert 0 < second[0] - first[-2] < 48


def test_a_batch_has_all_kinds(examples):
  converter = Encoder(attention_kinds=True)
  few = {name: value.take(np.arange(64)) for name, value in examples.items()}
  batch = converter(
    few,
    np.arange(64),
    num_rows=64,
    lengths={"inputs": 48},
    packing=False,
    pad_id=0,
  )
  assert set(batch["attention_kind"]) == {0, 1, 2, 3}
  unlabelled = batch["next_sentence"] < 0
  np.testing.assert_array_equal(unlabelled, batch["attention_kind"] > 0)


def test_json_and_refusals():
  made = UnifiedSentences(weights=(1, 0, 0, 0))
  spec = json.loads(json.dumps(corruptions.to_spec(made)))
  assert corruptions.from_spec(spec) == made
  with pytest.raises(UserError, match=r"UnifiedSentences.weights is \(1, 2\)"):
    UnifiedSentences(weights=(1, 2))
