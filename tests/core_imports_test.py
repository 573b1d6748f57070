"""The core runs where TensorFlow, SeqIO and Beam are not installed."""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Modules that are there for the sake of SeqIO or Beam.
EXEMPT = {
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
           "clu", "t5", "apache_beam", "py3langid", "sentencex"}

class Block:
  def find_spec(self, name, path=None, target=None):
    if name.partition(".")[0] in BLOCKED:
      raise ImportError(f"{name} is blocked")

sys.meta_path.insert(0, Block())
for name in sys.argv[1:]:
  importlib.import_module(name)
assert not BLOCKED & set(sys.modules), BLOCKED & set(sys.modules)
"""


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
