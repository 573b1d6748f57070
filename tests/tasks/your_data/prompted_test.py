"""Prompted tasks: files of templates, right choices, ranked choices."""

import json

import numpy as np
import pytest
import seqio
import tensorflow as tf

from tasks.miniature import vocabulary
from tasks.miniature.examples.splits import SIZES
from tasks.prompts import gpt as _gpt  # noqa: F401 (registers what we ship)
from tasks.prompts import t0 as _t0  # noqa: F401
from tasks.vocabulary import T5Vocabulary
from tasks.your_data import prompt_files
from tasks.your_data.prompted import register_prompts
from tasks.your_data.rows import RowFiles
from transformer_zoo.data.loader import loader
from transformer_zoo.data.prepare.preparation import prepare
from transformer_zoo.data.storage import function_references
from transformer_zoo.data.storage import manifest
from transformer_zoo.errors import UserError
from transformer_zoo.evaluation.answers import post_processors

FILE = """
mixture: prompted_test_all
label: right
weight: importance
templates:
  prompted_test_ask:
    words:
      question: {cause: "why?", effect: "so?"}
    input: "{premise} {question}"
    choices: ["{a}", "{b}"]
  prompted_test_say:
    input: "{premise}: {choice}"
    choices: [no, yes]
    target: "I say {choice}."
  prompted_test_write:
    input: "after {premise}"
    target: "{a}"
"""
ROWS = [
  {"premise": "It rained.", "question": "cause", "a": "wet", "b": "dry"},
  {"premise": "It snowed.", "question": "effect", "a": "hot", "b": "cold"},
]
LABELS = [{"right": 0, "importance": 2}, {"right": "1", "importance": 0.5}]


@pytest.fixture
def registered(monkeypatch):
  """Takes back what a test registers."""
  monkeypatch.delenv("ZOO_SKIP_BAD_ROWS", raising=False)
  yield
  for registry in (seqio.MixtureRegistry, seqio.TaskRegistry):
    for name in list(registry.names()):
      if name.startswith("prompted_test_"):
        registry.remove(name)


@pytest.fixture
def rows(tmp_path):
  path = tmp_path / "rows.jsonl"
  lines = [
    json.dumps(row | label) for row, label in zip(ROWS, LABELS, strict=True)
  ]
  path.write_text("\n".join(lines))
  return RowFiles({"train": str(path), "validation": str(path)}, "jsonl")


def prompts(tmp_path, text=FILE):
  path = tmp_path / "prompts.yaml"
  path.write_text(text)
  return str(path)


def register(tmp_path, rows, **options):
  options = {"vocabulary": vocabulary.PATH} | options
  return register_prompts(prompts(tmp_path), rows, **options)


def examples(name, split):
  task = seqio.TaskRegistry.get(name)
  dataset = task.get_dataset(None, split=split, shuffle=False)
  return list(dataset.as_numpy_iterator())


def texts(name, split):
  return [
    (e["inputs_pretokenized"].decode(), e["targets_pretokenized"].decode())
    for e in examples(name, split)
  ]


def test_right_choices_to_train_on(registered, tmp_path, rows):
  register(tmp_path, rows)
  assert texts("prompted_test_ask", "train") == [
    ("It rained. why?", "wet"),
    ("It snowed. so?", "cold"),
  ]
  assert texts("prompted_test_say", "train") == [
    ("It rained.: no", "I say no."),
    ("It snowed.: yes", "I say yes."),
  ]


def test_all_choices_to_rank(registered, tmp_path, rows):
  register(tmp_path, rows)
  assert texts("prompted_test_say", "validation") == [
    ("It rained.: no", "I say no."),
    ("It rained.: yes", "I say yes."),
    ("It snowed.: no", "I say no."),
    ("It snowed.: yes", "I say yes."),
  ]
  found = examples("prompted_test_say", "validation")
  assert [e["idx"].tolist() for e in found] == [[0, 0], [0, 1], [1, 0], [1, 1]]
  assert [bool(e["is_correct"]) for e in found] == [True, False, False, True]
  assert [float(e["weight"]) for e in found] == [2.0, 2.0, 0.5, 0.5]


def test_choices_of_each_row(registered, tmp_path):
  path = tmp_path / "rows.jsonl"
  rows = [
    {"premise": "It rained.", "options": ["wet", "dry"], "right": "wet"},
    {"premise": "It shone.", "options": ["wet", "dry", "hot"], "right": 2},
  ]
  path.write_text("\n".join(map(json.dumps, rows)))
  files = RowFiles({"train": str(path), "validation": str(path)}, "jsonl")
  text = """
label: right
templates:
  prompted_test_options:
    input: "{premise} So it was"
    choices: "{options}"
    target: "{choice}!"
"""
  register_prompts(prompts(tmp_path, text), files, vocabulary=vocabulary.PATH)
  name = "prompted_test_options"
  assert texts(name, "train") == [
    ("It rained. So it was", "wet!"),
    ("It shone. So it was", "hot!"),
  ]
  found = examples(name, "validation")
  assert [bool(e["is_correct"]) for e in found] == [True, False] + [
    False,
    False,
    True,
  ]


@pytest.mark.parametrize(
  ("file", "field"), [("quail.yaml", "answers"), ("hellaswag.yaml", "endings")]
)
def test_choices_that_are_numbers_or_empty(file, field):
  """Their labels are indices, and published rows may have empty texts."""
  prompt, *_ = prompt_files.read(file).prompts
  row = {name: "a" for name in prompt.fields if "." not in name}
  row |= {field: ["2", "1", "3", ""], prompt.label: 2}
  found = list(prompt.ranked_examples(row, may_be_empty=True))
  assert [e["is_correct"] for e in found] == [False, False, True, False]
  assert [e["targets"] for e in found] == ["2", "1", "3", ""]


def test_free_generation(registered, tmp_path, rows):
  *_, task = register(tmp_path, rows, metrics=["rouge"])
  expected = [("after It rained.", "wet"), ("after It snowed.", "hot")]
  assert texts(task.name, "train") == texts(task.name, "validation") == expected
  assert task.score_metric_fns == [] and len(task.metric_fns) == 1


def test_a_source_of_seqio_gives_the_same(registered, tmp_path, rows):
  register(tmp_path, rows)
  expected = texts("prompted_test_ask", "validation")
  for registry in (seqio.MixtureRegistry, seqio.TaskRegistry):
    for name in list(registry.names()):
      if name.startswith("prompted_test_"):
        registry.remove(name)
  labels = [
    {"right": int(label["right"]), "importance": 1.0} for label in LABELS
  ]
  columns = {
    key: [(row | label)[key] for row, label in zip(ROWS, labels, strict=True)]
    for key in ROWS[0] | labels[0]
  }
  source = seqio.FunctionDataSource(
    lambda split, shuffle_files, seed=None: tf.data.Dataset.from_tensor_slices(
      columns
    ),
    splits=["train", "validation"],
  )
  register(tmp_path, source)
  assert texts("prompted_test_ask", "validation") == expected
  assert texts("prompted_test_ask", "train")[1] == ("It snowed. so?", "cold")


def test_a_missing_field_of_a_source_is_told(registered, tmp_path):
  source = seqio.FunctionDataSource(
    lambda split, shuffle_files, seed=None: tf.data.Dataset.from_tensor_slices(
      {"premis": ["It rained."]}
    ),
    splits=["train"],
  )
  task, *_ = register(tmp_path, source)
  with pytest.raises(UserError) as caught:
    examples(task.name, "train")
  assert str(caught.value) == (
    "The template 'prompted_test_ask' uses the field 'premise', which the rows "
    "do not have; did you mean 'premis'?"
  )


def test_the_mixture_has_all_templates(registered, tmp_path, rows):
  tasks = register(tmp_path, rows)
  mixture = seqio.MixtureRegistry.get("prompted_test_all")
  assert sorted(t.name for t in mixture.tasks) == sorted(t.name for t in tasks)
  assert {mixture.get_rate(task) for task in mixture.tasks} == {1.0}


@pytest.mark.parametrize("length_normalized", [False, True])
def test_from_rows_to_a_ranked_score(
  registered, tmp_path, rows, length_normalized
):
  register(tmp_path, rows, length_normalized=length_normalized)
  prepared = prepare("prompted_test_ask", prepared_dir=tmp_path / "prepared")
  scoring = prepared.tasks[0].scoring
  assert scoring.metrics == ()
  ((batch, found),) = loader.evaluation_batches(
    prepared.tasks[0],
    split="validation",
    lengths={"inputs": 32, "targets": 8},
    batch_size=4,
  )
  answer = function_references.resolve(scoring.postprocess)
  lengths = batch["decoder_loss_weights"].sum(axis=1)
  targets = [
    answer("", example={**text, "targets": np.ones(n)}, is_target=True)
    for text, n in zip(found, lengths, strict=True)
  ]
  assert [target[:3] for target in targets] == [
    ((0, 0), True, 2.0),
    ((0, 1), False, 2.0),
    ((1, 0), False, 0.5),
    ((1, 1), True, 0.5),
  ]
  (metric,) = scoring.score_metrics
  assert metric["kwargs"] == {"length_normalized": length_normalized}
  # The first question is right, the second wrong.
  scores = [-1.0 * lengths[0], -2.0 * lengths[1], -1.0, -9.0 * lengths[3]]
  assert function_references.resolve(metric)(targets, scores) == {
    "accuracy": 80.0
  }


def test_a_score_is_its_own_answer():
  assert post_processors.rank_classification(-3.5) == -3.5


@pytest.mark.parametrize(
  "change, sentence",
  [
    ({"right": 2}, "has the label '2' in the field 'right', .* of 0 to 1 "),
    ({"right": "yes"}, "has the label 'yes' in the field 'right'"),
    ({"premise": ""}, "has an empty text in the field 'premise'"),
    ({"question": "why"}, "'why' in the field 'question', for which the templ"),
    (
      {"importance": "very"},
      "'very' in the field 'importance', which is no nu",
    ),
  ],
)
def test_bad_rows_are_told_with_their_line(
  registered, tmp_path, change, sentence
):
  path = tmp_path / "bad.jsonl"
  good, bad = (row | label for row, label in zip(ROWS, LABELS, strict=True))
  lines = [json.dumps(good), json.dumps(bad | change)]
  path.write_text("\n".join(lines))
  task, *_ = register(tmp_path, RowFiles({"test": str(path)}, "jsonl"))
  with pytest.raises(
    UserError, match=f"^Line 2 of the .*'{path}' .*{sentence}"
  ):
    examples(task.name, "test")


def test_hidden_and_several_labels():
  prompt = prompt_files.Prompt(
    name="p",
    input="{x}",
    target="{choice}",
    choices=("a", "b", "c"),
    words={},
    label="right",
    labels=("first", "second", "third"),
    weight=None,
  )
  for label, right in (
    (-1, []),
    ("third", [2]),
    ([0, "2"], [0, 2]),
    (np.int64(1), [1]),
  ):
    ranked = list(prompt.ranked_examples({"x": "x", "right": label}))
    assert [e["choice"] for e in ranked if e["is_correct"]] == right
    assert [e["targets"] for e in ranked] == ["a", "b", "c"]


def test_the_fingerprint_follows_template_rows_and_switch(
  registered, tmp_path, rows, monkeypatch
):
  first, second, _ = register(tmp_path, rows)
  seen = {first.source.fingerprint(), second.source.fingerprint()}
  monkeypatch.setenv("ZOO_SKIP_BAD_ROWS", "1")
  seen.add(first.source.fingerprint())
  assert len(seen) == 3


@pytest.mark.parametrize(
  "text, sentence",
  [
    ("templates: [a", "prompts.yaml', line 1 is not YAML: "),
    ("a", "is no mapping of names"),
    ("template: {}", "has an unknown 'template'; did you mean 'templates'"),
    ("label: x", "templates: of the prompt file .* is no mapping"),
    (
      "templates: {t: {input: x, traget: y}}",
      "an unknown 'traget'; did you me",
    ),
    (
      "templates: {t: {input: x}}",
      "'t' .* needs an input, and choices or a ta",
    ),
    (
      "templates: {t: {target: x}}",
      "'t' .* needs an input, and choices or a t",
    ),
    (
      "templates: {t: {input: x, choices: [a]}}",
      r"has choices \['a'\]; give a",
    ),
    (
      "labels: [a]\ntemplates: {t: {input: x, choices: [a, b]}}",
      "has 2 choices, the file has 1 labels",
    ),
    (
      "templates: {t: {input: x, choices: [a, b], target: y}}",
      "has choices and a target without {choice}",
    ),
    ("templates: {t: {input: '{x', target: y}}", "'{x' has '{' at character 1"),
    (
      "templates:\n  t: {input: x, target: y}\n  t: {input: z, target: y}",
      "prompts.yaml', line 3 is not YAML: 't' comes twice",
    ),
  ],
)
def test_files_that_are_written_otherwise(tmp_path, text, sentence):
  with pytest.raises(UserError, match=sentence):
    prompt_files.read(prompts(tmp_path, text))


def test_shares_of_templates(tmp_path):
  path = prompts(
    tmp_path,
    "templates: {a: {input: x, target: y, share: 0.5}, b: {input: x, target:"
    " y}}",
  )
  assert [prompt.share for prompt in prompt_files.read(path).prompts] == [
    0.5,
    1,
  ]
  for wrong in ("0", "many", "[1]"):
    text = f"templates: {{a: {{input: x, target: y, share: {wrong}}}}}"
    with pytest.raises(UserError, match="give a number above 0"):
      prompt_files.read(prompts(tmp_path, text))


def test_a_file_that_is_not_there():
  with pytest.raises(
    UserError, match="'rte.yml' cannot be read; did you mean 'r"
  ):
    prompt_files.read("rte.yml")


# The sets that T0 is tested on, with the number of choices of each.
TESTED = {
  "rte": 2,
  "cb": 3,
  "anli": 3,
  "wsc": 2,
  "winogrande": 2,
  "copa": 2,
  "hellaswag": 1,
  "story_cloze": 2,
  "wic": 2,
}


# Sets of GLUE and SuperGLUE whose texts are at hand (`shared_data`), by folder
# -> their files of prompts.
AT_HAND = {
  **{f"glue/{name}": name for name in ("cola", "mrpc", "qnli", "sst2", "wnli")},
  **{
    f"super_glue/{name}": name
    for name in ("boolq", "cb", "copa", "multirc", "record", "rte", "wic")
  },
  "super_glue/wsc.fixed": "wsc",
}
# A number, diagnostics, and other forms of sets that are there.
WITHOUT_PROMPTS = {
  *("glue/rte", "glue/stsb"),
  *("super_glue/axb", "super_glue/axg", "super_glue/wsc"),
}
# T0's other sets at hand, as lines of JSON.
AS_LINES = "cnn_dailymail", "squad_v2"


# Heuristics of GPT's paper, one template each and no mixture.
HEURISTICS = ("mini_sst2_very.yaml", "sst2_very.yaml")


@pytest.mark.parametrize("file", HEURISTICS)
def test_very_and_two_words(file):
  (prompt,) = prompt_files.read(file).prompts
  assert prompt.name in seqio.TaskRegistry.names()
  row = {"sentence": "a fine film .", "label": 1}
  negative, positive = prompt.ranked_examples(row)
  assert negative["inputs"] == positive["inputs"] == "a fine film . very"
  assert positive["is_correct"] and not negative["is_correct"]


ZERO_SHOT = {
  path.name for path in prompt_files.SHIPPED.glob("zero_shot/*.yaml")
}
PROMPTED = sorted(set(prompt_files.shipped()) - ZERO_SHOT)


@pytest.mark.parametrize("file", PROMPTED)
def test_shipped_files(file):
  found = prompt_files.read(file)
  assert found.mixture == f"prompted_{file.removesuffix('.yaml')}"
  mixtures = [
    name
    for name in seqio.MixtureRegistry.names()
    if name == found.mixture
    or name.removeprefix(found.mixture)
    in ("_r1", "_r2", "_r3", "_dbert", "_dbidaf", "_droberta", "_self")
    + ("_paraphrase", "_challenge", "_easy", "_high", "_middle")
  ]
  assert mixtures
  for mixture in mixtures:
    tasks = seqio.MixtureRegistry.get(mixture).tasks
    assert [task.name for task in tasks] == sorted(
      prompt.name + mixture.removeprefix(found.mixture)
      for prompt in found.prompts
    )
    assert {task.source.template_of for task in tasks} == {mixture}
  texts = {(prompt.input, prompt.target) for prompt in found.prompts}
  assert len(texts) == len(found.prompts) >= 2


@pytest.mark.parametrize("name", TESTED)
def test_sets_that_t0_is_tested_on_have_five_templates(name):
  prompts = prompt_files.read(f"{name}.yaml").prompts
  assert len(prompts) == 5
  assert {len(prompt.choices) for prompt in prompts} == {TESTED[name]}


def test_sets_at_hand_have_five_templates(shared_data):
  found = {
    f"{folder}/{path.name}"
    for folder in ("glue", "super_glue")
    for path in (shared_data / "tfds" / folder).glob("[!.]*")
  }
  assert found == {*AT_HAND, *WITHOUT_PROMPTS}
  for name in (*AT_HAND.values(), *AS_LINES):
    assert len(prompt_files.read(f"{name}.yaml").prompts) >= 5, name


def documented_row(file):
  """The row of JSON in the comment of a file; None if it is another."""
  lines = prompt_files.shipped()[file].read_text().splitlines()
  comment = "".join(line[1:] for line in lines if line.startswith("#  "))
  return json.loads(comment) if comment else None


@pytest.mark.parametrize(
  "file", [file for file in PROMPTED if documented_row(file)]
)
def test_the_documented_row_fills_every_template(file):
  row = documented_row(file)
  for prompt in prompt_files.read(file).prompts:
    examples = [*prompt.ranked_examples(row)]
    assert sum(example["is_correct"] for example in examples) == 1
    assert len({example["targets"] for example in examples}) == len(examples)
    for example in examples:
      assert "{" not in example["inputs"] + example["targets"]


def test_labels_and_lists_of_each_row(tmp_path):
  path = prompts(
    tmp_path,
    'label: key\nlabels: "{options.label}"\njoined: {steps: " then "}\n'
    'templates: {a: {input: "{steps}?", choices: "{options.text}"}, '
    "b: {input: x, choices: [y, z]}}",
  )
  first, second = prompt_files.read(path).prompts
  row = {
    "steps": ["mix", "bake"],
    "options": {"label": ["1", "0"], "text": ["cake", "pie"]},
    "key": "0",
  }
  ranked = [*first.ranked_examples(row)]
  assert [e["inputs"] for e in ranked] == ["mix then bake?"] * 2
  # A label that is a number is no index where labels are given.
  assert [e["is_correct"] for e in ranked] == [False, True]
  assert first.fields == ("steps", "options.text", "key", "options.label")
  del row["steps"]  # The second template does without it.
  assert [e["is_correct"] for e in second.ranked_examples(row)] == [False, True]
  with pytest.raises(UserError, match="give a list, or one field with the l"):
    prompt_files.read(
      prompts(
        tmp_path, "labels: '{a} b'\ntemplates: {t: {input: x, target: y}}"
      )
    )


def test_labels_with_fields(tmp_path):
  path = prompts(
    tmp_path,
    'labels: ["{a}", "{b}"]\n'
    'templates: {t: {input: x, choices: ["the {a}", "the {b}"]}}',
  )
  (prompt,) = prompt_files.read(path).prompts
  ranked = [*prompt.ranked_examples({"a": "cat", "b": "dog", "label": "dog"})]
  assert [e["is_correct"] for e in ranked] == [False, True]


def test_one_file_over_several_sets(registered, tmp_path, rows):
  for suffix in ("_r1", "_r2"):
    register(tmp_path, rows, suffix=suffix)
  mixture = seqio.MixtureRegistry.get("prompted_test_all_r2")
  assert sorted(task.name for task in mixture.tasks) == [
    "prompted_test_ask_r2",
    "prompted_test_say_r2",
    "prompted_test_write_r2",
  ]
  prepared = prepare("prompted_test_ask_r2", prepared_dir=tmp_path / "prepared")
  assert prepared.tasks[0].template_of == "prompted_test_all_r2"
  loaded = manifest.load("prompted_test_ask_r2", tmp_path / "prepared")
  assert loaded.tasks[0].template_of == "prompted_test_all_r2"


MINIATURE = [file for file in PROMPTED if file.startswith("mini_")]


def texts_under(prompts, most=None):
  """What each template makes of the first rows of its set, read once.

  What a whole task of the first template gives is the same.
  """
  sources = [seqio.TaskRegistry.get(p.name).source for p in prompts]
  assert len({id(source._rows) for source in sources}) == 1
  dataset = sources[0]._rows.get_dataset(split="validation", shuffle=False)
  rows = list(dataset.take(most or SIZES["validation"]).as_numpy_iterator())
  for prompt, source in zip(prompts, sources, strict=True):
    convert = source._convert("validation")
    found = [e for row in rows for e in convert(row, may_be_empty=True)]
    if prompt is prompts[0]:
      read = source.get_dataset(split="validation", shuffle=False)
      for whole, example in zip(
        read.take(len(found)).as_numpy_iterator(), found, strict=True
      ):
        assert whole["inputs"].decode() == example["inputs"]
        assert whole["targets"].decode() == example["targets"]
        if prompt.choices:
          assert bool(whole["is_correct"]) == example["is_correct"]
    yield prompt, found


@pytest.mark.slow
@pytest.mark.parametrize("file", MINIATURE)
def test_miniature_prompts_are_in_their_vocabulary(file, few_examples):
  for prompt, found in texts_under(prompt_files.read(file).prompts):
    task = seqio.TaskRegistry.get(prompt.name)
    for name, feature in task.output_features.items():
      for text in {example[name] for example in found}:
        assert 2 not in feature.vocabulary.encode(text)
    per_row = len(found) // few_examples["validation"]
    assert per_row == len(prompt.choices) or prompt.of_rows or per_row == 1
    if not prompt.choices:
      continue
    right = [e["choice"] for e in found if e["is_correct"]]
    assert len(right) == few_examples["validation"]
    assert set(right) == set(range(per_row))


@pytest.mark.slow
@pytest.mark.parametrize(
  "file",
  [
    f"{name}.yaml"
    # Each row of ReCoRD has choices of its own.
    for name in sorted({*AT_HAND.values()} - {"record"})
  ],
)
def test_shipped_prompts_on_real_rows(shared_data, monkeypatch, file):
  monkeypatch.setenv("ZOO_DATA_DIR", str(shared_data))
  monkeypatch.delenv("ZOO_VOCABULARY", raising=False)
  vocab = T5Vocabulary()
  for prompt, found in texts_under(prompt_files.read(file).prompts, 20):
    number = len(prompt.choices)
    assert len(found) == 20 * number
    for row in range(20):
      of_row = found[row * number : (row + 1) * number]
      assert [e["choice"] for e in of_row] == list(range(number))
      assert sum(e["is_correct"] for e in of_row) == 1
    for text in ("inputs", "targets"):
      assert 2 not in vocab.encode(found[0][text])


def test_choices_come_once_more_without_their_question(
  tmp_path, rows, registered
):
  register(tmp_path, rows, unconditional="Answer:")
  found = examples("prompted_test_ask", "validation")
  texts = [
    (e["idx"].tolist(), e["inputs_pretokenized"], e["targets_pretokenized"])
    for e in found[:4]
  ]
  assert texts == [
    ([0, 0], b"It rained. why?", b"wet"),
    ([0, 1], b"It rained. why?", b"dry"),
    ([0, 2], b"Answer:", b"wet"),
    ([0, 3], b"Answer:", b"dry"),
  ]
  assert found[4]["idx"].tolist() == [1, 0]
  # Training reads the right choices alone.
  assert len(examples("prompted_test_ask", "train")) == 2


def test_one_comparison_of_choices_of_different_lengths(
  tmp_path, rows, registered
):
  with pytest.raises(UserError, match="give one of them"):
    register(tmp_path, rows, unconditional="Answer:", length_normalized=True)
