"""GLUE in text-to-text form: t5's strings, hidden labels, real examples."""

import os
import pathlib

import numpy as np
import pytest
import seqio
import tensorflow as tf

import mixtures  # noqa: F401
from tasks.formats import labelled_text
from tests.tasks import tfds_rows

TASKS = {
  "glue_cola_v002": (8_551, 1_043),
  "glue_sst2_v002": (67_349, 872),
  "glue_mrpc_v002": (3_668, 408),
  "glue_stsb_v002": (5_749, 1_500),
  "glue_rte_v002": (2_490, 277),
}
OTHERS = (
  "glue_qqp_v002",
  "glue_mnli_v002",
  "glue_mnli_matched_v002",
  "glue_mnli_mismatched_v002",
  "glue_ax_v002",
  "glue_qnli_v002",
  "glue_wnli_v002",
  "glue_wnli_v002_simple_eval",
)


def _format(formatter, example, **kwargs):
  dataset = tf.data.Dataset.from_tensors(example)
  return next(formatter(dataset, **kwargs).as_numpy_iterator())


@pytest.mark.parametrize(
  "label, target", [(0, b"not_duplicate"), (1, b"duplicate"), (-1, b"<unk>")]
)
def test_labelled_golden_of_t5(label, target):
  example = {
    "q2": "Why not?",
    "q1": "How so?",
    "q3": "Who?",
    "idx": 10,
    "label": np.int64(label),
  }
  actual = _format(
    labelled_text.labelled,
    example,
    benchmark="qqp",
    label_classes=("not_duplicate", "duplicate"),
  )
  assert actual == {
    "inputs": b"qqp q1: How so? q2: Why not? q3: Who?",
    "targets": target,
    "idx": 10,
  }


def test_labelled_with_features_in_order():
  example = {"word": "a", "sentence1": "b", "pos": "n", "idx": 0, "label": 1}
  actual = _format(
    labelled_text.labelled,
    example,
    benchmark="wic",
    label_classes=("False", "True"),
    feature_names=("sentence1", "word"),
  )
  assert actual["inputs"] == b"wic sentence1: b word: a"
  assert actual["targets"] == b"True"


@pytest.mark.parametrize(
  "label, target",
  [
    (3.25, b"3.2"),
    (2.57, b"2.6"),
    (0.0, b"0.0"),
    (5.0, b"5.0"),
    (4.75, b"4.8"),
    # Halves go to even.
    (0.5, b"0.4"),
    (1.5, b"1.6"),
    (2.5, b"2.4"),
    (3.5, b"3.6"),
    (4.5, b"4.4"),
  ],
)
def test_similarity(label, target):
  example = {
    "sentence1": "Big news.",
    "sentence2": "No idea.",
    "label": np.float32(label),
    "idx": 1,
  }
  actual = _format(labelled_text.similarity, example, benchmark="stsb")
  assert actual == {
    "inputs": b"stsb sentence1: Big news. sentence2: No idea.",
    "targets": target,
    "idx": 1,
  }


PAIR = {"sentence1": "The fish ate the worm.", "sentence2": "It ate.", "idx": 3}
SCHEMA = "sentence1: The fish ate the worm. sentence2: It ate."
MNLI = {"premise": "I hate pigeons.", "hypothesis": "I  like\tthem.", "idx": 3}


@pytest.mark.parametrize(
  "task, row, label, inputs, target",
  [
    (
      "glue_cola_v002",
      {"sentence": "There dances a man with an umbrella.", "idx": 3},
      0,
      "cola sentence: There dances a man with an umbrella.",
      "unacceptable",
    ),
    (
      "glue_qqp_v002",
      {"question1": "How can I swim?", "question2": "Can I swim?", "idx": 3},
      1,
      "qqp question1: How can I swim? question2: Can I swim?",
      "duplicate",
    ),
    (
      "glue_qqp_v002",
      {"question1": "", "question2": " naïve\n☃ ", "idx": 3},
      0,
      "qqp question1:  question2:  naïve\n☃ ",
      "not_duplicate",
    ),
    (
      "glue_mnli_v002",
      MNLI,
      2,
      "mnli hypothesis: I  like\tthem. premise: I hate pigeons.",
      "contradiction",
    ),
    (
      "glue_mnli_matched_v002",
      MNLI,
      0,
      "mnli hypothesis: I  like\tthem. premise: I hate pigeons.",
      "entailment",
    ),
    (
      "glue_mnli_mismatched_v002",
      MNLI,
      1,
      "mnli hypothesis: I  like\tthem. premise: I hate pigeons.",
      "neutral",
    ),
    (
      "glue_ax_v002",
      MNLI,
      -1,
      "mnli hypothesis: I  like\tthem. premise: I hate pigeons.",
      "<unk>",
    ),
    (
      "glue_qnli_v002",
      {"question": "Who was it?", "sentence": "It was she.", "idx": 3},
      0,
      "qnli question: Who was it? sentence: It was she.",
      "entailment",
    ),
    ("glue_rte_v002", PAIR, 1, f"rte {SCHEMA}", "not_entailment"),
    ("glue_mrpc_v002", PAIR, 0, f"mrpc {SCHEMA}", "not_equivalent"),
    ("glue_wnli_v002", PAIR, 0, f"wnli {SCHEMA}", "not_entailment"),
    ("glue_wnli_v002", PAIR, 1, f"wnli {SCHEMA}", "entailment"),
  ],
)
def test_text_of_rows(task, row, label, inputs, target):
  (example,) = tfds_rows.text_of(task, row | {"label": label})
  assert example == {
    "inputs": inputs.encode(),
    "targets": target.encode(),
    "idx": 3,
  }


@pytest.mark.parametrize("label", [3, -2])
def test_a_label_that_is_no_class_is_refused(label):
  with pytest.raises(
    tf.errors.InvalidArgumentError,
    match=r"label is neither -1 \(hidden\) nor one of entailment, neutral, "
    rf"contradiction:\] \[{label}\]",
  ):
    tfds_rows.text_of("glue_mnli_v002", MNLI | {"label": label})


@pytest.mark.parametrize(
  "task, answer, expected",
  [
    ("glue_cola_v002", "acceptable", 1),
    ("glue_sst2_v002", "negative", 0),
    ("glue_mrpc_v002", "equivalent", 1),
    ("glue_stsb_v002", "3.8", 3.8),
    ("glue_rte_v002", "not_entailment", 1),
    ("glue_rte_v002", "perhaps", -1),
    ("glue_qqp_v002", "duplicate", 1),
    ("glue_mnli_v002", "contradiction", 2),
    ("glue_mnli_matched_v002", "neutral", 1),
    ("glue_mnli_mismatched_v002", "entailment", 0),
    ("glue_qnli_v002", "entailment", 0),
    ("glue_wnli_v002", "entailment", 1),
  ],
)
def test_answers(task, answer, expected):
  task = seqio.TaskRegistry.get(task)
  assert task.postprocess_fn(answer, example={}, is_target=False) == expected


def test_metrics():
  names = {
    task: set().union(
      *(
        f([0, 1, 0], [0, 1, 1]) for f in seqio.TaskRegistry.get(task).metric_fns
      )
    )
    for task in (*TASKS, *OTHERS)
  }
  assert names == {
    "glue_cola_v002": {"matthews_corrcoef"},
    "glue_sst2_v002": {"accuracy"},
    "glue_mrpc_v002": {"f1", "accuracy"},
    "glue_stsb_v002": {"pearson_corrcoef", "spearman_corrcoef"},
    "glue_rte_v002": {"accuracy"},
    "glue_qqp_v002": {"f1", "accuracy"},
    "glue_mnli_v002": {"accuracy"},
    "glue_mnli_matched_v002": {"accuracy"},
    "glue_mnli_mismatched_v002": {"accuracy"},
    "glue_ax_v002": set(),
    "glue_qnli_v002": {"accuracy"},
    "glue_wnli_v002": {"accuracy"},
    "glue_wnli_v002_simple_eval": {"accuracy"},
  }


def test_mixture_is_examples_proportional():
  mixture = seqio.get_mixture_or_task("glue_real_small")
  rates = {task.name: mixture.get_rate(task) for task in mixture.tasks}
  assert rates == {task: counts[0] for task, counts in TASKS.items()}


@pytest.fixture
def data_dir(shared_data, monkeypatch, tmp_path):
  """The real data as the second of two data folders."""
  monkeypatch.delenv("ZOO_VOCABULARY", raising=False)
  monkeypatch.setenv("ZOO_DATA_DIR", f"{tmp_path}{os.pathsep}{shared_data}")
  return pathlib.Path(shared_data)


@pytest.mark.slow
@pytest.mark.parametrize("name", TASKS)
def test_real_examples(data_dir, name):
  task = seqio.TaskRegistry.get(name)
  counts = tuple(task.num_input_examples(s) for s in ("train", "validation"))
  assert counts == TASKS[name]
  dataset = task.get_dataset(None, split="validation", shuffle=False)
  vocab = task.output_features["targets"].vocabulary
  for example in dataset.take(3).as_numpy_iterator():
    prefix = name.split("_")[1] + " sentence"
    assert example["inputs_pretokenized"].decode().startswith(prefix)
    for feature in ("inputs", "targets"):
      assert example[feature][-1] == vocab.eos_id
    text = example["targets_pretokenized"].decode()
    assert vocab.decode(example["targets"].tolist()) == text
    assert task.postprocess_fn(text, example=example, is_target=True) != -1


def test_hidden_labels_become_unk(data_dir):
  task = seqio.TaskRegistry.get("glue_rte_v002")
  dataset = task.get_dataset(None, split="test", shuffle=False)
  example = next(dataset.as_numpy_iterator())
  assert example["targets_pretokenized"] == b"<unk>"


def test_the_example_told_in_the_task(data_dir):
  task = seqio.TaskRegistry.get("glue_cola_v002")
  dataset = task.get_dataset(None, split="train", shuffle=False)
  told = dataset.filter(lambda example: example["idx"] == 3280)
  example = next(told.as_numpy_iterator())
  assert example["inputs_pretokenized"] == (
    b"cola sentence: There dances a man with an umbrella."
  )
  assert example["targets_pretokenized"] == b"unacceptable"
