"""BERT's two phases of length are one run, resumed with the same bits."""

import json
import shutil
import sys

import gin
import jax
import numpy as np
import orbax.checkpoint as ocp
import pytest

from tests import prepared_splits
from transformer_zoo import config
from transformer_zoo.cli import main as cli
from transformer_zoo.corruption import SpanCorruption
from transformer_zoo.corruption import to_spec
from transformer_zoo.data.storage import manifest
from transformer_zoo.data.vocabularies import Vocabulary
from transformer_zoo.runs import reuse

STEPS = 6
FIRST_LONG = 4  # The step at which rows become longer.
FILES = (
  "architectures/bert.gin",
  "sizes/bert_tiny.gin",
  "runs/bert_pretrain.gin",
  "objectives/bert.gin",  # The text has no sentences.
)
BINDINGS = (
  "MIXTURE_OR_TASK_NAME='text'",
  *("VOCAB_SIZE=64", "EMBED_DIM=16", "MLP_DIM=32", "HEAD_DIM=8"),
  *("MAX_POSITIONS=32", f"TRAIN_STEPS={STEPS}", "WARMUP_STEPS=1"),
  "TASK_FEATURE_LENGTHS={'inputs': 32, 'targets': 32}",
  "SHORT_LENGTHS={'inputs': 16, 'targets': 16}",
  f"SHORT_SHARE={FIRST_LONG / STEPS}",
  *("BATCH_SIZE=8", "LEARNING_RATE=0.01", "EVAL_PERIOD=None"),
  *("LOG_PERIOD=1", "CHECKPOINT_PERIOD=1", "Checkpointing.every=1"),
)


@pytest.fixture(scope="module")
def text_dir(tmp_path_factory, prepared_dir):
  """The folder of prepared data of the task `text`."""
  folder = tmp_path_factory.mktemp("text")
  vocabulary = prepared_dir / "vocabularies" / "tiny.model"
  (folder / "vocabularies").mkdir()
  shutil.copy(vocabulary, folder / "vocabularies")
  task = manifest.PreparedTask(
    name="text",
    folder=str(folder / "text"),
    kind="tokens",
    features=("inputs", "targets"),
    vocabulary=Vocabulary(
      str(folder / "vocabularies" / "tiny.model"), extra_ids=10
    ),
    eos_after_trim=True,
    corruption=to_spec(SpanCorruption()),
    corruption_seed=0,
    splits={},
    scoring=None,
    definition="",
  )
  rng = np.random.default_rng(0)
  documents = [
    {"targets": rng.integers(3, 30, 400).astype(np.int32)} for _ in range(20)
  ]
  (folder / "text").mkdir()
  task.splits["train"] = prepared_splits.write_split(
    documents, "train", task, folder / "text"
  )
  manifest.save_task(task, folder / "text")
  return folder


@pytest.fixture(scope="module")
def train(text_dir):
  """Returns a function that trains in a folder."""

  def call(folder):
    arguments = [f"--gin_file={path}" for path in FILES]
    arguments += [f"--gin.{binding}" for binding in BINDINGS]
    arguments += [f"--gin.PREPARED_DIR={str(text_dir)!r}"]
    code = cli.main(["train", *arguments, f"--gin.MODEL_DIR={str(folder)!r}"])
    gin.clear_config()
    assert code == 0

  with pytest.MonkeyPatch.context() as patched, reuse.reused():
    patched.setitem(sys.modules, "seqio", None)
    yield call


@pytest.fixture(scope="module")
def whole(train, tmp_path_factory):
  """The folder of a run that nothing interrupted."""
  folder = tmp_path_factory.mktemp("whole")
  train(folder)
  return folder


def state(folder, step) -> dict[str, np.ndarray]:
  """The arrays of a saved step by their paths."""
  path = folder / "checkpoints" / str(step) / "state"
  with ocp.PyTreeCheckpointer() as checkpointer:
    metadata = checkpointer.metadata(path).item_metadata.tree
    arguments = jax.tree.map(
      lambda _: ocp.RestoreArgs(restore_type=np.ndarray), metadata
    )
    tree = checkpointer.restore(
      path, args=ocp.args.PyTreeRestore(restore_args=arguments)
    )
  return {
    jax.tree_util.keystr(path): np.asarray(leaf)
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
  }


@pytest.mark.slow
@pytest.mark.parametrize("step", range(1, STEPS))
def test_resumed_after_any_step_ends_with_the_same_bits(
  train, whole, tmp_path, step
):
  parts = tmp_path / "parts"
  shutil.copytree(whole, parts)
  (parts / "result.json").unlink()
  for path in (parts / "checkpoints").iterdir():
    if path.name.isdigit() and int(path.name) > step:
      shutil.rmtree(path)
  train(parts)
  found, expected = state(parts, STEPS), state(whole, STEPS)
  assert found.keys() == expected.keys()
  for name, value in expected.items():
    assert found[name].tobytes() == value.tobytes(), name
  metrics = (parts / "metrics.jsonl").read_bytes()
  assert metrics == (whole / "metrics.jsonl").read_bytes()


@pytest.mark.slow
def test_later_positions_learn_in_the_second_phase_alone(whole):
  def moments(step):
    found = state(whole, step)
    (name,) = (n for n in found if "pos_embedding" in n and "nu" in n)
    return found[name]

  assert not moments(FIRST_LONG)[16:].any()
  assert moments(FIRST_LONG)[:14].any(axis=1).all()
  assert moments(STEPS)[16:28].any(axis=1).all()


@pytest.mark.slow
def test_the_schedule_goes_on_and_rows_get_longer(whole):
  lines = (whole / "metrics.jsonl").read_text().splitlines()
  rates = {
    line["step"]: line["train/learning_rate"]
    for line in map(json.loads, lines)
    if "train/learning_rate" in line
  }
  assert rates == pytest.approx(
    {step: 0.01 * min(step - 1, (STEPS - step + 1) / 5) for step in rates}
  )
  assert list(rates) == list(range(1, STEPS + 1))


def test_the_published_numbers_and_others():
  files = list(FILES[:3])
  config.load(files, ["MODEL_DIR='run'"])
  run = gin.get_bindings("train")
  assert run["length_warmup"] == {900_000: {"inputs": 128, "targets": 128}}
  gin.clear_config()
  shorter = ["TRAIN_STEPS=50", "WARMUP_STEPS=5", "SHORT_SHARE=0.5"]
  config.load(files, ["MODEL_DIR='run'", *shorter])
  assert list(gin.get_bindings("train")["length_warmup"]) == [25]
  gin.clear_config()


@pytest.mark.parametrize(
  "packing", ["full_sentences", "doc_sentences", "segment_pair"]
)
def test_roberta_has_one_phase_and_any_packing(packing):
  files = ["architectures/roberta.gin", "sizes/roberta_base.gin"]
  files += ["runs/roberta_pretrain.gin", f"objectives/roberta_{packing}.gin"]
  config.load(files, ["MODEL_DIR='run'", "MIXTURE_OR_TASK_NAME='text'"])
  run = gin.get_bindings("train")
  gin.clear_config()
  assert "length_warmup" not in run
  assert run["task_feature_lengths"]["inputs"] == 512
  rates = [float(run["learning_rate"](step)) for step in (12_000, 24_000)]
  assert rates == pytest.approx([3e-4, 6e-4])
  run["objective"].check(run["model"])
