"""Answers of an encoder's heads: classes, numbers, choices, tags, similarities.

Each is written as the target text of the text-to-text task. The labels have the
log-likelihood; a number has its negative squared error instead.
"""

import abc
from collections.abc import Callable, Mapping
import dataclasses
from typing import Any, ClassVar

import jax
import numpy as np
import scipy.special

from transformer_zoo.evaluation.answers import tagged_text
from transformer_zoo.evaluation.scorers.interface import Row

# (params, batch) -> float32 [B, P, K]: the logits of a head at the place that
# answers in each row, or at all places where several are read.
Logits = Callable[[Any, Mapping[str, jax.Array]], jax.Array]


@dataclasses.dataclass(frozen=True)
class HeadScorer(abc.ABC):
  """Reads one head of an encoder.

  Attributes:
    logits: computes the logits of a batch.
    answering: The token of a text that its answer is read from, "first" or
      "last".
  """

  logits: Logits
  answering: str = dataclasses.field(default="first", kw_only=True)
  # Whether there are logits of all places of a row, a prompt's too.
  reads_places: ClassVar[bool] = False

  def settings(self, *, answered):
    """As `Scorer.settings`."""
    del answered
    return {}

  def compute(self, params, batch, put, *, answered):
    """As `Scorer.compute`."""
    del answered
    return self.logits(params, put(batch.arrays))

  def rows(self, task, batch, outputs):
    """As `Scorer.rows`; places are counted behind a prompt."""
    first = batch.prompt_length if self.reads_places else 0
    rows = []
    for i, text in enumerate(batch.texts):
      features = {name: array[i] for name, array in batch.arrays.items()}
      for name in ("answer_starts", "answer_ends"):
        if features.get(name, -1) >= first:
          features[name] = features[name] - first
      logits_PK = np.asarray(outputs[i], np.float64)[first:]
      length = int(batch.input_lengths[i])
      rows.append(self.row(task.form, text, logits_PK, features, length))
    return rows

  @abc.abstractmethod
  def row(
    self,
    form: Mapping[str, Any],
    text: Mapping[str, Any],
    logits_PK: np.ndarray,
    features: Mapping[str, np.ndarray],
    length: int,
  ) -> Row:
    """Returns the row of an example.

    Args:
      form: The `form` of the task.
      text: The untokenised rest of the example.
      logits_PK: The logits of the head.
      features: The row of the batch.
      length: The tokens of the row, without padding.
    """

  def joined(self, task, examples, rows):
    """As `Scorer.joined`: each is a question of its own."""
    del task
    return list(examples), list(rows)


class ClassScorer(HeadScorer):
  """The likeliest class; `probabilities` of all by their names."""

  def row(self, form, text, logits_PK, features, length):
    """As `HeadScorer.row`."""
    del features, length
    return _row_of_classes(form["classes"], logits_PK[0], text.get("label", -1))


class ChoiceScorer(HeadScorer):
  """The choice with the highest score; `probabilities` in their order."""

  def row(self, form, text, logits_PK, features, length):
    """As `HeadScorer.row`."""
    del form, length
    segments_L = features["encoder_segment_ids"]
    if self.answering == "first":
      answers_L = features["encoder_positions"] == 0
    else:
      answers_L = segments_L != np.append(segments_L[1:], 0)
    scores = logits_PK[answers_L & (segments_L > 0), 0]
    return _row_of_classes(text["choices"], scores, text.get("label", -1))


class NumberScorer(HeadScorer):
  """The number, written with seven digits."""

  def row(self, form, text, logits_PK, features, length):
    """As `HeadScorer.row`."""
    del form, features, length
    number = float(logits_PK[0, 0])
    label = text.get("label", np.nan)
    is_known = not np.isnan(label)
    error = (number - label) ** 2 if is_known else 0.0
    return {
      "log_likelihood": -error,
      "correct_tokens": 0,
      "target_tokens": int(is_known),
      "prediction": f"{number:.7g}",
    }


class SimilarityScorer(HeadScorer):
  """The cosine of the vectors of two texts, written with seven digits.

  It has no likelihood: labels have a scale of their own.
  """

  def row(self, form, text, logits_PK, features, length):
    """As `HeadScorer.row`; vectors stand in the place of logits."""
    del form, text, features, length
    first, second = logits_PK[:2]
    norms = np.linalg.norm(first) * np.linalg.norm(second)
    cosine = float(first @ second / max(norms, np.finfo(np.float64).tiny))
    return {
      "log_likelihood": 0.0,
      "correct_tokens": 0,
      "target_tokens": 0,
      "prediction": f"{cosine:.7g}",
    }


class TagScorer(HeadScorer):
  """The likeliest tag of each word, `tags`, and the text that they mark.

  `tagged_text.marked` writes the text: entities stand in brackets, or each word
  with its tag where the tags of the task are not of entities. A word that
  stands in no row, because it is cut off or has no piece, is given the tag `O`,
  or the first one.
  """

  reads_places: ClassVar[bool] = True

  def row(self, form, text, logits_PK, features, length):
    """As `HeadScorer.row`."""
    del features, length
    places = np.asarray(text["first_places"], np.int64)
    labels = text.get("label", np.full(len(places), -1))
    labels = np.asarray(labels, np.int64)
    outside = form["tags"].index("O") if "O" in form["tags"] else 0
    chosen = np.full(len(places), outside)
    read = places >= 0
    chosen[read] = logits_PK[places[read]].argmax(axis=-1)
    counted = read & (labels >= 0)
    log_probs = scipy.special.log_softmax(logits_PK[places[counted]], axis=-1)
    tags = [form["tags"][i] for i in chosen]
    return {
      "log_likelihood": float(
        np.sum(log_probs[np.arange(len(log_probs)), labels[counted]])
      ),
      "correct_tokens": int(np.sum(chosen[counted] == labels[counted])),
      "target_tokens": int(np.sum(counted)),
      "prediction": tagged_text.marked(text["tokens"], tags, form["tags"]),
      "tags": tags,
    }


def _row_of_classes(names, logits_K, label: int) -> Row:
  log_probs = scipy.special.log_softmax(logits_K)
  best = int(np.argmax(log_probs))
  is_known = label >= 0
  return {
    "log_likelihood": float(log_probs[label]) if is_known else 0.0,
    "correct_tokens": int(is_known and best == label),
    "target_tokens": int(is_known),
    "prediction": names[best],
    "probabilities": [round(p, 6) for p in np.exp(log_probs).tolist()],
  }
