"""A user's rows as a task: texts, labels, answers, metrics, refusals."""

import json
import pathlib
import re

import numpy as np
import pytest
import seqio

from tasks.corpora.unlabelled_text import register_text_task
from tasks.formats.numbers import Bins
from tasks.formats.numbers import Digits
from tasks.your_data.few_shot import register_few_shot
from tasks.your_data.prompted import register_prompts
from tasks.your_data.rows import RowFiles
from tasks.your_data.text_to_text import TextToTextTask
from tests.tasks import arrow_tables
from transformer_zoo.data.loader import loader
from transformer_zoo.data.prepare.preparation import prepare
from transformer_zoo.data.storage import function_references
from transformer_zoo.errors import UserError
from transformer_zoo.evaluation.metrics import classification

ROOT = pathlib.Path(__file__).parents[3]
VOCABULARY = str(ROOT / "tasks" / "miniature" / "vocabulary.model")
ROUGE = ("rouge1", "rouge2", "rougeLsum")
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
    answer = function_references.resolve(scoring.postprocess)
    target = answer(target, example=example, is_target=True)
    prediction = answer(prediction, example=example, is_target=False)
  (metric,) = scoring.metrics
  return function_references.resolve(metric)([target], [prediction])


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


def test_kinds_of_files_give_the_same(add, tmp_path):
  (tmp_path / "a.csv").write_bytes(b'x,y\r\n"1,\r\n2",true\r\n')
  (tmp_path / "a.jsonl").write_text('{"x": "1,\\r\\n2", "y": true}')
  columns = {"x": ["1,\r\n2"], "y": [True]}
  (tmp_path / "a.parquet").write_bytes(arrow_tables.to_parquet(columns))
  (tmp_path / "a.arrow").write_bytes(arrow_tables.to_arrow(columns))
  options = {"inputs": "{x}", "targets": "{y}", "vocabulary": VOCABULARY}
  for make, kind in (
    (TextToTextTask.from_csv, "csv"),
    (TextToTextTask.from_jsonl, "jsonl"),
    (TextToTextTask.from_parquet, "parquet"),
    (TextToTextTask.from_arrow, "arrow"),
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


def test_numbers_in_bins_and_digit_by_digit(add, tmp_path):
  (tmp_path / "a.tsv").write_text("a\t2.57\nb\t-134.5\n")
  options = {
    "splits": {"train": str(tmp_path / "a.tsv")},
    "columns": ["text", "score"],
    "inputs": "{text}",
    "targets": "{score}",
    "metrics": ["pearson_corrcoef"],
    "vocabulary": VOCABULARY,
  }
  for numbers, expected in (
    (Bins(step=20), ["0", "-140"]),
    (Digits(decimals=1), ["2 . 6", "- 1 3 4 . 5"]),
  ):
    task = add(TextToTextTask.from_tsv, **options, numbers=numbers)
    rows = examples(task)
    texts = [row["targets_pretokenized"].decode() for row in rows]
    assert texts == expected
    assert [
      task.postprocess_fn(text, example=row, is_target=True)
      for text, row in zip(texts, rows, strict=True)
    ] == [2.57, -134.5]
  assert task.postprocess_fn("- 1 3 4 . 5") == -134.5
  options["metrics"] = ["accuracy"]
  with pytest.raises(UserError, match="numbers= spells the targets"):
    add(TextToTextTask.from_tsv, **options, numbers=Digits())


@pytest.mark.slow
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
    (
      {"metrics": ["squad", "squad_v2"]},
      "'squad' compares answers and 'squad_v2' compares answers or none",
    ),
    (
      {"choices": "{a} or {b}"},
      "has choices=, so that choices= is one field, such as '{label}', not",
    ),
    (
      {"choices": "{a}", "targets": "it is {b}"},
      "has choices=, so that targets= is one field",
    ),
    (
      {"choices": "{a}", "labels": LABELS},
      "has choices= and labels=; the choices of a row are ranked by likelihood",
    ),
    (
      {"choices": "{a}", "metrics": ["bleu"]},
      r"has choices= and metrics=\['bleu'\]; choices are scored by accuracy",
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


def write_rows(path, *rows):
  path.write_text("\n".join(map(json.dumps, rows)))
  return {"train": str(path), "validation": str(path)}


@pytest.mark.slow
def test_squad_2_with_unanswerable_rows(add, tmp_path):
  task = add(
    TextToTextTask.from_jsonl,
    splits=write_rows(
      tmp_path / "rows.jsonl",
      {"question": "who?", "answers": {"text": ["anna", "Anna S."]}},
      {"question": "why?", "answers": {"text": []}},
    ),
    inputs="question: {question}",
    targets="{answers.text}",
    metrics=["squad_v2"],
    vocabulary=VOCABULARY,
  )
  prepared = prepare(task.name, prepared_dir=tmp_path / "prepared").tasks[0]
  found = examples(task)
  assert [e["targets_pretokenized"].decode() for e in found] == [
    "anna",
    "unanswerable",
  ]
  batches = loader.evaluation_batches(
    prepared,
    split="validation",
    lengths={"inputs": 16, "targets": 8},
    batch_size=2,
  )
  answerable, other = (text for _, texts in batches for text in texts)
  assert other["answers"] == []
  em = {"em": 100.0, "f1": 100.0}
  assert score(prepared, answerable, "anna s").items() >= em.items()
  assert score(prepared, other, "Unanswerable.").items() >= em.items()
  assert score(prepared, other, "anna")["em"] == 0
  assert score(prepared, answerable, "unanswerable")["em"] == 0


@pytest.mark.slow
@pytest.mark.parametrize(
  "metric, values, targets",
  [
    ("bleu", {"bleu": 100.0}, "{references}"),
    ("rouge", dict.fromkeys(ROUGE, 100.0), "{references.0}"),
  ],
)
def test_several_references(add, tmp_path, metric, values, targets):
  references = ["the fish is small and red.", "it is a small red fish here."]
  task = add(
    TextToTextTask.from_jsonl,
    splits=write_rows(
      tmp_path / "rows.jsonl", {"text": "a", "references": references}
    ),
    inputs="say: {text}",
    targets=targets,
    answers="{references}",
    metrics=[metric],
    vocabulary=VOCABULARY,
  )
  prepared = prepare(task.name, prepared_dir=tmp_path / "prepared").tasks[0]
  (example,) = examples(task)
  assert example["targets_pretokenized"].decode() == references[0]
  example = {
    "targets_pretokenized": references[0],
    "answers": [text.decode() for text in example["answers"]],
  }
  for reference in references:
    assert score(prepared, example, reference) == pytest.approx(values)
  assert score(prepared, example, "dog") != pytest.approx(values)


CHOICES = [
  {"question": "q", "choices": ["wet", "dry", "hot"], "label": 1},
  {"question": "r", "choices": ["old", "new"], "label": "old"},
]


def test_the_calls_of_the_guide():
  guide = (ROOT / "docs/guides/your_own_task.md").read_text(encoding="utf-8")
  before = set(seqio.TaskRegistry.names())
  try:
    for call in re.findall(r"```python\n(.*?)```", guide, re.S):
      exec(call, {"TextToTextTask": TextToTextTask})
    added = set(seqio.TaskRegistry.names()) - before
    assert added == {"my_nli", "my_mrpc", "my_quiz"}
    task = seqio.TaskRegistry.get("my_quiz")
    assert len(task.score_metric_fns) == 1
  finally:
    for name in set(seqio.TaskRegistry.names()) - before:
      seqio.TaskRegistry.remove(name)


@pytest.mark.slow
def test_choices_of_each_row(add, tmp_path):
  task = add(
    TextToTextTask.from_jsonl,
    splits=write_rows(tmp_path / "rows.jsonl", *CHOICES),
    inputs="question: {question}",
    targets="{label}",
    choices="{choices}",
    metrics=["accuracy"],
    vocabulary=VOCABULARY,
  )
  prepared = prepare(task.name, prepared_dir=tmp_path / "prepared").tasks[0]
  texts = [e["targets_pretokenized"].decode() for e in examples(task)]
  assert texts == ["dry", "old"]
  found = examples(task, "validation")
  assert [e["targets_pretokenized"].decode() for e in found] == [
    "wet",
    "dry",
    "hot",
    "old",
    "new",
  ]
  right = [bool(e["is_correct"]) for e in found]
  assert right == [False, True, False, True, False]
  scoring = prepared.scoring
  answer = function_references.resolve(scoring.postprocess)
  (metric,) = scoring.score_metrics
  targets = [answer("", example=e, is_target=True) for e in found]
  measure = function_references.resolve(metric)
  assert measure(targets, [-3.0, -1.0, -2.0, -1.0, -2.0]) == {"accuracy": 100.0}
  assert measure(targets, [-3.0, -1.0, -2.0, -2.0, -1.0]) == {"accuracy": 50.0}


@pytest.mark.parametrize(
  "row, sentence",
  [
    (
      {"label": 3},
      "has the label '3' in the field 'label', which is none ",
    ),
    ({"choices": ["1", "2"], "label": "3"}, "which is none of 1, 2"),
    ({"choices": ["wet"], "label": 0}, "has 1 choices, not two or more"),
    ({"choices": "wet", "label": 0}, "has 1 choices, not two or more"),
  ],
)
def test_bad_choices(add, tmp_path, row, sentence):
  task = add(
    TextToTextTask.from_jsonl,
    splits=write_rows(tmp_path / "rows.jsonl", CHOICES[0] | row),
    inputs="question: {question}",
    targets="{label}",
    choices="{choices}",
    vocabulary=VOCABULARY,
  )
  with pytest.raises(UserError, match=sentence):
    prepare(task.name, prepared_dir=tmp_path / "prepared")


def test_a_number_may_be_the_text_of_a_choice(add, tmp_path):
  row = {"question": "1 + 1", "choices": ["1", "2"], "label": 1}
  task = add(
    TextToTextTask.from_jsonl,
    splits=write_rows(tmp_path / "rows.jsonl", row),
    inputs="question: {question}",
    targets="{label}",
    choices="{choices}",
    vocabulary=VOCABULARY,
  )
  (example,) = examples(task)
  assert example["targets_pretokenized"] == b"1"


@pytest.mark.parametrize(
  "call, sentence",
  [
    (
      lambda: TextToTextTask.from_tsv("a", {"train": "a"}, lables=["b"], **NLI),
      "^TextToTextTask.from_tsv has no argument 'lables'; did you mean 'label",
    ),
    (
      lambda: TextToTextTask.from_csv(
        "a", {"train": "a"}, delimeter="|", **NLI
      ),
      "^TextToTextTask.from_csv has no argument 'delimeter'; did you mean 'de",
    ),
    (
      lambda: TextToTextTask.from_jsonl("a", {"train": "a"}, inputs="{b}"),
      "^TextToTextTask.from_jsonl: missing a required argument: 'targets'.$",
    ),
    (
      lambda: RowFiles({"train": "a"}, "tsv", column=["b"]),
      "^RowFiles has no argument 'column'; did you mean 'columns'",
    ),
    (
      lambda: register_prompts("a.yaml", None, metric=["rouge"]),
      "^register_prompts has no argument 'metric'; did you mean 'metrics'",
    ),
    (
      lambda: register_few_shot("a", "b", num_shot=1),
      "^register_few_shot has no argument 'num_shot'; did you mean 'num_shots'",
    ),
    (
      lambda: register_text_task("a", {"train": "a"}, corupption=None),
      "^register_text_task has no argument 'corupption'; did you mean 'corrup",
    ),
  ],
)
def test_a_misspelt_argument_is_named(call, sentence):
  with pytest.raises(UserError, match=sentence):
    call()


@pytest.mark.slow
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
  scoring = function_references.describe_scoring(task)
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
