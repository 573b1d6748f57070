"""SNLI and SciTail as text."""

import pytest
import seqio

import tasks  # noqa: F401
from tests.tasks import tfds_rows

_PAIR = {"premise": "A man sings.", "hypothesis": "Who sings?"}


@pytest.mark.parametrize(
  "task, label, text",
  [
    (
      "snli_v110",
      2,
      (
        "snli hypothesis: Who sings? premise: A man sings.",
        "contradiction",
      ),
    ),
    (
      "sci_tail_v100",
      0,
      ("sci_tail hypothesis: Who sings? premise: A man sings.", "entails"),
    ),
  ],
)
def test_text(task, label, text):
  assert tfds_rows.texts_of(task, _PAIR | {"label": label}) == [text]


def test_pairs_without_agreement_are_left_out_of_snli():
  rows = [_PAIR | {"label": label} for label in (-1, 0, -1)]
  targets = [t for _, t in tfds_rows.texts_of("snli_v110", *rows)]
  assert targets == ["entailment"]


@pytest.mark.parametrize("task", ["snli_v110", "sci_tail_v100"])
def test_the_target_words_are_the_labels_of_tfds(task):
  task = seqio.TaskRegistry.get(task)
  names = tfds_rows.features(task)["label"].names
  answers = [
    task.postprocess_fn(name, example={}, is_target=True) for name in names
  ]
  assert answers == list(range(len(names)))
  assert task.postprocess_fn("maybe", example={}, is_target=False) == -1
