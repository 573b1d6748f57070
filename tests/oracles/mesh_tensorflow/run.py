"""One call into Mesh TensorFlow, for the process that it has to itself."""

from collections.abc import Mapping

import numpy as np


def outputs(
  name: str,
  parameters: Mapping[str, np.ndarray],
  batch: Mapping[str, np.ndarray],
) -> dict[str, np.ndarray]:
  """Returns logits, loss and gradients of an original, by its name."""
  # It builds graphs: the tests use TensorFlow otherwise.
  from tests.oracles.mesh_tensorflow import originals

  return originals.outputs(originals.ORIGINALS[name], parameters, batch)
