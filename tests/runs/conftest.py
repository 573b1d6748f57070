"""A tiny prepared task, a gin file for it, and `zoo` as a process runs it."""

import json
import pathlib
import random
import subprocess
import sys
import time

import gin
import numpy as np
import pytest
import sentencepiece

from tests import prepared_splits
from tests import quick_compilation
from transformer_zoo.cli import main as cli
from transformer_zoo.data.storage import manifest
from transformer_zoo.data.vocabularies import Vocabulary
from transformer_zoo.runs import reuse

WORDS = "red green blue car boat house sees likes".split()
GIN = """
include 'architectures/t5_1_1.gin'
include 'runs/finetune.gin'

EMBED_DIM = 16
MLP_DIM = 32
NUM_HEADS = 2
HEAD_DIM = 8
NUM_ENCODER_LAYERS = 1
NUM_DECODER_LAYERS = 1
VOCAB_SIZE = 64
MIXTURE_OR_TASK_NAME = 'colours'
TASK_FEATURE_LENGTHS = {'inputs': 16, 'targets': 8}
TRAIN_STEPS = 12
BATCH_SIZE = 8
LEARNING_RATE = 0.03
LOG_PERIOD = 3
CHECKPOINT_PERIOD = 2
EVAL_PERIOD = 4
"""
# As on a machine without SeqIO: what is prepared is taken as it is.
WITHOUT_SEQIO = (
  # A shell starts what runs in its background with Ctrl-C ignored.
  "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
  "import sys; sys.modules['seqio'] = None; "
  "from transformer_zoo.cli import main; sys.exit(main.main())"
)


@pytest.fixture(scope="session")
def prepared_dir(tmp_path_factory) -> pathlib.Path:
  """Holds the task `colours`: which colour does a sentence begin with?"""
  folder = tmp_path_factory.mktemp("prepared")
  rng = random.Random(0)
  sentences = [" ".join(rng.choices(WORDS, k=4)) for _ in range(120)]
  (folder / "vocabularies").mkdir()
  sentencepiece.SentencePieceTrainer.Train(
    sentence_iterator=iter(sentences * 5),
    model_prefix=str(folder / "vocabularies" / "tiny"),
    vocab_size=40,
    pad_id=0,
    eos_id=1,
    unk_id=2,
    bos_id=-1,
    hard_vocab_limit=False,
    minloglevel=2,
  )
  path = folder / "vocabularies" / "tiny.model"
  vocabulary = Vocabulary(str(path), extra_ids=10)

  def example(sentence):
    target = sentence.split()[0]
    return {
      "inputs": np.array([*vocabulary.encode(sentence), 1], np.int32),
      "targets": np.array([*vocabulary.encode(target), 1], np.int32),
      "inputs_pretokenized": sentence,
      "targets_pretokenized": target,
    }

  def write(name, splits, metrics):
    (folder / name).mkdir()
    task = manifest.PreparedTask(
      name=name,
      folder=str(folder / name),
      kind="examples",
      features=("inputs", "targets"),
      vocabulary=vocabulary,
      eos_after_trim=True,
      corruption=None,
      corruption_seed=0,
      splits={},
      scoring=manifest.Scoring(None, metrics),
      definition="",
    )
    for split, some in splits.items():
      examples = [example(sentence) for sentence in some]
      task.splits[split] = prepared_splits.write_split(
        examples, split, task, folder / name
      )
    manifest.save_task(task, folder / name)

  accuracy = {
    "function": "transformer_zoo.evaluation.metrics.classification:accuracy",
    "kwargs": {},
  }
  splits = {"train": sentences[:100], "validation": sentences[100:]}
  write("colours", splits, (accuracy,))
  write("unscored", splits, ())
  write("no_training", {"validation": sentences[100:]}, (accuracy,))
  write("no_validation", {"train": sentences[:100]}, (accuracy,))
  tasks = ["colours", "no_validation", "unscored"]
  rates = [1.0, 0.0, 1.0]
  content = {"name": "mixed", "tasks": tasks, "rates": rates}
  (folder / "mixed.mixture.json").write_text(json.dumps(content))
  return folder


@pytest.fixture(scope="session")
def gin_file(tmp_path_factory, prepared_dir) -> pathlib.Path:
  path = tmp_path_factory.mktemp("gin") / "tiny.gin"
  path.write_text(f"{GIN}PREPARED_DIR = {str(prepared_dir)!r}\n")
  return path


@pytest.fixture
def zoo(monkeypatch, capsys):
  """Returns a function that runs `zoo` here: exit code, output, errors."""
  monkeypatch.setitem(sys.modules, "seqio", None)

  def call(*words):
    code = cli.main([str(word) for word in words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err

  yield call
  gin.clear_config()


@pytest.fixture
def train(zoo, gin_file):
  """Returns a function that trains in a folder with overrides."""

  def call(folder, *overrides, files=()):
    files = [f"--gin_file={path}" for path in (gin_file, *files)]
    overrides = [f"--gin.{text}" for text in overrides]
    return zoo("train", *files, f"--gin.MODEL_DIR={str(folder)!r}", *overrides)

  return call


@pytest.fixture(scope="session", autouse=True)
def shared_programs():
  """Runs that are alike use each other's programs."""
  with reuse.reused():
    yield


@pytest.fixture(scope="session")
def place_of_the_finished(tmp_path_factory) -> pathlib.Path:
  return tmp_path_factory.mktemp("runs") / "finished"


@pytest.fixture
def finished(train, place_of_the_finished) -> pathlib.Path:
  """A run folder that is left as it is; made by the first test that asks."""
  folder = place_of_the_finished
  if not (folder / "result.json").exists():
    code, output, error = train(folder)
    assert code == 0, error
    assert output.splitlines()[-1] == str(folder / "result.json")
    assert (
      "training 12 steps, 0 to 12, 2,304 tokens (8 rows of 24, padding "
      "included)" in output
    )
  return folder


@pytest.fixture(scope="session")
def start_training(gin_file):
  """Returns a function that starts `zoo train` as a process of its own."""

  def start(folder, *overrides, devices=2):
    command = [
      *(sys.executable, "-c", WITHOUT_SEQIO, "train"),
      f"--gin_file={gin_file}",
      f"--gin.MODEL_DIR={str(folder)!r}",
      *(f"--gin.{text}" for text in overrides),
    ]
    started = time.time()
    process = subprocess.Popen(
      command,
      env=quick_compilation.environment(devices),
      stdout=subprocess.PIPE,
      stderr=subprocess.STDOUT,
      text=True,
    )
    process.started = started
    return process

  return start


@pytest.fixture
def infer(zoo):
  """Returns a function from a checkpoint to objects, one for each text."""

  def call(checkpoint, *words):
    lengths = "--gin.TASK_FEATURE_LENGTHS={'inputs': 16, 'targets': 8}"
    checkpoint = f"--checkpoint={checkpoint}"
    code, output, error = zoo("infer", checkpoint, lengths, "--json", *words)
    assert code == 0, error
    return [json.loads(line) for line in output.splitlines()]

  return call
