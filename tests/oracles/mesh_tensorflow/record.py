"""Records what Mesh TensorFlow computes, for `make test`.

PYTHONPATH=.venv/mesh_tensorflow \
  .venv/bin/python -m tests.oracles.mesh_tensorflow.record NAME ...

Without names all are recorded.
"""

import sys

from flax import traverse_util

from tests.golden import mesh_tensorflow as golden
from tests.golden import variants
from tests.oracles.mesh_tensorflow import run


def main():
  golden.FOLDER.mkdir(exist_ok=True)
  # Configurables of the original have names of ours: all models come first.
  settings = {
    name: golden.setting(name) for name in sys.argv[1:] or golden.VARIANTS
  }
  for name, (_, params, batch) in settings.items():
    flat = traverse_util.flatten_dict(params, sep="/")
    found = run.outputs(name, flat, batch)
    variants.record(golden.path(name), params, batch, found)


if __name__ == "__main__":
  main()
