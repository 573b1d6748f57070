"""A user's rows as a task: texts, labels, answers, metrics, refusals."""

import json
import pathlib

import numpy as np
import pytest
import seqio

from tasks.your_data.text_to_text import TextToTextTask
from transformer_zoo.data.loader import loader
from transformer_zoo.data.prepare import definitions
from transformer_zoo.data.prepare.preparation import prepare
from transformer_zoo.errors import UserError
from transformer_zoo.evaluation.metrics import classification

ROOT = pathlib.Path(__file__).parents[3]
VOCABULARY = str(ROOT / "tasks" / "miniature" / "vocabulary.model")
LABELS = ["entailment", "neutral", "contradiction"]
NLI = {
  "inputs": "nli premise: {premise} hypothesis: {hypothesis}",
  "targets": "{label}",
  "vocabulary": VOCABULARY,
}


@pytest.fixture(autouse=True)
def bad_rows_are_told(monkeypatch):
  monkeypatch.delenv("ZOO_SKIP_BAD_ROWS", raising=False)


@pytest.fixture
def add():
  """Returns a function that registers a task for the length of a test."""
  added = []

  def register(make, **options):
    name = f"text_to_text_test_{len(added)}"
    task = make(name, **options)
    added.append(name)
    return task

  yield register
  for name in added:
    seqio.TaskRegistry.remove(name)


@pytest.fixture
def nli(tmp_path):
  """A TSV file of three rows, one with its label as an index."""
  path = tmp_path / "nli.tsv"
  path.write_text(
    "premise\thypothesis\tlabel\n"
    "anna saw a fish.\tanna saw an animal.\tentailment\n"
    "iris sold it.\tiris was glad.\t1\n"
    "walter left.\twalter stayed.\tcontradiction\n"
  )
  return path


def examples(task, split="train"):
  dataset = task.get_dataset(None, split=split, shuffle=False)
  return list(dataset.as_numpy_iterator())


def score(prepared, example, prediction):
  """The scores of one decoded text, as the manifest says."""
  scoring = prepared.scoring
  target = example["targets_pretokenized"]
  if scoring.postprocess:
    answer = definitions.resolve(scoring.postprocess)
    target = answer(target, example=example, is_target=True)
    prediction = answer(prediction, example=example, is_target=False)
  (metric,) = scoring.metrics
  return definitions.resolve(metric)([target], [prediction])


def test_rows_become_texts_and_labels(add, nli):
  task = add(
    TextToTextTask.from_tsv,
    splits={"train": str(nli)},
    labels=LABELS,
    metrics=["accuracy", "mean_multiclass_f1"],
    **NLI,
  )
  assert isinstance(task, TextToTextTask)
  assert seqio.TaskRegistry.get(task.name) is task
  found = examples(task)
  assert [e["inputs_pretokenized"].decode() for e in found] == [
    "nli premise: anna saw a fish. hypothesis: anna saw an animal.",
    "nli premise: iris sold it. hypothesis: iris was glad.",
    "nli premise: walter left. hypothesis: walter stayed.",
  ]
  assert [e["targets_pretokenized"].decode() for e in found] == LABELS
  vocabulary = task.output_features["targets"].vocabulary
  for example in found:
    assert example["inputs"][-1] == example["targets"][-1] == vocabulary.eos_id
  answer = task.postprocess_fn
  assert [answer(text) for text in (*LABELS, "Neutral")] == [0, 1, 2, -1]
  scores = [metric([0, 1, 2], [0, 1, 2]) for metric in task.metric_fns]
  assert scores == [{"accuracy": 100.0}, {"mean_3class_f1": 100.0}]


def test_csv_and_jsonl_give_the_same(add, tmp_path):
  (tmp_path / "a.csv").write_bytes(b'x,y\r\n"1,\r\n2",true\r\n')
  (tmp_path / "a.jsonl").write_text('{"x": "1,\\r\\n2", "y": true}')
  options = {"inputs": "{x}", "targets": "{y}", "vocabulary": VOCABULARY}
  for make, kind in (
    (TextToTextTask.from_csv, "csv"),
    (TextToTextTask.from_jsonl, "jsonl"),
  ):
    task = add(
      make,
      splits={"train": str(tmp_path / f"a.{kind}")},
      labels=[False, True],
      metrics=["f1_and_accuracy"],
      **options,
    )
    (example,) = examples(task)
    assert example["inputs_pretokenized"] == b"1,\r\n2"
    assert task.postprocess_fn("true") == 1


def test_text_is_the_same_from_file_to_score(add, tmp_path):
  odd = "\u201eÜ\u201c \U0001f600 \ufffd a\u2028b  c {d} \\n \u0301e"
  (tmp_path / "a.jsonl").write_text(json.dumps({"q": odd, "a": odd}))
  task = add(
    TextToTextTask.from_jsonl,
    splits={"validation": str(tmp_path / "a.jsonl")},
    inputs="{q}",
    targets="{a}",
    metrics=["sequence_accuracy"],
    vocabulary=VOCABULARY,
  )
  prepared = prepare(task.name, prepared_dir=tmp_path / "prepared").tasks[0]
  ((_, texts),) = loader.evaluation_batches(
    prepared,
    split="validation",
    lengths={"inputs": 99, "targets": 99},
    batch_size=1,
  )
  assert texts[0]["inputs_pretokenized"] == odd
  assert texts[0]["targets_pretokenized"] == odd
  assert score(prepared, texts[0], odd) == {"sequence_accuracy": 100.0}


def test_numbers_and_their_metrics(add, tmp_path):
  (tmp_path / "a.tsv").write_text("a\t2.50\nb\t-1\n")
  options = {
    "splits": {"train": str(tmp_path / "a.tsv")},
    "columns": ["text", "score"],
    "inputs": "{text}",
    "targets": "{score}",
    "metrics": ["pearson_corrcoef", "spearman_corrcoef"],
    "vocabulary": VOCABULARY,
  }
  task = add(TextToTextTask.from_tsv, **options)
  targets = [e["targets_pretokenized"].decode() for e in examples(task)]
  assert targets == ["2.50", "-1"]
  assert [task.postprocess_fn(text) for text in targets] == [2.5, -1.0]
  (tmp_path / "a.tsv").write_text("a\thigh\nb\t-1\n")
  with pytest.raises(UserError, match="the targets 'high', which are no num"):
    examples(task)


@pytest.mark.parametrize(
  "row, options, accepted",
  [
    (
      {"q": "who?", "answers": ["anna", "anna b."]},
      {"targets": "{answers.0}", "answers": "{answers}"},
      ["anna", "anna b."],
    ),
    (
      {"q": "who?", "answers": {"text": ["iris"], "start": [1]}},
      {"targets": "{answers.text.0}", "answers": "{answers.text}"},
      ["iris"],
    ),
    ({"q": "who?", "a": "anna"}, {"targets": "{a}"}, ["anna"]),
    (
      {"q": "who?", "a": "anna", "b": 3},
      {"targets": "{a}", "answers": ["{a}", "no. {b}"]},
      ["anna", "no. 3"],
    ),
  ],
)
def test_accepted_answers(add, tmp_path, row, options, accepted):
  (tmp_path / "a.jsonl").write_text(json.dumps(row))
  task = add(
    TextToTextTask.from_jsonl,
    splits={"validation": str(tmp_path / "a.jsonl")},
    inputs="question: {q}",
    metrics=["squad"],
    vocabulary=VOCABULARY,
    **options,
  )
  (example,) = examples(task, "validation")
  assert task.postprocess_fn("", example=example, is_target=True) == accepted
  prepared = prepare(task.name, prepared_dir=tmp_path / "prepared").tasks[0]
  ((_, texts),) = loader.evaluation_batches(
    prepared,
    split="validation",
    lengths={"inputs": 9, "targets": 9},
    batch_size=1,
  )
  scores = score(prepared, texts[0], accepted[-1])
  assert scores == {"em": 100.0, "f1": 100.0}


def test_without_labels_texts_are_compared(add, nli):
  task = add(
    TextToTextTask.from_tsv,
    splits={"train": str(nli)},
    metrics=["accuracy", classification.sequence_accuracy],
    **NLI,
  )
  assert task.postprocessor is None
  assert [e["targets_pretokenized"] for e in examples(task)][1] == b"1"


def test_a_field_that_may_be_empty(add, tmp_path):
  (tmp_path / "a.jsonl").write_text('{"q": "who?", "c": null, "a": "anna"}')
  task = add(
    TextToTextTask.from_jsonl,
    splits={"train": str(tmp_path / "a.jsonl")},
    inputs="question: {q} context: {c}",
    targets="{a}",
    may_be_empty=["c"],
    vocabulary=VOCABULARY,
  )
  (example,) = examples(task)
  assert example["inputs_pretokenized"] == b"question: who? context: "


@pytest.mark.parametrize(
  "label, sentence",
  [
    (
      "3",
      "has the label 3 in the field 'label', out of the range 0 to 2 of the",
    ),
    ("neutrl", "has the label 'neutrl' in the field 'label', which is none of"),
    ("-1", "has the label '-1' in the field 'label', which is none of"),
    ("", "has an empty text in the field 'label'"),
  ],
)
def test_labels_out_of_range(add, nli, tmp_path, monkeypatch, label, sentence):
  with open(nli, "a") as file:
    file.write(f"a\tb\t{label}\n")
  task = add(
    TextToTextTask.from_tsv, splits={"train": str(nli)}, labels=LABELS, **NLI
  )
  prepared_dir = tmp_path / "prepared"
  with pytest.raises(UserError, match=f"Line 5 of the .*'{nli}' {sentence}"):
    prepare(task.name, prepared_dir=prepared_dir)
  assert not list(prepared_dir.glob("text_to_text*"))
  monkeypatch.setenv("ZOO_SKIP_BAD_ROWS", "1")
  prepared = prepare(task.name, prepared_dir=prepared_dir).tasks[0]
  assert prepared.splits["train"].num_examples == 3
  (skipped,) = task.source.skipped_rows("train")
  assert skipped.startswith(f"Line 5 of the data file '{nli}' has ")


def test_labels_that_are_numbers_are_no_indices(add, tmp_path):
  (tmp_path / "a.tsv").write_text("text\tstars\nfine\t3\nbad\t0\n")
  task = add(
    TextToTextTask.from_tsv,
    splits={"train": str(tmp_path / "a.tsv")},
    inputs="{text}",
    targets="{stars}",
    labels=[1, 2, 3],
    vocabulary=VOCABULARY,
  )
  with pytest.raises(UserError, match="Line 3 .* '0' in the field 'stars'"):
    examples(task)


@pytest.mark.parametrize(
  "options, sentence",
  [
    ({"metrics": ["acuracy"]}, "No metric is named 'acuracy'; .* 'accuracy'"),
    ({"metrics": "accuracy"}, r"metrics='accuracy' is no list; write \['acc"),
    (
      {"metrics": ["matthews_corrcoef"]},
      "'matthews_.*' compares classes: give",
    ),
    (
      {"metrics": ["f1_and_accuracy"], "labels": LABELS},
      "'f1_and_accuracy' is for two classes, .* labels= has 3",
    ),
    (
      {"metrics": ["squad", "bleu"]},
      "'squad' compares answers and 'bleu' compares texts; register two tasks",
    ),
    (
      {"metrics": ["accuracy", "squad"]},
      "'squad' compares answers and 'accuracy' compares texts; register two",
    ),
    (
      {"metrics": ["trivia_qa", "sequence_accuracy"]},
      "'trivia_qa' compares answers and 'sequence_accuracy' compares texts",
    ),
    (
      {"metrics": ["rouge"], "labels": LABELS},
      "'rouge' compares texts and 'labels=' compares class ids",
    ),
    ({"labels": ["a", "b", "a"]}, "has the label 'a' twice"),
    ({"labels": []}, "has an empty list of labels"),
    (
      {"labels": ["a"], "targets": "it is {label}"},
      "its targets are one field",
    ),
    ({"inputs": "nothing"}, "has inputs without a field: 'nothing'"),
    ({"targets": "nothing"}, "has targets without a field: 'nothing'"),
    ({"inputs": "{premise} }"}, "The inputs .* has '}' at character 11"),
    (
      {"may_be_empty": ["premis"]},
      "does not use the field 'premis' of may_be_",
    ),
    ({"splits": {}}, "has no split; give splits="),
    (
      {"splits": {"train": "a", "dev": "b"}},
      "a split 'dev'; call it 'validatio",
    ),
  ],
)
def test_impossible_arguments(options, sentence):
  options = {"splits": {"train": "a.tsv"}} | NLI | options
  with pytest.raises(UserError, match=sentence):
    TextToTextTask.from_tsv("text_to_text_test_bad", **options)
  assert "text_to_text_test_bad" not in seqio.TaskRegistry.names()


def test_impossible_names(add, nli):
  task = add(TextToTextTask.from_tsv, splits={"train": str(nli)}, **NLI)
  for name, sentence in (
    (task.name, f"A task '{task.name}' exists already; give another name"),
    ("my task", "Task 'my task' cannot be registered: "),
  ):
    with pytest.raises(UserError, match=sentence):
      TextToTextTask.from_tsv(name, splits={"train": str(nli)}, **NLI)


def test_missing_and_damaged_files(add, nli, tmp_path, monkeypatch):
  monkeypatch.delenv("ZOO_DATA_DIR", raising=False)
  task = add(TextToTextTask.from_tsv, splits={"train": "no/*.tsv"}, **NLI)
  with pytest.raises(
    UserError, match="No file matches 'no/.*no data folder is"
  ):
    examples(task)
  (tmp_path / "bad.model").write_text("no model")
  for vocabulary, sentence in (
    (
      "absent.model",
      "vocabulary file 'absent.model' is missing; no data folder",
    ),
    (str(tmp_path / "bad.model"), "bad.model' is not a SentencePiece model"),
  ):
    options = NLI | {"vocabulary": vocabulary}
    task = add(TextToTextTask.from_tsv, splits={"train": str(nli)}, **options)
    with pytest.raises(UserError, match=sentence):
      prepare(task.name, prepared_dir=tmp_path / "prepared")


def test_prepared_files_follow_the_arguments(add, nli, tmp_path):
  prepared = []
  for inputs in ("{premise}", "{premise}", "{hypothesis}"):
    name = f"text_to_text_test_same_{len(prepared)}"
    task = add(
      TextToTextTask.from_tsv,
      splits={"train": str(nli)},
      **(NLI | {"inputs": inputs}),
    )
    vocabulary = prepare(task.name, prepared_dir=tmp_path / name).tasks[0]
    prepared.append(vocabulary.definition)
  assert prepared[0] == prepared[1] != prepared[2]


def test_scoring_is_importable_without_tensorflow(add, nli):
  task = add(
    TextToTextTask.from_tsv,
    splits={"train": str(nli)},
    labels=LABELS,
    metrics=["accuracy"],
    **NLI,
  )
  scoring = definitions.describe_scoring(task)
  assert scoring.postprocess == {
    "function": (
      "transformer_zoo.evaluation.answers.post_processors:"
      "string_label_to_class_id"
    ),
    "kwargs": {"label_classes": LABELS},
  }
  np.testing.assert_equal(
    [m["function"] for m in scoring.metrics],
    ["transformer_zoo.evaluation.metrics.classification:accuracy"],
  )
