"""The core runs where TensorFlow, SeqIO and Beam are not installed."""

import pathlib
import subprocess
import sys

import pytest

from tests import few_examples as few

# Packages of this repository, and how many of their files a run may import,
# apart from those that open a room.
OURS = ("mixtures", "tasks", "transformer_zoo")
MOST = 131
ROOT = pathlib.Path(__file__).resolve().parent.parent
# Modules that are there for the sake of SeqIO, Beam or a harness of others.
EXEMPT = {
  "transformer_zoo.api.lm_eval_model",
  "transformer_zoo.api.mteb_encoder",
  "transformer_zoo.cleaning.jobs",
  "transformer_zoo.cleaning.places",
  "transformer_zoo.cleaning.stages",
  "transformer_zoo.data.prepare.preparation",
  "transformer_zoo.data.prepare.seqio_corruption",
  "transformer_zoo.data.vocabularies.seqio_vocabularies",
}
SCRIPT = """
import importlib, sys

BLOCKED = {"tensorflow", "tensorflow_text", "tensorflow_datasets", "seqio",
           "clu", "t5", "apache_beam", "py3langid", "pyarrow", "sentencex"}

class Block:
  def find_spec(self, name, path=None, target=None):
    if name.partition(".")[0] in BLOCKED:
      raise ImportError(f"{name} is blocked")

sys.meta_path.insert(0, Block())
for name in sys.argv[1:]:
  importlib.import_module(name)
assert not BLOCKED & set(sys.modules), BLOCKED & set(sys.modules)
"""


@pytest.mark.slow
def test_the_core_imports_without_tensorflow_and_seqio():
  names = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in (ROOT / "transformer_zoo").rglob("*.py")
  )
  names = [name.removesuffix(".__init__") for name in names]
  result = subprocess.run(
    [sys.executable, "-c", SCRIPT, *sorted(set(names) - EXEMPT)],
    capture_output=True,
    text=True,
  )
  assert result.returncode == 0, result.stderr


RUN = """
import sys
from transformer_zoo.cli import main

code = main.main(sys.argv[1:])
ours = ("transformer_zoo", "tasks", "mixtures")
print(*sorted(n for n in sys.modules if n.partition(".")[0] in ours), sep="\\n")
sys.exit(code)
"""
# What a run from scratch on prepared data does not use.
UNUSED = (
  *("mixtures", "tasks"),
  *("transformer_zoo.cleaning", "transformer_zoo.interop"),
  *("transformer_zoo.conversion", "transformer_zoo.tensors"),
  *("transformer_zoo.studies", "transformer_zoo.data.prepare"),
  *(
    "transformer_zoo.precompile.mesh_search",
    "transformer_zoo.precompile.report",
  ),
  *("transformer_zoo.corruption.sentences", "transformer_zoo.runs.infer"),
  *("transformer_zoo.decoding.beams", "transformer_zoo.decoding.sampling"),
  *("transformer_zoo.training.optimizers.adam", "transformer_zoo.cli.ablate"),
)


@pytest.mark.slow
def test_a_run_from_scratch_imports_what_it_uses(tmp_path):
  def train():
    done = subprocess.run(
      [
        *(sys.executable, "-c", RUN, "train"),
        "--gin_file=runs/miniature_pretrain.gin",
        *("--gin.TRAIN_STEPS=1", "--gin.BATCH_SIZE=8", "--gin.EMBED_DIM=16"),
        *("--gin.NUM_ENCODER_LAYERS=1", "--gin.NUM_DECODER_LAYERS=1"),
        f"--gin.MODEL_DIR='{tmp_path / 'run'}'",
        f"--gin.PREPARED_DIR='{tmp_path / 'prepared'}'",
      ],
      capture_output=True,
      text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()

  preparation = pytest.importorskip(
    "transformer_zoo.data.prepare.preparation", exc_type=ImportError
  )
  with few.only_few():
    preparation.prepare("mini_corpus", prepared_dir=tmp_path / "prepared")
  imported = [name for name in train() if " " not in name]
  used = [name for name in imported if name.partition(".")[0] in OURS]
  assert [name for name in used if name.startswith(UNUSED)] == []
  files = [
    name
    for name in used
    if not ROOT.joinpath(*name.split("."), "__init__.py").exists()
  ]
  assert len(files) <= MOST, files
