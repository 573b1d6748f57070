"""Runs, evaluations and answers of two and four processes are those of one."""

import json
import re
import shutil
import sys

import gin
import numpy as np
import pytest

from tests import several_processes
from tests import tiny_t5
from tests.runs.loading.initial_checkpoint_test import SIZES
from tests.runs.loading.initial_checkpoint_test import tensors_of
from transformer_zoo.cli import main as cli
from transformer_zoo.conversion import exported_directory
from transformer_zoo.interop.t5x import checkpoints
from transformer_zoo.tensors import orbax_checkpoints

pytestmark = pytest.mark.slow

STEPS = 7
OVERRIDES = [
  "MIXTURE_OR_TASK_NAME='no_validation'",
  f"TRAIN_STEPS={STEPS}",
  "LOG_PERIOD=1",
  f"CHECKPOINT_PERIOD={STEPS}",
  f"EVAL_PERIOD={STEPS}",
  "DROPOUT_RATE=0.1",
  "train.packing=False",
  "NUM_PARTITIONS=2",
]
TEXTS = ["red car likes green house", "blue boat", "house sees red", "green"]
# What one of the processes has otherwise ends the command in both.
REFUSED = """
def refused(words):
  try:
    dispatch(words)
  except UserError as error:
    print("refused:", error, file=sys.stderr, flush=True)
  else:
    raise AssertionError("not refused")

other = not distributed.is_first()
refused(TRAIN + ["--gin.TRAIN_STEPS=9"] * other)
refused(TRAIN + [f"--gin.PREPARED_DIR={OTHER_DATA!r}"] * other)
"""
# Notes which places of the mixture are read. Ctrl-C comes to process 1 alone,
# as SIGTERM, for which JAX looks every second.
STOPPED = """
import json, os, signal, time
from jax.experimental import multihost_utils
from transformer_zoo.data.loader.mixture_reader import MixtureReader
places, read = set(), MixtureReader.read
def watched(self, some):
  places.update(some.tolist())
  return read(self, some)
MixtureReader.read = watched
reached = multihost_utils.reached_preemption_sync_point
def interrupted(step):
  if step == 3 and other:
    os.kill(os.getpid(), signal.SIGINT)
  if step >= 3:
    time.sleep(2)
  return reached(step)
multihost_utils.reached_preemption_sync_point = interrupted
# A shell starts what runs in its background with Ctrl-C ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
  dispatch(TRAIN)
  raise AssertionError("not stopped")
except SystemExit as end:
  assert end.code == 143, end.code
print("places", json.dumps(sorted(places)), file=sys.stderr, flush=True)
"""
# The second process sees no texts: the first hands them on.
COMPUTED = """
dispatch(EVALUATE)
dispatch(INFER + (["none of mine"] if other else TEXTS))
os.chdir(ELSEWHERE if other else EVALUATED)
refused(EVALUATE + ["--output_dir=validation"])
"""
# Each process places its parts of every layer, which pairs of them share.
PLACED = """
import jax
import numpy as np
from tests import tiny_t5
from transformer_zoo.runs.loading import restoration
from transformer_zoo.training.sharding.partitioning import Partitioning
model = tiny_t5.build("t5_1_1", **SIZES)
expected = tiny_t5.random_parameters(model)
partitioning = Partitioning(num_partitions=2, fsdp=2)
mesh = partitioning.mesh()
def compare(placed, whole):
  (shard,) = placed.addressable_shards
  np.testing.assert_array_equal(shard.data, whole[shard.index])
for path in PATHS:
  placed = restoration.restore(model, partitioning, mesh, 8, path)
  jax.tree.map(compare, placed, expected)
  print("placed", path)
"""

# Models of two layers a stack, of which each of two processes has one.
STAGED = {
  "t5": ([], ["NUM_ENCODER_LAYERS=2", "NUM_DECODER_LAYERS=2"]),
  "prefix_lm": (["architectures/prefix_lm.gin"], ["NUM_DECODER_LAYERS=2"]),
}


@pytest.fixture(scope="module")
def initial(tmp_path_factory):
  """The same parameters as a Hugging Face directory and for T5X."""
  folder = tmp_path_factory.mktemp("initial")
  model = tiny_t5.build("t5_1_1", **SIZES)
  tensors = tensors_of(tiny_t5.random_parameters(model))
  (folder / "huggingface").mkdir()
  exported_directory.write(folder / "huggingface", model, tensors)
  checkpoints.write_checkpoint(folder / "t5x", tensors, step=7)
  return folder


@pytest.fixture(scope="module")
def words(gin_file, initial):
  """Returns a function that makes the words of a command of training."""

  def of(folder, *overrides):
    start = f"INITIAL_CHECKPOINT_PATH={str(initial / 'huggingface')!r}"
    bound = [*OVERRIDES, start, f"MODEL_DIR={str(folder)!r}", *overrides]
    return [
      "train",
      f"--gin_file={gin_file}",
      *(f"--gin.{text}" for text in bound),
    ]

  return of


@pytest.fixture(scope="module")
def one(tmp_path_factory, words):
  """The run of one process, of 8 devices."""
  folder = tmp_path_factory.mktemp("one") / "run"
  with pytest.MonkeyPatch.context() as patch:
    patch.setitem(sys.modules, "seqio", None)
    assert cli.main(words(folder, "FSDP=2")) == 0
  gin.clear_config()
  return folder


@pytest.fixture(scope="module")
def two(tmp_path_factory, words, prepared_dir):
  """What two processes leave: refused, stopped, then evaluating, answering."""
  folder = tmp_path_factory.mktemp("two")
  shutil.copytree(prepared_dir, folder / "data")
  manifest = folder / "data" / "no_validation" / "manifest.json"
  content = json.loads(manifest.read_text())
  content["splits"]["train"]["shards"][0]["sha256"] = "another"
  manifest.write_text(json.dumps(content))
  of_run = [f"--checkpoint={folder / 'run'}", "--gin.NUM_PARTITIONS=1"]
  ends = several_processes.ends(
    2,
    REFUSED + STOPPED + COMPUTED,
    TRAIN=words(folder / "run", "NUM_PARTITIONS=1", "FSDP=2"),
    EVALUATE=["evaluate", *of_run, "--mixture=unscored"],
    INFER=["infer", *of_run, f"--output={folder / 'answers.jsonl'}"],
    TEXTS=TEXTS,
    OTHER_DATA=str(folder / "data"),
    ELSEWHERE=str(folder),
    EVALUATED=str(folder / "run" / "evaluation" / "unscored"),
  )
  assert [code for code, *_ in ends] == [0, 0], ends
  return folder, ends


@pytest.fixture(scope="module")
def four(two, words, initial):
  """The run, ended by four processes, of which pairs read the same rows."""
  folder, _ = two
  ends = several_processes.ends(
    4,
    "dispatch(TRAIN)\n" + PLACED,
    TRAIN=words(folder / "run"),
    SIZES=SIZES,
    PATHS=[str(initial / "huggingface"), str(initial / "t5x")],
  )
  assert [code for code, *_ in ends] == [0] * 4, ends
  assert ends[0][1].count("\nplaced ") == 2
  return folder / "run"


def lines(path):
  return [json.loads(text) for text in path.read_text().splitlines()]


def params(folder):
  leaves = orbax_checkpoints.open_checkpoint(folder)
  found = orbax_checkpoints.parameters(leaves)
  return {name: tensor.read() for name, tensor in found.items()}


def test_two_then_four_processes_train_as_one(one, two, four):
  recorded = lines(four / "metrics.jsonl")
  assert [line["step"] for line in recorded] == [*range(1, STEPS + 1)]
  for mine, expected in zip(
    recorded, lines(one / "metrics.jsonl"), strict=True
  ):
    assert mine == pytest.approx(expected, rel=1e-5)
  mine, expected = (
    params(run / "checkpoints" / str(STEPS)) for run in (four, one)
  )
  assert mine.keys() == expected.keys()
  for name, array in mine.items():
    np.testing.assert_allclose(array, expected[name], rtol=1e-4, atol=1e-6)


def test_what_differs_between_processes_is_refused(two):
  _, ends = two
  name = r"process {} \(host \S+, pid \d+\)"
  pair = rf"from {name.format(0)} to {name.format(1)}: "
  expected = [
    f"the processes differ in their configurations, {pair}TRAIN_STEPS was "
    f"{STEPS} and is 9",
    f"the processes differ in their data, {pair}no_validation train is "
    r"\w{12} and \w{12}",
    r"the processes do not see the same 'unscored\.journal' of an interrupted "
    "evaluation: give a folder that all of them share as --output_dir, which "
    r"is 'validation/\d' here",
  ]
  for _, _, error in ends:
    told = [t for t in error.splitlines() if t.startswith("refused: ")]
    for text, sentence in zip(told, expected, strict=True):
      assert re.fullmatch(f"refused: {sentence}", text), text


def test_a_signal_to_one_stops_both_at_one_step_that_is_saved(two, four):
  _, ((_, output, _), _) = two
  saved = [text for text in output.splitlines() if "SIGTERM: saved" in text]
  assert len(saved) == 1
  stopped = int(saved[0].split()[3].rstrip(";"))
  assert 3 <= stopped < STEPS
  assert (four / "checkpoints" / str(stopped)).is_dir()


def test_a_process_reads_its_rows_alone(two):
  _, ends = two
  read = []
  for _, _, error in ends:
    (told,) = [t for t in error.splitlines() if t.startswith("places ")]
    read.append(json.loads(told.removeprefix("places ")))
  for index, places in enumerate(read):
    assert {place % 8 // 4 for place in places} == {index}
    assert len(places) >= 4 * 3


def test_what_is_written_is_written_once(one, four):
  def names(folder):
    return sorted(
      path.relative_to(folder).as_posix()
      for path in folder.rglob("*")
      if not {"checkpoints", "tensorboard", "evaluation"} & {*path.parts}
    )

  assert names(four) == names(one)
  assert len((four / "commands.txt").read_text().splitlines()) == 2
  assert len(list((four / "tensorboard").iterdir())) == 2
  timed = [line["step"] for line in lines(four / "timing.jsonl")]
  assert len([s for s in timed if s == 1]) <= 2


def printed_by(output):
  """The JSON among what is printed."""
  return json.loads(output[output.index("{") : output.rindex("}") + 1])


def test_evaluation_on_two_processes_is_that_of_one(zoo, two, tmp_path):
  folder, ((_, output, _), (_, silent, _)) = two
  assert not silent
  printed = printed_by(output)
  code, own, error = zoo(
    "evaluate",
    f"--checkpoint={printed['checkpoint']}",
    "--mixture=unscored",
    f"--output_dir={tmp_path}",
  )
  assert code == 0, error
  own = json.loads(own)
  assert printed["loss"] == pytest.approx(own["loss"], rel=1e-5)
  assert printed["num_examples"] == own["num_examples"] == {"unscored": 20}


def test_answers_of_two_processes_are_those_of_one(zoo, two, tmp_path):
  folder, ((_, output, _), _) = two
  printed = printed_by(output)
  code, _, error = zoo(
    "infer",
    f"--checkpoint={printed['checkpoint']}",
    f"--output={tmp_path / 'answers.jsonl'}",
    *TEXTS,
  )
  assert code == 0, error
  found = lines(folder / "answers.jsonl")
  assert [answer["inputs"] for answer in found] == TEXTS
  for mine, expected in zip(
    found, lines(tmp_path / "answers.jsonl"), strict=True
  ):
    assert mine.pop("score") == pytest.approx(expected.pop("score"), rel=1e-4)
    assert mine.pop("log_likelihood") == pytest.approx(
      expected.pop("log_likelihood"), rel=1e-4
    )
    assert mine == expected
  assert not (folder / "answers.jsonl.journal").exists()


@pytest.fixture(scope="module")
def staged(gin_file, tmp_path_factory):
  """Returns a function that makes the commands of a run with LoRA."""
  root = tmp_path_factory.mktemp("staged")

  def of(name, where, *files):
    files_of_model, sizes = STAGED[name]
    folder = root / where / name
    files = [gin_file, *files_of_model, "peft/lora.gin", *files]
    bound = [
      *sizes,
      "VOCAB_SIZE=64",
      "SCAN_LAYERS=True",
      "DROPOUT_RATE=0.0",
      f"TRAIN_STEPS={STEPS}",
      f"CHECKPOINT_PERIOD={STEPS}",
      f"EVAL_PERIOD={STEPS}",
      "LOG_PERIOD=1",
      f"MODEL_DIR={str(folder)!r}",
    ]
    words = [f"--gin_file={file}" for file in files]
    words += [f"--gin.{text}" for text in bound]
    of_run = f"--checkpoint={folder}"
    answers = f"--output={folder / 'answers.jsonl'}"
    return folder, (
      ["train", *words],
      ["evaluate", of_run, "--mixture=unscored"],
      ["infer", of_run, answers, *TEXTS],
    )

  return of


@pytest.fixture(scope="module")
def over_stages(staged):
  """The folders of runs of two processes, and what the first one prints."""
  stages = "partitioning/pipeline.gin"
  made = {name: staged(name, "two", stages) for name in STAGED}
  commands = [words for _, of_run in made.values() for words in of_run]
  body = "for words in COMMANDS:\n  dispatch(words)\n"
  ends = several_processes.ends(2, body, COMMANDS=commands)
  assert [code for code, *_ in ends] == [0, 0], ends
  return {name: folder for name, (folder, _) in made.items()}, ends


def close(mine, expected):
  """Compares what may be summed in another order."""
  assert mine.keys() == expected.keys()
  for name, value in mine.items():
    if isinstance(value, float | np.ndarray):
      np.testing.assert_allclose(value, expected[name], rtol=1e-4, atol=1e-6)
    else:
      assert value == expected[name]


@pytest.mark.parametrize("name", STAGED)
def test_layers_on_two_processes_are_those_of_one(
  name, zoo, staged, over_stages
):
  folders, ((_, output, _), _) = over_stages
  two = folders[name]
  one, commands = staged(name, "one")
  printed = []
  for words in commands:
    code, text, error = zoo(*words)
    assert code == 0, error
    printed.append(text)
    gin.clear_config()
  assert output.count("mesh 2 stage x 1 data x 1 fsdp x 1 model") == len(STAGED)
  assert "every device has all parameters" not in output
  for file in ("metrics.jsonl", "answers.jsonl"):
    for pair in zip(lines(two / file), lines(one / file), strict=True):
      close(*pair)
  mine, expected = (
    params(run / "checkpoints" / str(STEPS)) for run in (two, one)
  )
  close(mine, expected)
  trained = [key for key in mine if key.endswith("lora_b")]
  assert trained and all(np.abs(mine[key]).max() > 1e-3 for key in trained)
  evaluated = [
    report
    for report in map(json.loads, re.findall(r"(?ms)^{$.*?^}$", output))
    if report["checkpoint"].startswith(str(two))
  ]
  (mine,), expected = evaluated, json.loads(printed[1])
  close(mine["loss"], expected["loss"])
  close(mine["token_accuracy"], expected["token_accuracy"])
