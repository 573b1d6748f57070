"""Answers of heads: written as targets, likelihoods by hand."""

import types

import numpy as np
import pytest
import scipy.special
import tensorflow as tf

from tasks.formats import tagging
from transformer_zoo.data.loader.evaluation_split import EvaluationBatch
from transformer_zoo.evaluation.answers import tagged_text
from transformer_zoo.evaluation.scorers import heads


def task(**form):
  return types.SimpleNamespace(form=form)


def batch(texts, lengths=None, prompt_length=0, **arrays):
  number = len(texts)
  return EvaluationBatch(
    arrays,
    np.arange(number),
    texts,
    [{}] * number,
    np.zeros((number, 1), np.int32),
    np.array(lengths or [1] * number),
    prompt_length,
  )


def test_classes():
  logits = np.array([[[1.0, 2.0]], [[3.0, -1.0]], [[0.0, 0.5]]])
  rows = heads.ClassScorer(None).rows(
    task(classes=["no", "yes"]),
    batch([{"label": 1}, {"label": 1}, {"label": -1}]),
    logits,
  )
  log_probs = scipy.special.log_softmax(logits[:, 0], axis=-1)
  assert [row["prediction"] for row in rows] == ["yes", "no", "yes"]
  assert [row["correct_tokens"] for row in rows] == [1, 0, 0]
  assert [row["target_tokens"] for row in rows] == [1, 1, 0]
  np.testing.assert_allclose(
    [row["log_likelihood"] for row in rows], [*log_probs[:2, 1], 0]
  )
  np.testing.assert_allclose(
    rows[0]["probabilities"], np.exp(log_probs[0]), atol=1e-6
  )


def test_numbers():
  rows = heads.NumberScorer(None).rows(
    task(), batch([{"label": 3.0}, {"label": float("nan")}]), [[[2.5]], [[4.0]]]
  )
  assert [row["prediction"] for row in rows] == ["2.5", "4"]
  assert [row["log_likelihood"] for row in rows] == [-0.25, 0.0]


@pytest.mark.parametrize(
  "answering, scores", [("first", [0, -2, -5]), ("last", [-1, -4, -5])]
)
def test_choices_are_scored_at_one_token_each(answering, scores):
  logits = np.arange(8.0)[None, :, None] * [[[-1.0]]]
  segments = np.array([[1, 1, 2, 2, 2, 3, 0, 0]])
  positions = np.array([[0, 1, 0, 1, 2, 0, 0, 0]])
  (row,) = heads.ChoiceScorer(None, answering=answering).rows(
    task(),
    batch(
      [{"label": 2, "choices": ["a", "b", "c"]}],
      encoder_segment_ids=segments,
      encoder_positions=positions,
    ),
    logits,
  )
  log_probs = scipy.special.log_softmax(np.array(scores, float))
  assert row["prediction"] == "a" and row["correct_tokens"] == 0
  assert row["log_likelihood"] == pytest.approx(log_probs[2])


def test_tags_of_words_and_those_that_are_cut_off():
  tags = ["O", "B-PER", "I-PER"]
  logits = np.full((1, 4, 3), -9.0)
  logits[0, [1, 2, 3], [1, 0, 2]] = 9.0
  text = {
    "tokens": ["Ada", "Lovelace", "wrote", "it"],
    "first_places": [1, 3, 2, -1],
    "label": [1, 2, 1, 0],
  }
  (row,) = heads.TagScorer(None).rows(task(tags=tags), batch([text]), logits)
  assert row["tags"] == ["B-PER", "I-PER", "O", "O"]
  assert row["prediction"] == "[ Ada Lovelace | PER ] wrote it"
  assert (row["correct_tokens"], row["target_tokens"]) == (2, 3)
  behind = np.concatenate([np.full((1, 2, logits.shape[-1]), 9.0), logits], 1)
  rows = heads.TagScorer(None).rows(
    task(tags=tags), batch([text], prompt_length=2), behind
  )
  assert rows == [row]


def test_a_text_without_words_has_no_tags():
  text = {"tokens": [], "first_places": [], "label": []}
  (row,) = heads.TagScorer(None).rows(
    task(tags=["O", "B-PER"]), batch([text]), np.zeros((1, 2, 2))
  )
  assert row["prediction"] == "" and row["tags"] == []
  assert (row["log_likelihood"], row["target_tokens"]) == (0.0, 0)


def test_tags_that_are_not_of_entities():
  logits = np.array([[[9.0, 0.0], [0.0, 9.0]]])
  text = {"tokens": ["the", "cat"], "first_places": [0, 1], "label": [-1, -1]}
  (row,) = heads.TagScorer(None).rows(
    task(tags=["DET", "NOUN"]), batch([text]), logits
  )
  assert row["tags"] == ["DET", "NOUN"]
  assert row["prediction"] == "the/DET cat/NOUN"


@pytest.mark.parametrize(
  "tags",
  [
    ["O", "O", "O", "O", "O"],
    ["I-ORG", "O", "I-MISC", "O", "O"],
    ["B-LOC", "I-LOC", "B-LOC", "I-PER", "I-PER"],
    ["O", "B-PER", "I-PER", "I-PER", "O"],
  ],
)
def test_brackets_are_those_of_the_targets(tags):
  tokens = ["EU", "[", "]]", "calls", "|"]
  dataset = tf.data.Dataset.from_tensors({"tokens": tokens, "tags": tags})
  (example,) = tagging.bracketed(dataset, "test").as_numpy_iterator()
  text = tagged_text.bracketed(tokens, tags)
  assert text == example["targets"].decode()
  assert tagged_text.find_entities(text, tokens) == tagged_text.entities(tags)
