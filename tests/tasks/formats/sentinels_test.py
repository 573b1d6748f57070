"""Tasks with sentinels: SeqIO's own, on the fly and prepared."""

import contextlib
import functools
import json

import numpy as np
import pytest
import sentencepiece
import seqio
import tensorflow as tf

import mixtures  # noqa: F401 (registers them)
from mixtures import counts
from tasks import vocabulary
from tasks.benchmarks import super_glue_sentinel  # noqa: F401 (registers them)
from tasks.formats.sentinels import with_sentinels
from tasks.formats.steps import TOKENIZED
from tasks.miniature import source
from transformer_zoo.data.loader.evaluation_split import EvaluationSplit
from transformer_zoo.data.prepare.preparation import prepare
from transformer_zoo.data.storage import function_references
from transformer_zoo.data.storage import manifest
from transformer_zoo.errors import UserError
from transformer_zoo.evaluation import submission
from transformer_zoo.evaluation.answers import invalid_answers
from transformer_zoo.evaluation.answers import post_processors
from transformer_zoo.evaluation.metrics import classification

ROWS = [
  ("the cat sat on the mat and the dog saw it", "it sat on the mat"),
  ("a dog", "the dog saw a cat and it sat"),
  ("", "yes"),
  ("the mat", "no"),
]
CLASSES = ("yes", "no")
LENGTHS = [(64, 64), (16, 8), (6, 5)]
# Where nothing but sentinels and EOS fits, SeqIO's step keeps the whole text.
NARROW = {1: [(2, 2), (1, 1)], 3: [(4, 4), (3, 3), (1, 1)]}
TWINS = {
  "super_glue_boolq_v102": "super_glue_boolq_v102_1_sentinel",
  "super_glue_cb_v102": "super_glue_cb_v102_1_sentinel",
  "super_glue_copa_v102": "super_glue_copa_v102_1_sentinel",
  "super_glue_multirc_v102": "super_glue_multirc_v102_1_sentinel",
  "super_glue_record_v102": "super_glue_record_v102_1_sentinel",
  "super_glue_rte_v102": "super_glue_rte_v102_1_sentinel",
  "super_glue_wic_v102": "super_glue_wic_v102_1_sentinel",
  "super_glue_axb_v102": "super_glue_axb_v102_1_sentinel",
  "super_glue_axg_v102": "super_glue_axg_v102_1_sentinel",
  "super_glue_wsc_v102_simple_train": (
    "super_glue_wsc_v102_simple_1_sentinel_train"
  ),
  "super_glue_wsc_v102_simple_eval": (
    "super_glue_wsc_v102_simple_1_sentinel_eval"
  ),
  "dpr_v001_simple": "dpr_v001_simple_1_sentinel",
}


@contextlib.contextmanager
def adding():
  """Gives a function that registers a task over ROWS."""
  added = []

  def register(name, steps=TOKENIZED, **options):
    def read(split, shuffle_files=False, seed=None):
      inputs, targets = zip(*ROWS, strict=True)
      columns = {"inputs": list(inputs), "targets": list(targets)}
      return tf.data.Dataset.from_tensor_slices(columns)

    added.append(name)
    defaults = {
      "source": seqio.FunctionDataSource(read, splits=["validation"]),
      "preprocessors": [*steps],
      "output_features": source.FEATURES,
      "metric_fns": [classification.accuracy],
    }
    return seqio.TaskRegistry.add(name, **defaults | options)

  yield register
  for name in added:
    seqio.TaskRegistry.remove(name)


@pytest.fixture
def add():
  """Returns a function that registers a task over ROWS for one test."""
  with adding() as register:
    yield register


@pytest.fixture(params=[1, 3], scope="module")
def twins(request):
  """Our twin and SeqIO's of one task, and how many sentinels they have."""
  number = request.param
  post = functools.partial(
    post_processors.string_label_to_class_id, label_classes=CLASSES
  )
  with adding() as add:
    add("marked_twins", postprocess_fn=post)
    seqio.experimental.add_task_with_sentinels("marked_twins", number)
    theirs = f"marked_twins_{number}_sentinel"
    ours = add(
      f"marked_twins_ours_{number}",
      (),
      **with_sentinels("marked_twins", number),
    )
    yield ours, seqio.TaskRegistry.get(theirs), number
    seqio.TaskRegistry.remove(theirs)


@functools.cache
def ids_of(task, *lengths):
  """The ids of a task's examples at the lengths of inputs and targets."""
  names = ("inputs", "targets")
  lengths = dict(zip(names, lengths, strict=True)) if lengths else None
  dataset = task.get_dataset(lengths, split="validation", shuffle=False)
  return [
    {name: example[name].tolist() for name in names}
    for example in dataset.as_numpy_iterator()
  ]


@pytest.mark.slow
@pytest.mark.usefixtures("translated")
@pytest.mark.parametrize("lengths", LENGTHS)
def test_examples_are_those_of_seqio(twins, lengths):
  ours, theirs, _ = twins
  assert ids_of(ours, *lengths) == ids_of(theirs, *lengths)


def test_examples_without_lengths_are_those_of_seqio(twins):
  ours, theirs, number = twins
  examples = ids_of(ours)
  assert examples == ids_of(theirs)
  first = ours.output_features["inputs"].vocabulary.vocab_size - 1
  sentinels = [first - i for i in range(number)]
  assert examples[1]["inputs"][-number - 1 :] == [*sentinels, 1]
  assert examples[1]["targets"][:number] == sentinels


@pytest.mark.slow
@pytest.mark.usefixtures("translated")
def test_prepared_examples_are_those_of_seqio(twins, tmp_path):
  task, _, number = twins
  prepare(task.name, prepared_dir=tmp_path)
  prepared = manifest.load_task(task.name, tmp_path)
  for inputs, targets in [*LENGTHS, *NARROW[number]]:
    lengths = {"inputs": inputs, "targets": targets}
    read = EvaluationSplit(prepared, "validation", lengths, 4, grouped=False)
    (batch,) = read
    found = [{k: v.tolist() for k, v in ids.items()} for ids in batch.ids]
    assert found == ids_of(task, inputs, targets), lengths


def test_answers_are_those_of_seqio(twins):
  ours, theirs, number = twins
  marks = " ".join(f"<extra_id_{i}>" for i in range(number))
  texts = [
    "yes",
    f"{marks} yes",
    f"{marks}no",
    f"{marks}  no  ",
    f"{marks} {marks} no",
    f" {marks} no",
    f"no {marks}",
    marks,
    "",
    "perhaps",
    "<extra_id_0> yes",
  ]
  for text in texts:
    assert ours.postprocess_fn(text) == theirs.postprocess_fn(text), text


def test_answers_without_a_function_of_the_task(add):
  add("marked")
  task = add("marked_ours", (), **with_sentinels("marked"))
  assert task.postprocess_fn("<extra_id_0> the cat") == "the cat"


def test_answers_are_in_the_manifest_and_invalid_ones_counted(twins):
  task, _, number = twins
  scoring = function_references.describe_scoring(task)
  json.dumps(scoring.postprocess)
  answer = function_references.resolve(scoring.postprocess)
  marks = " ".join(f"<extra_id_{i}>" for i in range(number))
  texts = [f"{marks} {text}" for text in ("no", "yes", "maybe")]
  predictions = [*map(answer, texts)]
  assert predictions == [1, 0, -1]
  reference = scoring.postprocess
  assert invalid_answers.count_invalid(reference, predictions, texts) == 1


def test_numbers_behind_sentinels_are_read():
  own = f"{post_processors.__name__}:string_to_float"
  reference = {
    "function": f"{post_processors.__name__}:without_sentinels",
    "kwargs": {
      "sentinels": "<extra_id_0>",
      "postprocess": {"function": own, "kwargs": {}},
    },
  }
  texts = ["<extra_id_0> 3.2", "-1.0", "<extra_id_0> x"]
  assert invalid_answers.count_invalid(reference, [3.2, -1, -1], texts) == 1


@pytest.mark.parametrize("name", TWINS)
def test_names_are_those_of_seqio(name):
  twin = seqio.TaskRegistry.get(TWINS[name])
  with pytest.raises(ValueError, match=f"duplicate provider: {twin.name}$"):
    seqio.experimental.add_task_with_sentinels(name)
  task = seqio.TaskRegistry.get(name)
  assert twin.source is task.source
  assert twin.metric_fns == task.metric_fns


def test_the_mixture_has_the_counts_of_the_one_without_sentinels():
  assert counts.SUPER_GLUE_SENTINEL == {
    TWINS[name]: count for name, count in counts.SUPER_GLUE.items()
  }
  mixture = seqio.MixtureRegistry.get("super_glue_v102_proportional_sentinel")
  rates = {task.name: mixture.get_rate(task) for task in mixture.tasks}
  assert rates == counts.SUPER_GLUE_SENTINEL


@pytest.mark.parametrize("name", TWINS)
def test_submission_files_are_those_of_the_task(name):
  assert submission.form_of(TWINS[name]) == submission.form_of(name)


def test_a_task_that_ends_otherwise_is_refused(add):
  add("marked", steps=[seqio.preprocessors.tokenize])
  with pytest.raises(
    UserError,
    match="'marked' has no form with sentinels: its last step is not "
    "seqio.preprocessors.append_eos_after_trim.",
  ):
    with_sentinels("marked")


def test_a_number_that_is_not_positive_is_refused(add):
  add("marked")
  with pytest.raises(
    UserError, match="'marked' cannot have 0 sentinels; give a number from 1 on"
  ):
    with_sentinels("marked", 0)


def test_more_sentinels_than_the_vocabulary_has_are_refused(add, tmp_path):
  add("marked")
  task = add("marked_ours", (), **with_sentinels("marked", 10_000))
  with pytest.raises(
    UserError,
    match="'marked_ours': There cannot be 10000 sentinels: the vocabulary .* "
    "has 100; give a smaller number",
  ):
    prepare(task.name, prepared_dir=tmp_path)


@pytest.fixture(params=["▁", ""])
def with_own(request, tmp_path):
  """A vocabulary whose file has sentinels among its first pieces, as mT5's."""
  sentencepiece.SentencePieceTrainer.Train(
    sentence_iterator=iter(text for row in ROWS for text in row),
    model_prefix=str(tmp_path / "own"),
    vocab_size=60,
    pad_id=0,
    eos_id=1,
    unk_id=2,
    bos_id=-1,
    user_defined_symbols=[f"{request.param}<extra_id_{i}>" for i in (2, 1, 0)],
    hard_vocab_limit=False,
    minloglevel=2,
  )
  return str(tmp_path / "own.model")


def test_sentinels_of_the_file_itself(add, with_own):
  """Nothing is read before the task is: the file may be missing until then."""
  features = vocabulary.features("nowhere.model")
  add("marked", output_features=features)
  arguments = with_sentinels("marked", 2)
  arguments["output_features"] = vocabulary.features(with_own)
  task = add("marked_ours", (), **arguments)
  found = task.output_features["targets"].vocabulary
  assert found.extra_ids == 0
  for example, (_, targets) in zip(ids_of(task), ROWS, strict=True):
    assert example["inputs"][-3:] == [5, 4, 1]
    assert example["targets"][:2] == [5, 4]
    text = found.decode(example["targets"])
    assert task.postprocess_fn(text) == targets


@pytest.mark.slow
@pytest.mark.usefixtures("translated")
def test_ids_of_sets_that_are_on_disk(shared_data, monkeypatch):
  monkeypatch.setenv("ZOO_DATA_DIR", str(shared_data))
  for name in ("super_glue_copa_v102", "super_glue_wsc_v102_simple_eval"):
    task, twin = (
      seqio.TaskRegistry.get(some).get_dataset(
        {"inputs": 32, "targets": 8}, split="validation", shuffle=False
      )
      for some in (name, TWINS[name])
    )
    pairs = tf.data.Dataset.zip((task, twin)).as_numpy_iterator()
    for plain, marked in pairs:
      assert marked["inputs"][-2:].tolist() == [32099, 1]
      kept = len(marked["inputs"]) - 2
      np.testing.assert_array_equal(
        marked["inputs"][:kept], plain["inputs"][:kept]
      )
      assert marked["targets"][0] == 32099
