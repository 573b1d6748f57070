"""UniLM: shares of attention kinds, segments, cloze."""

import json

import numpy as np
import pytest

from tests.corruption import vocabulary as vocabularies
from transformer_zoo import corruption
from transformer_zoo.corruption import UnifiedLanguageModel
from transformer_zoo.corruption.draws import Draws
from transformer_zoo.corruption.unified_lm import ATTENTION_KINDS
from transformer_zoo.errors import UserError

BERT = vocabularies.bert()


def _make(rows, length, vocabulary=BERT, seed=0):
  tokens = vocabularies.text(rows, length)
  made = UnifiedLanguageModel()(
    tokens, Draws(seed, np.arange(rows)), vocabulary
  )
  kinds = made.pop("attention_kind")
  assert kinds.lengths.tolist() == [1] * rows
  shaped = {name: v.values.reshape(rows, -1) for name, v in made.items()}
  return tokens, shaped, kinds.values


def test_two_segments_whose_types_tell_the_kind():
  tokens, made, kinds = _make(200, 30)
  types = {
    "bidirectional": (0, 1),
    "sequence_to_sequence": (4, 5),
    "left_to_right": (2, 2),
    "right_to_left": (3, 3),
  }
  for row, kind in enumerate(kinds):
    targets = made["targets"][row]
    ends = np.flatnonzero(targets == vocabularies.SEP)
    assert len(ends) == 2 and ends[1] == 32 and 2 <= ends[0] <= 30
    assert targets[0] == vocabularies.CLS
    text = np.delete(targets, [0, *ends])
    np.testing.assert_array_equal(text, tokens[row])
    first, second = types[ATTENTION_KINDS[kind]]
    expected = np.where(np.arange(33) <= ends[0], first, second)
    np.testing.assert_array_equal(made["token_types"][row], expected)
    assert not made["weights"][row][targets < vocabularies.FIRST].any()


def test_a_vocabulary_without_special_tokens():
  tokens, made, _ = _make(9, 30, vocabularies.t5())
  np.testing.assert_array_equal(made["targets"], tokens)
  assert made["token_types"].shape == (9, 30)


@pytest.mark.slow
def test_kinds_have_the_published_shares_and_cuts_are_uniform():
  rows = 100_000
  _, made, kinds = _make(rows, 8)
  expected = rows * np.array([1 / 3, 1 / 3, 1 / 6, 1 / 6])
  counts = np.bincount(kinds, minlength=4)
  assert ((counts - expected) ** 2 / expected).sum() < 16.3  # 3 degrees
  cuts = np.bincount((made["targets"] == vocabularies.SEP).argmax(axis=1))
  assert cuts[:2].sum() == 0 and len(cuts) == 9  # 1 to 7 tokens before it
  uniform = rows / 7
  assert ((cuts[2:] - uniform) ** 2 / uniform).sum() < 22.5  # 6 degrees
  # Kind and cut are independent: the mean cut of each kind is the same.
  places = (made["targets"] == vocabularies.SEP).argmax(axis=1)
  means = [places[kinds == kind].mean() for kind in range(4)]
  np.testing.assert_allclose(means, 5.0, atol=0.06)


def test_cloze():
  _, made, _ = _make(3000, 125)
  assert (made["weights"].sum(axis=1) == 19).all()  # round(0.15 * 128)
  hidden = made["weights"] == 1
  masked = made["inputs"][hidden] == vocabularies.MASK
  assert masked.mean() == pytest.approx(0.8, abs=0.006)
  # 13.7 spans of 1.3 tokens where single tokens would be 19.
  opens = hidden[:, 1:] & ~hidden[:, :-1]
  alone = 19 * (1 - 18 / 124)
  assert opens.sum(axis=1).mean() < alone - 2


def test_a_row_is_a_function_of_its_key():
  tokens = vocabularies.text(6, 40)
  corrupt = UnifiedLanguageModel()
  together = corrupt(tokens, Draws(3, np.arange(6)), BERT)
  alone = corrupt(tokens[4:5], Draws(3, [4]), BERT)
  for name, value in together.items():
    np.testing.assert_array_equal(alone[name].values, value.rows()[4])


def test_lengths_and_fields_are_checked():
  lengths = {"inputs": 128, "targets": 128}
  corrupt = UnifiedLanguageModel()
  assert corrupt.raw_length(lengths) == 125
  assert corrupt.check(lengths, BERT) == 0
  with pytest.raises(UserError, match="of one length; they are 128 and 20"):
    corrupt.check({"inputs": 128, "targets": 20}, BERT)
  with pytest.raises(
    UserError, match=r"weights is \(1, 1\); give a weight for"
  ):
    UnifiedLanguageModel(weights=(1, 1))
  spec = json.loads(json.dumps(corruption.to_spec(corrupt)))
  assert corruption.from_spec(spec) == corrupt
