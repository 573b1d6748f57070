"""Pairs of a few labelled texts, by which SetFit tunes their vectors.

    LabelPairsTask.from_tsv(
      "my_reviews_pairs",
      splits={"train": "reviews/few.tsv"},
      text="{review}",
      label="{label}",
    )

registers `my_reviews_pairs:embedding`. Each round pairs every text with a text
of its label, whose similarity is 1, and with one of another label, whose
similarity is 0 (Tunstall et al. 2022, section 3; `sentence_pairs_generation` of
huggingface/setfit).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import seqio
import tensorflow as tf

from tasks import vocabulary as vocabularies
from tasks.formats import forms
from tasks.your_data.from_files import FromFiles
from tasks.your_data.registration import add_task
from tasks.your_data.rows import BadRow
from tasks.your_data.rows import Row
from tasks.your_data.rows import RowFiles
from tasks.your_data.rows import RowsDataSource
from tasks.your_data.rows import TEXT
from tasks.your_data.templates import Template
from transformer_zoo.data.features.forms import name_in_form
from transformer_zoo.errors import UserError

_SIGNATURE = {
  "inputs": TEXT,
  "targets": TEXT,
  "texts": tf.TensorSpec((None,), tf.string),
  "label": tf.TensorSpec((), tf.float32),
}


class _PairsDataSource(RowsDataSource):
  """The pairs of the labelled texts of each file."""

  def __init__(
    self,
    files: RowFiles,
    text: Template,
    label: Template,
    rounds: int,
    seed: int,
  ):
    def labelled(row: Row) -> list[tuple[str, str]]:
      return [(text.fill(row), label.fill(row))]

    super().__init__(
      files,
      labelled,
      signature=_SIGNATURE,
      fields=[*text.fields, *label.fields],
      settings=["label_pairs", text.text, label.text, rounds, seed],
    )
    self._rounds = rounds
    self._seed = seed

  def read(self, path: str) -> Iterator[dict[str, Any] | BadRow]:
    """Yields the bad rows of a file, then its pairs."""
    labelled = []
    for found in super().read(path):
      if isinstance(found, BadRow):
        yield found
      else:
        labelled.append(found)
    yield from pairs_of(labelled, self._rounds, self._seed)


def pairs_of(
  labelled: Sequence[tuple[str, str]], rounds: int, seed: int
) -> Iterator[Mapping[str, Any]]:
  """Yields pairs of texts with the similarity 1 or 0.

  Args:
    labelled: Texts with their labels.
    rounds: The number of pairs of each kind for each text.
    seed: The seed of the draws.

  Raises:
    UserError: All texts have the same label.
  """
  labels = np.array([label for _, label in labelled])
  if len(set(labels.tolist())) < 2:
    raise UserError(
      "pairs of labels need texts of two labels or more, and all texts have "
      f"{', '.join(sorted(set(labels.tolist()))) or 'none'}; add others"
    )
  random = np.random.RandomState(seed)
  for _ in range(rounds):
    for text, label in labelled:
      for similarity in (1.0, 0.0):
        places = np.flatnonzero((labels == label) == bool(similarity))
        other, _ = labelled[random.choice(places)]
        yield {
          "inputs": text,
          "targets": other,
          "texts": [text, other],
          "label": similarity,
        }


def _register(
  name: str,
  files: RowFiles,
  *,
  text: str,
  label: str,
  rounds: int = 20,
  seed: int = 0,
  vocabulary: str | None = None,
  extra_ids: int | None = None,
) -> seqio.Task:
  """Registers the pairs of the rows of `files`."""
  if rounds < 1:
    raise UserError(f"Task {name!r} has rounds={rounds}; it takes at least 1.")
  return add_task(
    name_in_form(name, "embedding"),
    _PairsDataSource(
      files, Template(text, "text"), Template(label, "label"), rounds, seed
    ),
    features=vocabularies.form_features(vocabulary, extra_ids),
    tokenized=[forms.PiecesStep({"form": "embedding"})],
    metric_fns=[],
    postprocess_fn=None,
  )


class LabelPairsTask(FromFiles):
  """Pairs of the labelled texts of files, made and registered by `from_...`.

  Arguments of all, beside those of `TextToTextTask` on files:
    text: The text with fields, as '{review}'.
    label: The label, as '{label}'.
    rounds: The number of pairs of each kind for each text, 20 in SetFit.
    seed: The seed of the draws.
    vocabulary: A vocabulary with [CLS] and [SEP], or any other; by default
      BERT's.
  """

  _register = staticmethod(_register)
