"""MEND's transform against its definition in PyTorch.

After `GradientTransform`, `IDMLP` and `LRLinear` of the authors' repository,
which keep matrices as (out, in); no code of ours is in the reference.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from tests import tiny_models
from transformer_zoo.editing import interventions
from transformer_zoo.editing import mend


def reference(x, d, mean, deviation, layers, mode, rate):
  """Returns the change of a matrix, [in, out]."""
  kept = (x != 0).any(-1) * (d != 0).any(-1)
  z = (torch.cat([x, d], -1)[kept] - mean) / (deviation + 1e-7)
  for index, layer in enumerate(layers):
    pre = (layer["u"] @ (layer["v"] @ z.T)).T + layer["bias"]
    pre = layer["scale"][mode] * pre + layer["shift"][mode]
    z = z + (pre.clamp(min=0) if index == 0 else pre)
  u, v = z.split([x.shape[-1], d.shape[-1]], -1)
  return -rate * torch.einsum("bi,bj->ij", u, v)


@pytest.mark.parametrize("mode", [0, 1])
def test_changes_of_matrices(mode, report):
  model, _ = tiny_models.build("gpt_2", NUM_DECODER_LAYERS=2)
  model = interventions.looped(model)
  params = tiny_models.random_parameters(model)
  paths = mend.last_projections(model, projections=("wo",))
  editors = mend.Mend(model, paths, rank=5)
  random = np.random.RandomState(0)

  def drawn(*shape):
    return random.standard_normal(shape).astype(np.float32)

  editor = editors.init(jax.random.key(0), params, rate=0.3)
  editor = jax.tree.map(lambda leaf: leaf + 0.1 * drawn(*leaf.shape), editor)
  width = 36 + 24
  mean, deviation = drawn(width), 1 + np.abs(drawn(width))
  x, d = drawn(7, 36), drawn(7, 24)
  d[3], x[5] = 0, 0
  found = editors.transformed(
    editor,
    {"36x24": (jnp.asarray(mean), jnp.asarray(deviation))},
    {path: (jnp.asarray(x), jnp.asarray(d)) for path in paths},
  )
  left, right = found[paths[mode]]
  names = {"up": "u", "down": "v", "bias": "bias"} | {
    name: name for name in ("scale", "shift")
  }
  layers = []
  for layer in range(2):
    weights = editor["networks"][f"36x24_{layer}"]
    layers.append(
      {
        theirs: torch.tensor(
          np.asarray(weights[ours]).T
          if theirs in ("u", "v")
          else np.asarray(weights[ours])
        )
        for ours, theirs in names.items()
      }
    )
  rate = float(editor["rates"][paths[mode].replace("/", ".")])
  expected = reference(
    *map(torch.tensor, (x, d, mean, deviation)), layers, mode, rate
  ).numpy()
  error = np.abs(np.asarray(left.T @ right) - expected).max()
  report("change of a matrix", error / np.abs(expected).max())
  assert error < 1e-5 * np.abs(expected).max()
