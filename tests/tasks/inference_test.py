"""SNLI and SciTail as text."""

import pytest
import seqio
import tensorflow as tf

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


@pytest.mark.parametrize(
  "name, second", [("snli_v110", "contradiction"), ("sci_tail_v100", "neutral")]
)
def test_pairs_for_heads(name, second):
  task = seqio.TaskRegistry.get(f"{name}:classes")
  label = 2 if name == "snli_v110" else 1
  dataset = tf.data.Dataset.from_tensor_slices(
    {key: [value, value] for key, value in _PAIR.items()}
    | {"label": [-1 if name == "snli_v110" else 0, label]}
  )
  *_, found = task.preprocessors[0](dataset).as_numpy_iterator()
  assert found["first"] == _PAIR["premise"].encode()
  assert found["second"] == _PAIR["hypothesis"].encode()
  assert found["targets"] == second.encode()
  kept = len([*task.preprocessors[0](dataset).as_numpy_iterator()])
  assert kept == (1 if name == "snli_v110" else 2)
