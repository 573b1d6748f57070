"""Examples read in batches are those read one by one, byte by byte."""

import functools
import hashlib
import json

import pytest

seqio = pytest.importorskip("seqio")
import tensorflow as tf  # noqa: E402

from tests import prepared_splits  # noqa: E402
from transformer_zoo.data import mixing  # noqa: E402
from transformer_zoo.data.prepare import inspection  # noqa: E402
from transformer_zoo.data.prepare import reading  # noqa: E402
from transformer_zoo.data.prepare import task_steps  # noqa: E402
from transformer_zoo.data.prepare import workers  # noqa: E402
from transformer_zoo.data.prepare.preparation import prepare  # noqa: E402
from transformer_zoo.data.storage import manifest  # noqa: E402
from transformer_zoo.errors import UserError  # noqa: E402

NUMBER = 600  # more than two batches


@seqio.map_over_dataset
def as_text(example):
  number = tf.strings.as_string(example["i"])
  return {
    "z": example["i"],
    "inputs": tf.strings.join(["the cat ", number]),
    "targets": tf.strings.join(["Ünï ", number]),
    "flag": example["i"] % 2 == 0,
    "score": tf.cast(example["i"], tf.float32) / 3,
    "pair": tf.stack([example["i"], -example["i"]]),
    "words": tf.strings.split(tf.strings.join(["a b Ünï ", number])),
    "table": tf.zeros([example["i"] % 3, 2], tf.int64),
    "empty": tf.zeros([0], tf.string),
    "idx": {"row": example["i"], "names": tf.strings.split([number, "x y"])},
  }


@seqio.map_over_dataset
def as_few_features(example):
  number = tf.strings.as_string(example["i"])
  text = tf.strings.join(["the cat ", number])
  return {"z": example["i"], "inputs": text, "targets": text}


def odd_rows_twice(dataset):
  dataset = dataset.filter(lambda e: e["z"] % 2 == 1)
  return dataset.flat_map(lambda e: tf.data.Dataset.from_tensors(e).repeat(2))


def of_any_rank(dataset):
  def change(example):
    side = tf.reshape(
      example["pair"], tf.where(example["flag"], [2, 1], [1, 2])
    )
    side = tf.numpy_function(lambda x: x, [side], tf.int32)  # no known rank
    return {k: example[k] for k in ("inputs", "targets", "z")} | {"side": side}

  return dataset.map(change)


@pytest.fixture
def add_task(vocabulary):
  """Returns a function that registers a task over the numbers 0, 1, ..."""
  added = []

  def add(name, *steps, splits=("train",), make=as_few_features, size=NUMBER):
    def read(split, shuffle_files=False, seed=None):
      del split, shuffle_files, seed
      return tf.data.Dataset.from_tensor_slices({"i": tf.range(size)})

    feature = seqio.Feature(vocabulary.to_seqio(), required=False)
    end = [
      seqio.preprocessors.tokenize,
      seqio.CacheDatasetPlaceholder(),
      seqio.preprocessors.append_eos_after_trim,
    ]
    added.append(name)
    return seqio.TaskRegistry.add(
      name,
      source=seqio.FunctionDataSource(
        read,
        splits=splits,
        num_input_examples=dict.fromkeys(splits, size),
      ),
      preprocessors=[make, *steps, *end],
      output_features={"inputs": feature, "targets": feature},
    )

  yield add
  for name in added:
    seqio.TaskRegistry.remove(name)


def one_by_one(task):
  """The examples as `as_numpy_iterator` gives them."""
  dataset = task.source.get_dataset("train", shuffle=False)
  for step in task_steps.divide_steps(task)[0]:
    dataset = seqio.utils.add_kwargs_to_transform(
      step, sequence_length=None, output_features=task.output_features
    )(dataset)
  return dataset.as_numpy_iterator()


@pytest.mark.slow
@pytest.mark.parametrize("steps", [(), (odd_rows_twice,), (of_any_rank,)])
def test_records_are_the_same_bytes(add_task, tmp_path, monkeypatch, steps):
  monkeypatch.setattr(reading, "_BATCH", 16)
  task = add_task("zt_read", *steps, make=as_text, size=40)
  made = prepare("zt_read", prepared_dir=tmp_path / "a").tasks[0]
  folder = tmp_path / "b"
  folder.mkdir()
  info = prepared_splits.write_split(one_by_one(task), "train", made, folder)
  assert info == made.splits["train"]
  digests = [
    hashlib.sha256((path / info.shards[0].name).read_bytes()).hexdigest()
    for path in (folder, tmp_path / "a" / "zt_read")
  ]
  assert digests[0] == digests[1]


def test_only_a_known_structure_is_batched(add_task):
  batched = add_task("zt_known", make=as_text)
  alone = add_task("zt_unknown", of_any_rank, make=as_text)
  steps = [task_steps.divide_steps(task)[0] for task in (batched, alone)]
  for task, its_steps, allowed in zip(
    (batched, alone), steps, (True, False), strict=True
  ):
    dataset = reading._build(task, its_steps, "train")
    assert (reading._batched(dataset, task, 16) is not None) == allowed


def test_an_example_that_fails_is_named(add_task, tmp_path):
  def fail(dataset):
    def check(example):
      with tf.control_dependencies(
        [tf.debugging.assert_less(example["z"], 300, "label out of range")]
      ):
        return example | {"z": tf.identity(example["z"])}

    return dataset.map(check)

  add_task("zt_fails", fail)
  with pytest.raises(
    UserError,
    match="Task 'zt_fails' cannot read its split 'train', example 300: .*"
    "label out of range",
  ) as raised:
    prepare("zt_fails", prepared_dir=tmp_path)
  assert "function_node" not in str(raised.value)


def test_bytes_that_are_not_text_are_refused(add_task, tmp_path):
  def spoil(dataset):
    def change(example):
      bad = tf.where(example["z"] == 259, b"caf\xe9", "café")
      return example | {"place": [bad]}

    return dataset.map(change)

  add_task("zt_bytes", spoil)
  with pytest.raises(UserError) as raised:
    prepare("zt_bytes", prepared_dir=tmp_path)
  assert str(raised.value) == (
    "Task 'zt_bytes' has text that is not UTF-8 in field 'place' of split "
    r"'train', example 259 (byte 3: b'\xe9'); mend the data."
  )


@pytest.mark.slow
def test_rates_are_the_same_on_the_fly_and_prepared(add_task, tmp_path):
  # SeqIO's own rate counts the 600 raw rows of both.
  add_task("zt_plain")
  add_task("zt_twice", odd_rows_twice, lambda d: d.repeat(2))
  add_task("zt_validation", splits=("validation",))
  rates = mixing.ExamplesProportional(maximum=1100, temperature=2.0)
  names = ["zt_plain", "zt_twice", "zt_validation"]
  mixture = seqio.MixtureRegistry.add(
    "zt_rates", [(name, rates) for name in names]
  )
  try:
    on_the_fly = [mixture.get_rate(task) for task in mixture.tasks]
    made = prepare("zt_rates", prepared_dir=tmp_path)
  finally:
    seqio.MixtureRegistry.remove("zt_rates")
  assert [task.name for task in made.tasks] == names
  assert list(made.rates) == on_the_fly == [600**0.5, 1100**0.5, 0]


def test_progress_is_told(add_task, tmp_path, monkeypatch):
  monkeypatch.setattr(workers, "_TELL_SECONDS", 0.0)
  add_task("zt_progress")
  lines = []
  prepare("zt_progress", prepared_dir=tmp_path, report=lines.append)
  told = [line for line in lines if "zt_progress train: 256 examples" in line]
  assert told and told[0].startswith("preparing ")
  assert ", 43%, about " in told[0]  # of the 600 that the source has


@seqio.map_over_dataset
def with_bad_labels(example):
  bad = tf.debugging.Assert(
    example["z"] % 200 != 7, ["bad label", example["z"]]
  )
  with tf.control_dependencies([bad]):
    return example | {"z": tf.identity(example["z"])}


@pytest.mark.slow
def test_rows_that_a_step_refuses_are_an_error_or_skipped(
  add_task, tmp_path, monkeypatch
):
  add_task("zt_bad", with_bad_labels)
  with pytest.raises(
    UserError,
    match="'zt_bad' cannot read its split 'train', example 7: .*; mend the "
    "data, or skip such rows with --skip_bad_rows.",
  ):
    prepare("zt_bad", prepared_dir=tmp_path)
  monkeypatch.setenv("ZOO_SKIP_BAD_ROWS", "1")
  lines = []
  made = prepare("zt_bad", prepared_dir=tmp_path, report=lines.append)
  info = made.tasks[0].split("train")
  assert (info.num_examples, info.num_skipped) == (597, 3)
  (told,) = [line for line in lines if "bad rows of zt_bad train" in line]
  assert "skipped 3 bad rows of zt_bad train, first: Task 'zt_bad' can" in told
  task = seqio.TaskRegistry.get("zt_bad")
  steps = task_steps.divide_steps(task)[0]
  read = reading.read_split(task, steps, "train", on_bad=lines.append)
  numbers = [int(example["z"]) for example in read]
  assert numbers == [i for i in range(NUMBER) if i % 200 != 7]
  shown = inspection.inspect_task(task, split="train", lengths={})
  assert shown["measured"] == 597
  assert [text.partition(" cannot")[0] for text in shown["skipped"]] == [
    "Task 'zt_bad'"
  ] * 3
  # Without the switch what lacks rows is not reused.
  monkeypatch.setenv("ZOO_SKIP_BAD_ROWS", "")
  with pytest.raises(UserError, match="example 7"):
    prepare("zt_bad", prepared_dir=tmp_path)
  with pytest.raises(UserError, match="'zt_bad' cannot read its split 'train'"):
    inspection.inspect_task(task, split="train", lengths={})


def test_a_set_without_a_good_row_is_an_error(add_task, monkeypatch):
  monkeypatch.setattr(reading, "_MOST_BAD", 50)
  task = add_task(
    "zt_all_bad",
    seqio.map_over_dataset(
      lambda e: e | {"z": tf.gather(tf.constant([1]), e["z"] + 1)}
    ),
  )
  steps = task_steps.divide_steps(task)[0]
  skipped = []
  with pytest.raises(UserError, match="'zt_all_bad' cannot read its split"):
    list(reading.read_split(task, steps, "train", on_bad=skipped.append))
  assert len(skipped) == 49


@pytest.mark.slow
def test_skipped_rows_are_told_and_stored(add_task, tmp_path):
  task = add_task("zt_skipped", splits=("train", "validation"), size=9)
  task.source.skipped_rows = functools.partial(
    {"train": ["row 3 is bad.", "row 9 is bad."], "validation": []}.get
  )
  lines = []
  made = prepare("zt_skipped", prepared_dir=tmp_path, report=lines.append)
  assert "skipped 2 bad rows of zt_skipped train, first: row 3 is bad." in lines
  splits = made.tasks[0].splits
  assert [splits[s].num_skipped for s in ("train", "validation")] == [2, 0]
  # Manifests of earlier versions do not have the field.
  path = tmp_path / "zt_skipped" / "manifest.json"
  content = json.loads(path.read_text())
  del content["splits"]["train"]["num_skipped"]
  path.write_text(json.dumps(content))
  old = manifest.load("zt_skipped", tmp_path).tasks[0]
  assert old.splits["train"].num_skipped == 0


@pytest.mark.slow
def test_what_is_on_disk_is_prepared(add_task, tmp_path):
  task = add_task("zt_partial", splits=("validation",), size=9)
  task.source.declared_splits = ("train", "validation", "test")
  lines = []
  made = prepare("zt_partial", prepared_dir=tmp_path, report=lines.append)
  assert list(made.tasks[0].splits) == ["validation"]
  assert lines[:2] == [
    "zt_partial: no split 'train' on disk",
    "zt_partial: no split 'test' on disk",
  ]
  # A split that was asked for is no detail.
  with pytest.raises(UserError, match="'zt_partial' has no split 'train'"):
    prepare("zt_partial", prepared_dir=tmp_path, splits=["train"])


def test_a_member_without_an_asked_split_has_to_have_rate_0(add_task, tmp_path):
  add_task("zt_whole", size=9)
  add_task("zt_partial", splits=("validation",), size=9)
  for rate in (0, 2):
    seqio.MixtureRegistry.add("zt_mix", [("zt_whole", 1), ("zt_partial", rate)])
    try:
      if rate:
        with pytest.raises(UserError, match="'zt_partial' has no split 'trai"):
          prepare("zt_mix", prepared_dir=tmp_path, splits=["train"])
      else:
        made = prepare("zt_mix", prepared_dir=tmp_path, splits=["train"])
        assert made.rates == (0.0, 1.0)
    finally:
      seqio.MixtureRegistry.remove("zt_mix")


def test_the_member_that_fails_is_named(add_task, tmp_path):
  task = add_task("zt_broken")

  def fail(split, shuffle_files=False, seed=None):
    raise UserError("No file matches 'x'.")

  task.source._dataset_fn = fail
  seqio.MixtureRegistry.add("zt_mix", [("zt_broken", 1)])
  try:
    with pytest.raises(UserError, match="Task 'zt_broken': No file matches"):
      prepare("zt_mix", prepared_dir=tmp_path)
  finally:
    seqio.MixtureRegistry.remove("zt_mix")


def test_rates_that_seqio_cannot_count_are_told(add_task, tmp_path):
  task = add_task("zt_uncounted", size=9)
  task.source._num_input_examples = None
  seqio.MixtureRegistry.add(
    "zt_mix", [("zt_uncounted", seqio.mixing_rate_num_examples)]
  )
  try:
    with pytest.raises(
      UserError,
      match="SeqIO does not know how many examples task 'zt_uncounted' has; "
      "use ExamplesProportional",
    ):
      prepare("zt_mix", prepared_dir=tmp_path)
  finally:
    seqio.MixtureRegistry.remove("zt_mix")


@pytest.fixture
def nested(add_task):
  """Returns a function that registers a mixture of a task and a mixture."""
  rates = mixing.ExamplesProportional()
  for name, steps in (("zt_a", ()), ("zt_b", (odd_rows_twice,)), ("zt_c", ())):
    add_task(name, *steps)
  inner = [("zt_a", rates), ("zt_b", 200)]
  seqio.MixtureRegistry.add("zt_inner", inner)

  def add(rate):
    members = [("zt_inner", rate), ("zt_c", rates)]
    return seqio.MixtureRegistry.add("zt_outer", members)

  yield add
  seqio.MixtureRegistry.remove("zt_inner")
  seqio.MixtureRegistry.remove("zt_outer")


@pytest.mark.slow
def test_a_mixture_of_mixtures_shares_its_rate(nested, tmp_path):
  mixture = nested(80)
  made = prepare("zt_outer", prepared_dir=tmp_path)
  assert made.rates == (60.0, 20.0, 600.0)
  assert [mixture.get_rate(task) for task in mixture.tasks] == list(made.rates)


@pytest.mark.slow
def test_the_rate_of_a_mixture_in_a_mixture_is_a_number(nested, tmp_path):
  nested(mixing.Equal())
  with pytest.raises(
    UserError, match="'zt_outer' has no rate for 'zt_a': .* must be a number"
  ):
    prepare("zt_outer", prepared_dir=tmp_path)
