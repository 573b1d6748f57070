import functools
import itertools
import os
import pathlib

import numpy as np
import pytest
import seqio
import tensorflow as tf

from transformer_zoo.corruption import SpanCorruption
from transformer_zoo.data.loader import loader
from transformer_zoo.data.prepare import preparation
from transformer_zoo.data.prepare.preparation import prepare
from transformer_zoo.data.prepare.seqio_corruption import CorruptionStep
from transformer_zoo.data.storage import freshness
from transformer_zoo.data.storage import function_references
from transformer_zoo.data.storage import manifest
from transformer_zoo.errors import UserError

LENGTHS = {"inputs": 24, "targets": 16}
SENTENCES = [f"the cat sat on a mat while {i} dogs bark" for i in range(40)]
EOS = seqio.preprocessors.append_eos_after_trim


def label(dataset, verdict="on a mat"):
  return dataset.map(
    lambda text: {
      "inputs": tf.strings.join(["say: ", text]),
      "targets": tf.constant(verdict),
      "numbers": tf.constant([1, 2]),
    }
  )


def as_targets(dataset):
  return dataset.map(lambda text: {"targets": text})


def accuracy(targets, predictions):
  return {"accuracy": float(np.mean(np.equal(targets, predictions)))}


def lower(answer, example=None, is_target=False, strip=False):
  del example, is_target
  return answer.lower().strip() if strip else answer.lower()


@pytest.fixture
def add_task(vocabulary, tmp_path):
  """Returns a function that registers a task over a text file per split."""
  added = []

  def add(name, steps, *, splits=("train", "validation"), **kwargs):
    files = {}
    for split in splits:
      files[split] = str(tmp_path / f"{split}.txt")
      if not os.path.exists(files[split]):
        pathlib.Path(files[split]).write_text("\n".join(SENTENCES))
    if name in added:
      seqio.TaskRegistry.remove(name)
    feature = seqio.Feature(vocabulary.to_seqio(), required=False)
    added.append(name)
    return seqio.TaskRegistry.add(
      name,
      source=seqio.TextLineDataSource(files),
      preprocessors=steps,
      output_features={"inputs": feature, "targets": feature},
      **kwargs,
    )

  yield add
  for name in set(added):
    seqio.TaskRegistry.remove(name)


def labelled(verdict="on a mat"):
  return [
    functools.partial(label, verdict=verdict),
    seqio.preprocessors.tokenize,
    EOS,
  ]


def unlabelled():
  return [
    as_targets,
    seqio.preprocessors.tokenize,
    CorruptionStep(SpanCorruption()),
    EOS,
  ]


@pytest.fixture
def prepared_dir(tmp_path):
  return tmp_path / "prepared"


def converted(task, lengths, split="validation"):
  """The examples of a task as SeqIO alone makes them."""
  dataset = task.get_dataset(lengths, split=split, shuffle=False)
  dataset = dataset.map(lambda e: {k: e[k] for k in ("inputs", "targets")})
  converter = seqio.EncDecFeatureConverter(pack=False)
  return list(converter(dataset, lengths).as_numpy_iterator())


def from_files(task, lengths, split="validation"):
  batches = loader.evaluation_batches(
    task, split=split, lengths=lengths, batch_size=1
  )
  return [{k: v[0] for k, v in batch.items()} for batch, _ in batches]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["examples", "tokens"])
@pytest.mark.parametrize("length", [12, 24])
def test_gives_what_seqio_gives(add_task, prepared_dir, kind, length):
  steps = labelled() if kind == "examples" else unlabelled()
  task = add_task("zt_task", steps)
  prepared = prepare("zt_task", prepared_dir=prepared_dir).tasks[0]
  assert prepared.kind == kind
  lengths = {"inputs": length, "targets": 16}
  theirs, ours = converted(task, lengths), from_files(prepared, lengths)
  assert len(theirs) == len(ours) > 5
  for their, our in zip(theirs, ours, strict=True):
    assert their.keys() == our.keys()
    for key in their:
      np.testing.assert_array_equal(their[key], our[key])


def test_manifest_tells_all(add_task, prepared_dir, vocabulary):
  add_task(
    "zt_task",
    labelled(),
    metric_fns=[accuracy],
    postprocess_fn=functools.partial(lower, strip=True),
    splits=("train",),
  )
  made = prepare("zt_task", prepared_dir=prepared_dir)
  assert made == manifest.load("zt_task", prepared_dir)
  task = made.tasks[0]
  assert made.rates == (1.0,)
  assert task.splits["train"].num_examples == 40
  assert task.splits["train"].quantiles["targets"]["50"] == 1 + len(
    vocabulary.encode("on a mat")
  )
  assert task.vocabulary.checksum == vocabulary.checksum
  assert task.scoring.postprocess["kwargs"] == {"strip": True}
  assert function_references.resolve(task.scoring.postprocess)(" A ") == "a"
  assert function_references.resolve(task.scoring.metrics[0]) is accuracy
  text = next(
    loader.evaluation_batches(
      task, split="train", lengths=LENGTHS, batch_size=2
    )
  )[1][1]
  assert text["targets_pretokenized"] == "on a mat"
  assert text["numbers"] == [1, 2]


def test_mixture_has_rates(add_task, prepared_dir):
  add_task("zt_one", labelled(), splits=("train",))
  add_task("zt_two", unlabelled(), splits=("train",))
  seqio.MixtureRegistry.add("zt_mixture", [("zt_two", 3), ("zt_one", 1)])
  try:
    made = prepare("zt_mixture", prepared_dir=prepared_dir)
  finally:
    seqio.MixtureRegistry.remove("zt_mixture")
  assert made == manifest.load("zt_mixture", prepared_dir)
  assert dict(zip([t.name for t in made.tasks], made.rates, strict=True)) == {
    "zt_one": 1.0,
    "zt_two": 3.0,
  }
  batches = loader.training_batches(
    made, split="train", lengths=LENGTHS, batch_size=4, seed=0
  )
  assert len(list(itertools.islice(batches, 3))) == 3


@pytest.mark.slow
def test_reuses_what_is_unchanged_and_redoes_what_is_not(
  add_task, prepared_dir, tmp_path
):
  lines = []

  def again():
    return prepare("zt_task", prepared_dir=prepared_dir, report=lines.append)

  add_task("zt_task", labelled())
  first = again()
  assert len(lines) == 2
  assert again() == first
  assert len(lines) == 2
  # Other scoring rewrites the manifest alone.
  add_task("zt_task", labelled(), metric_fns=[accuracy])
  assert again().tasks[0].scoring and len(lines) == 2
  # Another argument of a step, another file, a damaged file.
  add_task("zt_task", labelled("on the mat"))
  assert again() != first
  assert len(lines) == 4
  (tmp_path / "train.txt").write_text("\n".join(SENTENCES[:7]))
  assert again().tasks[0].splits["train"].num_examples == 7
  assert len(lines) == 6
  pathlib.Path(again().tasks[0].record_files("train")[0]).write_bytes(b"")
  assert again().tasks[0].record_files("train")
  assert len(lines) == 8


@pytest.mark.slow
def test_another_corruption_needs_no_new_records(add_task, prepared_dir):
  lines = []
  for density in (0.15, 0.3):
    steps = unlabelled()
    steps[2] = CorruptionStep(SpanCorruption(noise_density=density))
    add_task("zt_task", steps)
    made = prepare("zt_task", prepared_dir=prepared_dir, report=lines.append)
    assert made.tasks[0].corruption["noise_density"] == density
  assert len(lines) == 2


def test_splits_can_be_added(add_task, prepared_dir):
  add_task("zt_task", labelled())
  for splits in (["validation"], ["train"]):
    made = prepare("zt_task", prepared_dir=prepared_dir, splits=splits)
  assert set(made.tasks[0].splits) == {"train", "validation"}


@pytest.mark.slow
def test_failure_keeps_the_earlier_files(add_task, prepared_dir, tmp_path):
  add_task("zt_task", labelled())
  first = prepare("zt_task", prepared_dir=prepared_dir)
  (tmp_path / "validation.txt").write_text("")
  lines = []
  with pytest.raises(UserError, match="'zt_task' has no examples in split 'va"):
    prepare("zt_task", prepared_dir=prepared_dir, report=lines.append)
  assert not lines  # The large training split was not written before.
  assert manifest.load("zt_task", prepared_dir) == first
  assert first.tasks[0].record_files("validation")


def test_unknown_name_has_suggestions(add_task, prepared_dir):
  add_task("zt_task", labelled())
  with pytest.raises(
    UserError, match="is named 'zt_tsak'; did you mean 'zt_ta"
  ):
    prepare("zt_tsak", prepared_dir=prepared_dir)


@pytest.mark.parametrize("name", ["..", "vocabularies"])
def test_a_name_of_another_folder_is_refused(add_task, prepared_dir, name):
  add_task(name, labelled())
  with pytest.raises(UserError, match=f"'{name}' cannot be the name of a task"):
    prepare(name, prepared_dir=prepared_dir)
  assert not list(prepared_dir.rglob("*"))


def test_absent_split_is_told(add_task, prepared_dir):
  add_task("zt_task", labelled(), splits=("train",))
  with pytest.raises(
    UserError, match="'zt_task' has no split 'tset'; allowed:"
  ):
    prepare("zt_task", prepared_dir=prepared_dir, splits=["tset"])


@pytest.mark.parametrize("required", ["tset", "validation"])
def test_a_required_split_is_checked_before_anything_is_written(
  add_task, prepared_dir, required
):
  add_task("zt_task", labelled(), splits=("train",))
  with pytest.raises(
    UserError,
    match=f"^Task 'zt_task' has no split '{required}'; allowed: 'train'$",
  ):
    prepare(
      "zt_task", prepared_dir=prepared_dir, required_splits=["train", required]
    )
  assert not list(prepared_dir.rglob("*"))


def test_only_the_asked_splits_are_prepared_and_current(
  add_task, prepared_dir, monkeypatch
):
  # An evaluation does not wait for the training split, a training run has it.
  monkeypatch.setattr(preparation, "_is_silent", lambda task: True)
  add_task("zt_task", labelled())
  add_task("zt_rest", labelled(), splits=("train",))
  seqio.MixtureRegistry.add("zt_mix", ["zt_task", "zt_rest"], default_rate=1.0)
  asked = {"splits": ["validation"], "required_splits": ["validation"]}
  try:
    made = prepare("zt_mix", prepared_dir=prepared_dir, **asked)
    assert [list(task.splits) for task in made.tasks] == [[], ["validation"]]
    assert freshness.load("zt_mix", prepared_dir, **asked) == made
    assert freshness.load("zt_mix", prepared_dir) is None
    made = prepare("zt_mix", prepared_dir=prepared_dir)
    assert freshness.load("zt_mix", prepared_dir) == made
    assert freshness.load("zt_mix", prepared_dir, **asked) == made
    # Another definition of a member, prepared by itself.
    add_task("zt_task", labelled("on a rug"))
    prepare("zt_task", prepared_dir=prepared_dir)
    assert freshness.load("zt_mix", prepared_dir) is None
  finally:
    seqio.MixtureRegistry.remove("zt_mix")


def test_the_first_examples_alone_are_prepared(add_task, prepared_dir):
  """Those that rank the choices of a question, two here, are one example."""

  def ranked(dataset):
    return dataset.enumerate().map(
      lambda i, example: (
        example | {"idx": tf.stack([i // 2, i % 2]), "is_correct": i % 2 == 0}
      )
    )

  add_task("plain", labelled())
  add_task("ranked", [*labelled(), ranked])
  for name, expected in (("plain", 3), ("ranked", 6)):
    folder, splits = prepared_dir / "first", ["validation"]
    (task,) = prepare(name, prepared_dir=folder, splits=splits, first=3).tasks
    assert task.split("validation").num_examples == expected
    (whole,) = prepare(name, prepared_dir=prepared_dir, splits=splits).tasks
    np.testing.assert_equal(
      from_files(task, LENGTHS), from_files(whole, LENGTHS)[:expected]
    )


def test_absent_file_is_told(add_task, prepared_dir, tmp_path):
  add_task("zt_task", labelled())
  (tmp_path / "train.txt").unlink()
  with pytest.raises(UserError, match="'zt_task' cannot read its .*train.txt"):
    prepare("zt_task", prepared_dir=prepared_dir)


@pytest.mark.slow
def test_ids_outside_the_vocabulary_are_told(add_task, prepared_dir):
  def add_large(dataset):
    return dataset.map(lambda e: {k: v + 95 for k, v in e.items()})

  add_task(
    "zt_task",
    [
      label,
      functools.partial(seqio.preprocessors.tokenize, copy_pretokenized=False),
      lambda d: d.map(lambda e: {k: e[k] for k in ("inputs", "targets")}),
      add_large,
    ],
  )
  with pytest.raises(
    UserError, match="has the id .* outside its vocabulary of"
  ):
    prepare("zt_task", prepared_dir=prepared_dir)


def test_absent_data_folder_is_told(prepared_dir):
  with pytest.raises(
    UserError, match="The data folder '/absent' does not exist"
  ):
    prepare("x", prepared_dir=prepared_dir, data_dir="/absent")


def test_scoring_that_cannot_be_imported_is_refused(add_task, prepared_dir):
  add_task("zt_task", labelled(), metric_fns=[lambda targets, predictions: {}])
  with pytest.raises(UserError, match="scores with .*cannot be written"):
    prepare("zt_task", prepared_dir=prepared_dir)


def test_step_after_the_corruption_is_refused(add_task, prepared_dir):
  add_task("zt_task", [*unlabelled(), EOS])
  with pytest.raises(
    UserError, match="must have one step after its corruption"
  ):
    prepare("zt_task", prepared_dir=prepared_dir)


def test_task_without_lengths_cannot_be_corrupted(add_task):
  task = add_task("zt_task", unlabelled())
  with pytest.raises(UserError, match="A corruption needs the lengths"):
    task.get_dataset(None, split="train", shuffle=False)


def test_wikipedia_rows_are_full(shared_data, prepared_dir):
  made = prepare(
    "wikipedia_text_span_corruption",
    prepared_dir=prepared_dir,
    data_dir=str(shared_data),
    splits=["validation"],
  )
  batches = loader.training_batches(
    made,
    split="validation",
    lengths={"inputs": 512, "targets": 114},
    batch_size=16,
    seed=0,
  )
  for batch in itertools.islice(batches, 20):
    for key in ("encoder_input_tokens", "decoder_target_tokens"):
      assert np.count_nonzero(batch[key]) / batch[key].size > 0.97
