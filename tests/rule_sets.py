"""The shipped rule sets, each on a mesh of 8 devices."""

import functools
import pathlib

import transformer_zoo
from transformer_zoo import config
from transformer_zoo.training.sharding.partitioning import Partitioning

FOLDER = (
  pathlib.Path(transformer_zoo.__file__).parent.parent
  / "gin_configs"
  / "partitioning"
)
# That of stages scans layers and draws dropout otherwise: pipeline_test.py.
# Those of experts and lengths have meshes of their own: partitioning_test.py.
SHIPPED = sorted(
  path.stem
  for path in FOLDER.glob("*.gin")
  if path.stem not in ("expert_parallel", "pipeline", "sequence_parallel")
)
# name -> file, macros, sizes of the mesh as data, fsdp, model.
ON_8_DEVICES = {
  "data_parallel": ("data_parallel", {}, (8, 1, 1)),
  "fully_sharded": ("fully_sharded", {}, (1, 8, 1)),
  "tensor_parallel": ("tensor_parallel", {}, (1, 1, 8)),
  "two_dimensional": ("two_dimensional", {"FSDP": 2}, (2, 2, 2)),
  "sequence": ("two_dimensional_sequence", {}, (1, 4, 2)),
  "hybrid": ("fully_sharded", {"NUM_SLICES": 2}, (2, 4, 1)),
}


@functools.cache
def build(name: str) -> Partitioning:
  """The rule set of one of the names above."""
  file, macros, _ = ON_8_DEVICES[name]
  return load(file, **macros)


def load(file: str, **macros) -> Partitioning:
  """What partitioning/<file>.gin stands for."""
  overrides = [f"{macro}={value!r}" for macro, value in macros.items()]
  config.load([f"partitioning/{file}.gin"], overrides, root="Partitioning")
  return config.call("Partitioning")
