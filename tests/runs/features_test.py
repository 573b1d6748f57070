"""Taggers over the layers of an encoder that stays as it is, end to end."""

import json
import random
import sys

from flax import linen as nn
from flax import traverse_util
import gin
import jax
import numpy as np
import pytest

from tests import prepared_splits
from tests.runs import conftest
from transformer_zoo import config
from transformer_zoo import parameter_names
from transformer_zoo.checkpoints import checkpoint_sources
from transformer_zoo.cli import main as cli
from transformer_zoo.data.storage import manifest
from transformer_zoo.data.vocabularies import Vocabulary
from transformer_zoo.tensors import orbax_checkpoints
from transformer_zoo.tensors.lazy_tensors import Tensor
from transformer_zoo.training import state as state_lib

TAGS = ["O", "B-COLOUR", "B-THING"]
COLOURS, THINGS = {"red", "green", "blue"}, {"car", "boat", "house"}
ACCURACY = "transformer_zoo.evaluation.metrics.classification:accuracy"
FILES = ["architectures/bert.gin", "sizes/bert_tiny.gin"]
SIZES = ("EMBED_DIM", "MLP_DIM", "HEAD_DIM", "MAX_POSITIONS", "VOCAB_SIZE")
BINDINGS = [
  *("EMBED_DIM=32", "MLP_DIM=32", "HEAD_DIM=16", "MAX_POSITIONS=16"),
  *("VOCAB_SIZE=64", "MIXTURE_OR_TASK_NAME='colours'"),
  "TASK_FEATURE_LENGTHS={'inputs': 16}",
  *("BATCH_SIZE=16", "EPOCHS=2", "NUM_CLASSES=3", "LOG_PERIOD=4"),
]
MIXES = {
  "last": ["FEATURE_LAYERS=(-1,)"],
  "concatenation": ["FEATURE_LAYERS=(0, 1, 2)"],
  "learned": ["FEATURE_MIX='learned'", "FEATURE_LAYERS=(0, 1, 2)"],
}


def tag(word):
  return TAGS.index(
    "B-COLOUR" if word in COLOURS else "B-THING" if word in THINGS else "O"
  )


def record(words, vocabulary):
  pieces, firsts = [], []
  for word in words:
    firsts.append(len(pieces))
    pieces += vocabulary.encode(word)
  tags = [tag(word) for word in words]
  return {
    "first": np.array(pieces, np.int32),
    "second": np.zeros(0, np.int32),
    "tokens": words,
    "first_pieces": np.array(firsts, np.int32),
    "label": np.array(tags, np.int32),
    "targets_pretokenized": " ".join(
      f"[ {w} | {TAGS[t][2:]} ]" if t else w
      for w, t in zip(words, tags, strict=True)
    ),
  }


@pytest.fixture(scope="module")
def tagged_dir(tmp_path_factory, prepared_dir):
  """Prepared data of `colours:tags`: is a word a colour or a thing?"""
  folder = tmp_path_factory.mktemp("tagged")
  model = (prepared_dir / "vocabularies" / "tiny.model").read_bytes()
  (folder / "vocabularies").mkdir()
  (folder / "vocabularies" / "tiny.model").write_bytes(model)
  vocabulary = Vocabulary(
    str(folder / "vocabularies" / "tiny.model"), extra_ids=10
  )
  task = manifest.PreparedTask(
    name="colours:tags",
    folder=str(folder / "colours:tags"),
    kind="examples",
    features=("first", "second"),
    vocabulary=vocabulary,
    eos_after_trim=True,
    corruption=None,
    corruption_seed=0,
    splits={},
    scoring=manifest.Scoring(None, ({"function": ACCURACY, "kwargs": {}},)),
    definition="",
    form={"form": "tags", "tags": TAGS},
  )
  (folder / task.name).mkdir()
  rng = random.Random(0)
  for split, number in (("train", 128), ("validation", 32)):
    rows = [
      record(rng.choices(conftest.WORDS, k=4), vocabulary)
      for _ in range(number)
    ]
    task.splits[split] = prepared_splits.write_split(
      rows, split, task, folder / task.name
    )
  manifest.save_task(task, folder / task.name)
  return folder


@pytest.fixture(scope="module")
def train(tagged_dir):
  """Returns a function that trains: shares of right tags by epoch."""

  def call(folder, files, *bindings):
    arguments = [f"--gin_file={path}" for path in [*FILES, *files]]
    arguments += [f"--gin.{text}" for text in (*BINDINGS, *bindings)]
    arguments += [f"--gin.PREPARED_DIR={str(tagged_dir)!r}"]
    code = cli.main(["train", *arguments, f"--gin.MODEL_DIR={str(folder)!r}"])
    gin.clear_config()
    assert code == 0
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [
      line["validation/colours/token_accuracy"]
      for line in map(json.loads, lines)
      if "validation/colours/token_accuracy" in line
    ]

  with pytest.MonkeyPatch.context() as patched:
    patched.setitem(sys.modules, "seqio", None)
    yield call


@pytest.fixture(scope="module")
def start(tmp_path_factory):
  """A checkpoint with the head of masked tokens, as training begins.

  Its layers change little: what a token is can be read from each of them.
  """
  sizes = [text for text in BINDINGS if text.partition("=")[0] in SIZES]
  model = config.build("MODEL", FILES, sizes)
  params = nn.unbox(state_lib.initial_variables(model, jax.random.key(0)))
  flat = traverse_util.flatten_dict({"params": params}, sep="/")
  step = tmp_path_factory.mktemp("start") / "checkpoints" / "7"
  step.parent.mkdir()
  tensors = {name: Tensor.of(np.asarray(leaf)) for name, leaf in flat.items()}
  orbax_checkpoints.write(step, tensors)
  return step.parent.parent


def encoder(folder):
  """The parameters of the encoder in the last step, by name."""
  last = max((folder / "checkpoints").iterdir(), key=lambda p: int(p.name))
  leaves = orbax_checkpoints.open_checkpoint(last)
  return {
    name: tensor.read()
    for name, tensor in orbax_checkpoints.parameters(leaves).items()
    if not parameter_names.head_of(name)
  }


@pytest.mark.slow
@pytest.mark.parametrize(
  "mix, tagger",
  [("last", "linear"), ("concatenation", "linear"), ("learned", "bilstm")],
)
def test_a_tagger_learns_and_the_encoder_stays(
  train, start, tmp_path, mix, tagger, capsys
):
  files = ["runs/bert_finetune.gin", "heads/tags.gin", "peft/features.gin"]
  sizes = ["LEARNING_RATE=0.005", "EPOCHS=9"]
  sizes += ["EVAL_PERIOD=0", "CHECKPOINT_PERIOD=100"]
  if tagger == "bilstm":
    files.append("peft/bilstm.gin")
    sizes.append("LSTM_DIM=16")
  start_from = f"INITIAL_CHECKPOINT_PATH={str(start)!r}"
  shares = train(tmp_path / "run", files, start_from, *MIXES[mix], *sizes)
  # The run saves what it trains, and reads the encoder as it was.
  assert encoder(tmp_path / "run") == {}
  expected = encoder(start)
  source = checkpoint_sources.open_source(tmp_path / "run")
  assert expected.keys() <= source.tensors.keys()
  for name, value in expected.items():
    found = source.tensors[name].read()
    np.testing.assert_array_equal(found, value, err_msg=name)
  assert shares == [pytest.approx(1.0, abs=0.1)]
  output = capsys.readouterr().out
  assert ("fresh: encoder/mix" in output) == (mix == "learned")
  assert ("fresh: recurrent" in output) == (tagger == "bilstm")
