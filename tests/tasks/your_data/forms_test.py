"""A user's rows in the forms of an encoder: one word of the same call."""

import json
import pathlib

import numpy as np
import pyarrow as pa
import pytest
import seqio
import tensorflow as tf

from tasks.formats import tagging
from tasks.your_data import forms
from tasks.your_data.text_to_text import TextToTextTask
from tests.tasks import arrow_tables
from transformer_zoo.data.features.converters import Encoder
from transformer_zoo.data.loader import loader
from transformer_zoo.data.prepare.preparation import prepare
from transformer_zoo.data.storage import function_references
from transformer_zoo.errors import UserError
from transformer_zoo.evaluation.answers import tagged_text

ROOT = pathlib.Path(__file__).parents[3]
VOCABULARY = str(ROOT / "tasks" / "miniature" / "vocabulary.model")
NLI = {
  "inputs": "nli premise: {premise} hypothesis: {hypothesis}",
  "targets": "{label}",
  "labels": ["entailment", "neutral", "contradiction"],
  "metrics": ["accuracy"],
  "vocabulary": VOCABULARY,
}
NLI_ROWS = [
  {"premise": "anna saw a fish.", "hypothesis": "anna saw.", "label": 2},
  {"premise": "tom ran.", "hypothesis": "he ran.", "label": "entailment"},
]
QA = {
  "inputs": "question: {question} context: {context}",
  "targets": "{answers.text}",
  "metrics": ["squad_v2"],
  "vocabulary": VOCABULARY,
}
QA_ROWS = [
  {
    "question": "who ran?",
    "context": "the tomcat and tom ran.",
    "answers": {"text": ["tom", "tom ran"], "start": [15, 15]},
  },
  {"question": "who sat?", "context": "tom ran.", "answers": {"text": []}},
]
TAGS = {
  "inputs": "ner sentence: {tokens}",
  "targets": "{tags}",
  "labels": ["O", "B-PER", "I-PER", "B-ORG", "I-ORG"],
  "vocabulary": VOCABULARY,
}
TAGS_ROWS = [
  {"tokens": ["anna", "[", "saw", "acme"], "tags": ["I-PER", "O", "O", "B-ORG"]}
]


@pytest.fixture
def add(tmp_path):
  """Returns a function that registers rows and returns the form's examples."""
  added = []
  before = set(seqio.TaskRegistry.names())

  def register(task_class, rows, **options):
    name = f"forms_of_rows_{len(added)}"
    added.append(name)
    path = tmp_path / f"{name}.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return task_class.from_jsonl(name, {"train": str(path)}, **options)

  yield register
  for name in set(seqio.TaskRegistry.names()) - before:
    seqio.TaskRegistry.remove(name)


def read(task, tmp_path, length=64):
  """Rows of a task: (features of the row, its text)."""
  (prepared,) = prepare(task.name, prepared_dir=tmp_path / "prepared").tasks
  form = prepared.form["form"]
  converter = Encoder(form=form, predicted_share=1)
  ((batch, texts),) = loader.evaluation_batches(
    prepared,
    split="train",
    lengths={"inputs": length, "targets": length},
    batch_size=4,
    converter=converter,
  )
  return [
    ({name: value[i] for name, value in batch.items()}, text)
    for i, text in enumerate(texts)
  ]


def text_to_text(name, tmp_path):
  (prepared,) = prepare(name, prepared_dir=tmp_path / "prepared").tasks
  batches = loader.evaluation_batches(
    prepared,
    split="train",
    lengths={"inputs": 64, "targets": 32},
    batch_size=4,
  )
  return [text for _, texts in batches for text in texts]


def test_one_word_makes_classes_of_a_text_to_text_task(add, tmp_path):
  words = add(TextToTextTask, NLI_ROWS, **NLI)
  form = add(forms.ClassesTask, NLI_ROWS, **NLI)
  base = form.name.removesuffix(":classes")
  texts = text_to_text(base, tmp_path)
  assert texts == text_to_text(words.name, tmp_path)
  rows = read(form, tmp_path)
  for (row, text), other in zip(rows, texts, strict=True):
    label = row["encoder_target_tokens"][0]
    assert NLI["labels"][label] == text["targets_pretokenized"]
    assert text["targets_pretokenized"] == other["targets_pretokenized"]
    assert text["inputs_pretokenized"] == other["inputs_pretokenized"]
    assert row["encoder_loss_weights"].sum() == 1
  assert function_references.describe_scoring(
    form
  ) == function_references.describe_scoring(words)


def test_a_form_beside_a_task_that_is_there(add):
  words = add(TextToTextTask, NLI_ROWS, **NLI)
  files = seqio.TaskRegistry.get(words.name).source._files
  form = forms.register("classes", words.name, files, **NLI)
  assert form.name == f"{words.name}:classes"
  assert seqio.TaskRegistry.get(words.name) is words


@pytest.mark.parametrize(
  "task_class, rows, options",
  [
    (forms.ClassesTask, [{**row, "label": 2} for row in NLI_ROWS], NLI),
    (forms.SpansTask, QA_ROWS, QA),
    (forms.TagsTask, [{**TAGS_ROWS[0], "tags": [2, 0, 0, 3]}], TAGS),
  ],
)
def test_saved_folders_and_parquet_give_the_same_as_json_lines(
  task_class, rows, options, add, tmp_path
):
  """Class ids, and lists within a record, are those of `datasets`."""
  table = pa.Table.from_pylist(rows)
  arrow_tables.save_splits(tmp_path / "saved", train=table)
  (tmp_path / "a.parquet").write_bytes(arrow_tables.to_parquet(table))
  tasks = [add(task_class, rows, **options)]
  for make, path in (
    (task_class.from_arrow, "saved"),
    (task_class.from_parquet, "a.parquet"),
  ):
    splits = {"train": str(tmp_path / path)}
    tasks.append(make(f"forms_of_{path}", splits, **options))
  expected, *others = (
    list(task.source.read(*task.source.list_shards("train"))) for task in tasks
  )
  assert len(expected) == len(rows)
  assert others == [expected, expected]


def decoded(row):
  from transformer_zoo.data.vocabularies import Vocabulary

  vocabulary = Vocabulary(VOCABULARY)
  types = row["encoder_token_types"]
  filled = row["encoder_input_tokens"] > 0
  return [
    vocabulary.decode(row["encoder_input_tokens"][filled & (types == kind)])
    for kind in (0, 1)
  ]


@pytest.mark.slow
def test_texts_are_the_fields_of_the_inputs_or_given(add, tmp_path):
  rows = [{"a": "anna ran.", "b": "tom ran.", "c": "he ran.", "label": "yes"}]
  options = {
    "inputs": "a: {a} b: {b} c: {c}",
    "targets": "{label}",
    "labels": ["no", "yes"],
    "vocabulary": VOCABULARY,
  }
  for texts, expected in (
    (None, ["anna ran.", "tom ran. he ran."]),
    (["{c} {a}"], ["he ran. anna ran.", ""]),
    (["{b}", "{a}"], ["tom ran.", "anna ran."]),
  ):
    task = add(forms.ClassesTask, rows, texts=texts, **options)
    ((row, _),) = read(task, tmp_path)
    assert decoded(row) == expected


def test_numbers(add, tmp_path):
  rows = [{"a": "anna ran.", "b": "tom ran.", "score": 2.57}]
  task = add(
    forms.NumberTask,
    rows,
    inputs="{a} and {b}",
    targets="{score}",
    metrics=["pearson_corrcoef"],
    vocabulary=VOCABULARY,
  )
  ((row, text),) = read(task, tmp_path)
  assert row["encoder_target_tokens"][:1].view(np.float32)[0] == np.float32(
    2.57
  )
  assert text["targets_pretokenized"] == "2.57"


@pytest.mark.parametrize("starts", [None, "{answers.start}"])
def test_spans(add, starts, tmp_path):
  """Words are looked for before parts of words; some rows have no answer."""
  task = add(forms.SpansTask, QA_ROWS, answer_starts=starts, **QA)
  (row, text), (none, other) = read(task, tmp_path)
  shift = text["window"]["start"] - text["window"]["place"]
  first = text["piece_starts"][row["answer_starts"] + shift]
  last = text["piece_ends"][row["answer_ends"] + shift]
  assert (first, text["context"][first:last]) == (15, "tom")
  assert text["answers"] == ["tom", "tom ran"]
  assert (none["answer_starts"], none["answer_ends"]) == (0, 0)
  assert other["targets_pretokenized"] == "unanswerable"


@pytest.mark.parametrize(
  "choices", ["{choices}", ["{choices.0}", "{choices.1}"]]
)
def test_choices(add, choices, tmp_path):
  rows = [{"question": "who ran?", "choices": ["anna", "tom"], "label": 1}]
  labels = {} if isinstance(choices, str) else {"labels": ["one", "two"]}
  task = add(
    forms.ChoicesTask,
    rows,
    inputs="question: {question}",
    targets="{label}",
    choices=choices,
    metrics=["accuracy"],
    vocabulary=VOCABULARY,
    **labels,
  )
  ((row, text),) = read(task, tmp_path)
  assert text["choices"] == labels.get("labels", ["anna", "tom"])
  assert text["targets_pretokenized"] == text["choices"][1]
  places = np.flatnonzero(row["encoder_loss_weights"])
  assert row["encoder_target_tokens"][places].tolist() == [0, 1]
  assert decoded(row)[1].startswith("anna")


def test_embeddings(add, tmp_path):
  rows = [{"ask": "who ran?", "good": "tom ran", "bad": "anna", "score": 4.5}]
  task = add(
    forms.EmbeddingTask,
    rows,
    inputs="{ask}",
    targets="{good}",
    texts=["{ask}", "{good}", "{bad}"],
    similarity="{score}",
    vocabulary=VOCABULARY,
  )
  ((row, text),) = read(task, tmp_path)
  places = np.flatnonzero(row["encoder_loss_weights"])
  labels = row["encoder_target_tokens"][places].view(np.float32)
  assert labels.tolist() == [4.5, 4.5]
  assert text["targets_pretokenized"] == "tom ran"
  assert row["encoder_segment_ids"].max() == 2


@pytest.mark.slow
def test_tags(add, tmp_path):
  task = add(forms.TagsTask, TAGS_ROWS, **TAGS)
  base = task.name.removesuffix(":tags")
  ((row, text),) = read(task, tmp_path)
  places = np.array(text["first_places"])
  assert row["encoder_target_tokens"][places].tolist() == [1, 0, 0, 3]
  assert row["encoder_loss_weights"].sum() == 4
  (words,) = text_to_text(base, tmp_path)
  target = "[ anna | PER ] [[ saw [ acme | ORG ]"
  assert words["targets_pretokenized"] == target
  assert words["inputs_pretokenized"] == "ner sentence: anna [ saw acme"


@pytest.mark.parametrize(
  "tokens, tags",
  [
    (["a", "b", "c"], ["B-X", "B-X", "I-X"]),
    (["[", "]]", "|", "|a"], ["O", "I-Y", "I-Y", "O"]),
    (["a"], ["O"]),
    (["a", "b"], ["I-X", "I-Y"]),
  ],
)
def test_brackets_are_those_of_benchmarks(tokens, tags):
  written = tagging._with_brackets(tf.constant(tokens), tf.constant(tags))
  expected = " ".join(word.decode() for word in written.numpy())
  assert tagged_text.bracketed(tokens, tags) == expected
  entities = tagged_text.entities(tags)
  assert tagged_text.find_entities(expected, tokens) == entities


@pytest.mark.parametrize(
  "task_class, rows, options, message",
  [
    (
      forms.ClassesTask,
      [{"premise": "a", "hypothesis": "b", "label": 3}],
      NLI,
      "has the label 3 in the field 'label', out of the range 0 to 2 of the 3 "
      "labels",
    ),
    (
      forms.SpansTask,
      [{**QA_ROWS[0], "answers": {"text": ["dog"]}}],
      QA,
      "cannot become a span: the answer 'dog' is not in its context 'the "
      "tomcat and tom ran.'",
    ),
    (
      forms.EmbeddingTask,
      [{"a": "b", "c": "d"}],
      {
        **{"inputs": "{a}", "targets": "{c}", "texts": ["{a}", "{c}"]},
        **{"similarity": "{c}", "vocabulary": VOCABULARY},
      },
      "has the similarities 'd', which are no number",
    ),
    (
      forms.TagsTask,
      [{"tokens": ["a", "b"], "tags": ["O"]}],
      TAGS,
      "has 2 words in the field 'tokens' and 1 tags in the field 'tags'",
    ),
    (
      forms.TagsTask,
      [{"tokens": ["a"], "tags": ["I-LOC"]}],
      TAGS,
      "cannot be read: the tag 'B-LOC' is none of O, B-PER, I-PER, B-ORG, "
      "I-ORG",
    ),
    (
      forms.NumberTask,
      [{"premise": "a", "hypothesis": "b", "label": "much"}],
      {k: v for k, v in NLI.items() if k not in ("labels", "metrics")},
      "has the targets 'much', which are no number",
    ),
  ],
)
def test_bad_rows_are_named(task_class, rows, options, message, add, tmp_path):
  task = add(task_class, rows, **options)
  with pytest.raises(UserError) as error:
    prepare(task.name, prepared_dir=tmp_path / "prepared")
  assert message in str(error.value)
  assert "Line 1 of the data file" in str(error.value)


@pytest.mark.parametrize(
  "task_class, options, message",
  [
    (
      forms.ClassesTask,
      {**NLI, "labels": None},
      "in the form 'classes' needs labels=.",
    ),
    (
      forms.NumberTask,
      NLI,
      "has labels=, which the form 'number' does not use; leave it out.",
    ),
    (
      forms.SpansTask,
      {**QA, "inputs": "{question}"},
      "in the form 'spans' needs two texts, the question and its context; the "
      "inputs '{question}' have 1.",
    ),
    (
      forms.ClassesTask,
      {**NLI, "texts": ["{premise}", "{hypothesis}", "{label}"]},
      "has the texts ['{premise}', '{hypothesis}', '{label}']; list one text "
      "or two.",
    ),
    (
      forms.ChoicesTask,
      {**NLI, "choices": ["{premise}"]},
      "has 1 choices and 3 labels; each choice has one.",
    ),
    (
      forms.TagsTask,
      {**TAGS, "labels": ["B-PER"]},
      "has the labels ['B-PER']; give the tags in IOB2, 'O' among them.",
    ),
    (
      forms.TagsTask,
      {**TAGS, "inputs": "{a} {b}"},
      "has one field of words in its inputs and one field of tags as its "
      "targets, such as 'ner: {tokens}' and '{tags}', not '{a} {b}' and "
      "'{tags}'.",
    ),
  ],
)
def test_impossible_arguments(task_class, options, message, add):
  with pytest.raises(UserError) as error:
    add(task_class, NLI_ROWS, **options)
  assert message in str(error.value)


def test_an_unknown_argument_is_named(add):
  with pytest.raises(UserError, match="has no argument 'label'"):
    add(forms.ClassesTask, NLI_ROWS, label="x", **NLI)
