"""Few-shot tasks: what is shown, that it is the same, and never the answer."""

import collections
import json

import numpy as np
import pytest
import seqio
import tensorflow as tf

from tasks.corpora import unlabelled_text  # noqa: F401 (registers a task without text)
from tasks.formats.sentinels import with_sentinels
from tasks.formats.steps import TOKENIZED
from tasks.miniature import source
from tasks.miniature import supervised  # noqa: F401 (registers `mini_...`)
from tasks.prompts import t0  # noqa: F401 (registers prompted tasks)
from tasks.your_data import few_shot
from tasks.your_data.few_shot import register_few_shot
from tasks.your_data.prompted import register_prompts
from tasks.your_data.rows import RowFiles
from transformer_zoo.data.loader.evaluation_split import EvaluationSplit
from transformer_zoo.data.prepare.preparation import prepare
from transformer_zoo.errors import UserError
from transformer_zoo.evaluation.metrics import classification

pytestmark = pytest.mark.usefixtures("few_examples")


@pytest.fixture
def add():
  """Returns a function that registers a few-shot task for one test."""
  added = []

  def register(task, **options):
    added.append(f"few_shot_test_{len(added)}")
    return register_few_shot(added[-1], task, **options)

  yield register
  for name in added:
    if name in seqio.TaskRegistry.names():
      seqio.TaskRegistry.remove(name)


@pytest.fixture
def words():
  """Returns a function that registers a task over given (inputs, targets)."""
  added = []

  def register(train, validation=(("v", "w"),)):
    rows = {"train": train, "validation": validation}

    def read(split, shuffle_files=False, seed=None):
      inputs, targets = zip(*rows[split], strict=True)
      columns = {"inputs": list(inputs), "targets": list(targets)}
      return tf.data.Dataset.from_tensor_slices(columns)

    added.append(f"few_shot_words_{len(added)}")
    return seqio.TaskRegistry.add(
      added[-1],
      source=seqio.FunctionDataSource(
        read, splits=[split for split in rows if rows[split]]
      ),
      preprocessors=[*TOKENIZED],
      output_features=source.FEATURES,
      metric_fns=[classification.accuracy],
    )

  yield register
  for name in added:
    seqio.TaskRegistry.remove(name)


def shown(task, split="validation"):
  dataset = task.get_dataset(None, split=split, shuffle=False)
  return [
    example["inputs_pretokenized"].decode()
    for example in dataset.as_numpy_iterator()
  ]


def test_the_format(add, words):
  base = words([("a", "1"), ("b", "2")], [("c", "3")])
  task = add(
    base.name,
    num_shots=2,
    prompt="P",
    inputs_prefix="<",
    targets_prefix="=",
    example_separator=";",
  )
  assert shown(task)[0] in ("P;<a=1;<b=2;<c=", "P;<b=2;<a=1;<c=")
  example = next(task.get_dataset(None, split="validation").as_numpy_iterator())
  assert example["targets_pretokenized"] == b"3"


def test_no_shots_are_the_task_in_the_same_format(add):
  base = seqio.TaskRegistry.get("mini_sst2")
  task = add("mini_sst2", num_shots=0)
  assert shown(task) == [f"{text}\nanswer: " for text in shown(base)]


def test_one_seed_gives_the_same_and_another_does_not(add):
  one, same, other = (
    shown(add("mini_sst2", num_shots=3, seed=seed)) for seed in (7, 7, 8)
  )
  assert one == same != other


def test_examples_have_their_own_demonstrations_unless_fixed(add, few_examples):
  def demonstrations(**options):
    texts = shown(add("mini_sst2", num_shots=3, **options))
    return {tuple(text.split("\n\n")[:-1]) for text in texts}

  assert len(demonstrations()) == few_examples["validation"]
  assert len(demonstrations(fixed=True)) == 1


def test_demonstrations_are_of_train_and_differ(add):
  base = seqio.TaskRegistry.get("mini_sst2")
  train = base.get_dataset(None, split="train", shuffle=False)
  solved = {
    f"{e['inputs_pretokenized'].decode()}\nanswer: "
    + e["targets_pretokenized"].decode()
    for e in train.as_numpy_iterator()
  }
  for text in shown(add("mini_sst2", num_shots=5)):
    *before, _ = text.split("\n\n")
    assert len(set(before)) == 5 and set(before) <= solved


@pytest.mark.parametrize("fixed", [False, True])
def test_an_example_of_train_never_sees_itself(add, words, fixed):
  base = words([(letter, letter.upper()) for letter in "abcdef"])
  task = add(base.name, num_shots=5, fixed=fixed)
  for text, letter in zip(shown(task, "train"), "abcdef", strict=True):
    *before, own = text.split("\n\n")
    assert own == f"{letter}\nanswer: "
    others = {f"{x}\nanswer: {x.upper()}" for x in set("abcdef") - {letter}}
    assert set(before) == others


@pytest.mark.slow
def test_the_pool_is_a_uniform_sample(words):
  base = words([(str(i), "t") for i in range(20)])
  counts = collections.Counter()
  for seed in range(200):
    step = few_shot.FewShotStep(
      base,
      [],
      num_shots=1,
      seed=seed,
      fixed=False,
      pool_size=5,
      texts=("", "", "", ""),
    )
    assert len(step._pool) == 5
    counts.update(inputs for inputs, _ in step._pool)
  # 200 * 5 / 20 = 50 each, with a standard deviation of 6.
  assert len(counts) == 20
  assert 25 < min(counts.values()) and max(counts.values()) < 75


def test_the_choices_of_a_row_see_the_same(add, few_examples):
  task = add("prompted_mini_nli_true", num_shots=2)
  by_row = collections.defaultdict(set)
  dataset = task.get_dataset(None, split="validation", shuffle=False)
  for example in dataset.as_numpy_iterator():
    by_row[example["idx"][0]].add(example["inputs_pretokenized"])
  assert len(by_row) == few_examples["validation"]
  assert {len(texts) for texts in by_row.values()} == {1}
  assert len(set.union(*by_row.values())) == few_examples["validation"]
  assert len(task.score_metric_fns) == 1


def test_wrong_choices_are_no_demonstrations(add):
  def read(split, shuffle_files=False, seed=None):
    columns = {
      "inputs": ["a", "a", "b", "b"],
      "targets": ["yes", "no", "yes", "no"],
      "is_correct": [True, False, False, True],
      "idx": [[0, 0], [0, 1], [1, 0], [1, 1]],
    }
    return tf.data.Dataset.from_tensor_slices(columns)

  seqio.TaskRegistry.add(
    "few_shot_choices",
    source=seqio.FunctionDataSource(read, splits=["train"]),
    preprocessors=[*TOKENIZED],
    output_features=source.FEATURES,
    metric_fns=[classification.rank_classification],
  )
  try:
    texts = shown(add("few_shot_choices", num_shots=1), "train")
  finally:
    seqio.TaskRegistry.remove("few_shot_choices")
  assert (
    texts
    == ["b\nanswer: no\n\na\nanswer: "] * 2
    + ["a\nanswer: yes\n\nb\nanswer: "] * 2
  )


def test_choices_without_their_question_have_no_demonstrations(add, tmp_path):
  path = tmp_path / "rows.jsonl"
  path.write_text(
    "".join(
      json.dumps({"text": text, "right": "good"}) + "\n" for text in "abc"
    )
  )
  (tmp_path / "prompts.yaml").write_text(
    "label: right\ntemplates:\n  few_shot_unconditional:\n"
    "    input: '{text}'\n    choices: [bad, good]\nlabels: [bad, good]\n"
  )
  register_prompts(
    str(tmp_path / "prompts.yaml"),
    RowFiles({"train": str(path), "validation": str(path)}, "jsonl"),
    unconditional="Answer:",
    features=source.FEATURES,
  )
  try:
    found = shown(add("few_shot_unconditional", num_shots=1))
  finally:
    seqio.TaskRegistry.remove("few_shot_unconditional")
  assert found[2:4] == ["Answer:"] * 2
  assert found[0] == found[1] and found[0].endswith(
    "\nanswer: good\n\na\nanswer: "
  )


@pytest.mark.slow
def test_answers_and_other_fields_are_kept(add, tmp_path):
  options = {"prepared_dir": tmp_path, "splits": ["validation"]}
  base = prepare("mini_squad", **options).tasks[0]
  task = add("mini_squad", num_shots=1)
  prepared = prepare(task.name, **options).tasks[0]
  assert prepared.scoring == base.scoring
  dataset = task.get_dataset(None, split="validation", shuffle=False)
  example = next(dataset.as_numpy_iterator())
  assert example["targets_pretokenized"] in list(np.ravel(example["answers"]))


@pytest.mark.slow
def test_the_definition_follows_the_arguments(add, tmp_path):
  found = {
    prepare(
      add("mini_sst2", num_shots=1, **options).name,
      prepared_dir=tmp_path,
      splits=["validation"],
    )
    .tasks[0]
    .definition
    for options in ({}, {}, {"seed": 1}, {"fixed": True}, {"prompt": "P"})
  }
  assert len(found) == 4


def test_too_few_others_are_told(add, words, tmp_path):
  base = words([("a", "1"), ("a", "2"), ("b", "3")])
  task = add(base.name, num_shots=2)
  with pytest.raises(UserError, match="has 1 training examples that can be sh"):
    prepare(task.name, prepared_dir=tmp_path)


CLASSES = "abcdefgh"
# The vocabulary of the miniature suite has no line break.
IN_A_LINE = {"targets_prefix": " so: ", "example_separator": " ; "}
LONG = [(f"the {x} sat on the {x}", f"it was {x}") for x in CLASSES]


def texts_at(task, length, tmp_path):
  """The texts of the inputs at a length, from SeqIO and from prepared data."""
  lengths = {"inputs": length, "targets": 16}
  dataset = task.get_dataset(lengths, split="validation", shuffle=False)
  live = [example["inputs"].tolist() for example in dataset.as_numpy_iterator()]
  prepared = prepare(task.name, prepared_dir=tmp_path).tasks[0]
  (batch,) = EvaluationSplit(prepared, "validation", lengths, 8, grouped=False)
  assert [ids["inputs"].tolist() for ids in batch.ids] == live
  assert all(len(ids) <= length and ids[-1] == 1 for ids in live)
  return [prepared.vocabulary.decode(ids) for ids in live]


@pytest.mark.slow
def test_demonstrations_go_until_the_inputs_fit(add, words, tmp_path):
  base = words(LONG, [("the mat", "a"), ("the dog sat on a mat", "b")])
  task = add(base.name, num_shots=6, prompt="yes", **IN_A_LINE)
  whole = [text.strip() for text in shown(task)]
  assert texts_at(task, 500, tmp_path) == whole
  numbers = set()
  for length in range(28, 300, 45):
    for text, full in zip(texts_at(task, length, tmp_path), whole, strict=True):
      prompt, *demonstrations, own = full.split(" ; ")
      *left, question = text.split(" ; ")
      assert question == own
      assert left[:1] == [prompt]
      kept = left[1:]
      assert kept == demonstrations[len(demonstrations) - len(kept) :]
      numbers.add(len(kept))
  assert {0, 6} < numbers


@pytest.mark.slow
def test_without_demonstrations_the_end_of_the_question_stays(
  add, words, tmp_path
):
  base = words(LONG, [("the dog sat on the mat and it saw a cat", "a")])
  for shots in (0, 3):
    task = add(base.name, num_shots=shots, prompt="yes no yes no", **IN_A_LINE)
    (text,) = texts_at(task, 9, tmp_path)
    (full,) = shown(task)
    assert 0 < len(text) < 30
    assert full.strip().endswith(text)


@pytest.mark.slow
def test_letters_of_several_bytes(add, words, tmp_path):
  base = words([("é ☃ 漢", "ü"), ("ö", "ß")], [("naïve ☃", "a")])
  task = add(base.name, num_shots=1)
  for length in (8, 12, 16, 24, 64):
    texts_at(task, length, tmp_path)


def test_a_task_that_cuts_long_examples_itself_is_refused(add, words):
  base = words([("a", "1")])
  marked = seqio.TaskRegistry.add(
    "few_shot_marked", **with_sentinels(base.name)
  )
  try:
    with pytest.raises(
      UserError,
      match="'few_shot_marked' has no few-shot form: a step of its own cuts",
    ):
      add(marked.name, num_shots=1)
  finally:
    seqio.TaskRegistry.remove("few_shot_marked")


def test_refusals(add, words):
  small = words([("a", "1"), ("a", "2"), ("b", "3")]).name
  untrained = words([]).name
  for task, options, sentence in (
    ("mini_sst", {"num_shots": 1}, "No task is named 'mini_sst'; did you mean"),
    ("mini_sst2", {"num_shots": -1}, "num_shots=-1 is not from 0 to pool_size"),
    (
      "mini_sst2",
      {"num_shots": 9, "pool_size": 8},
      "num_shots=9 is not from 0",
    ),
    (
      "wikitext2_text_span_corruption",
      {"num_shots": 1},
      "has no few-shot form: it needs inputs as text",
    ),
    (small, {"num_shots": 4}, "has 3 training examples that can be shown"),
    (
      untrained,
      {"num_shots": 1},
      "has no split 'train', out of which its demo",
    ),
  ):
    with pytest.raises(UserError, match=sentence):
      shown(add(task, **options))
  assert shown(add(untrained, num_shots=0)) == ["v\nanswer: "]
  with pytest.raises(UserError, match="A task 'mini_sst2' exists already"):
    register_few_shot("mini_sst2", "mini_cola", num_shots=1)
