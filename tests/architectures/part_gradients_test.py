"""Gradients of every shipped part: none is missing, and layouts agree."""

from flax import traverse_util
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import tiny_models
from transformer_zoo.training import state as state_lib
from transformer_zoo.training.sharding.partitioning import Partitioning

FOLDERS = (
  *("attention/", "connections/", "embeddings/", "layers/", "softmax/"),
  "stacks/",
)
PARTS = [
  *(
    part
    for part in (
      *tiny_models.PARTS,
      *tiny_models.STACKS,
      *tiny_models.LAYERS,
      *tiny_models.EMBEDDINGS,
    )
    if part.startswith(FOLDERS)
  ),
  "sharing/both.gin",
]
ONE_LAYER = {"NUM_ENCODER_LAYERS": 1, "NUM_DECODER_LAYERS": 1}
THREE_LAYERS = {"NUM_ENCODER_LAYERS": 3, "NUM_DECODER_LAYERS": 2}


def gradient_of(model):
  """Returns (params, batch) -> flat gradient of a sum over the logits."""

  @jax.jit
  def gradient(params, batch):
    def total(params):
      logits = model.apply({"params": params}, batch, method="all_logits")
      real = batch["decoder_target_tokens"][..., None] != 0
      logits = jnp.where(real, jax.nn.log_softmax(logits["tokens"]), 0)
      return jnp.sum(jnp.sin(logits))

    return jax.grad(total)(params)

  return lambda params, batch: traverse_util.flatten_dict(
    gradient(params, batch), sep="/"
  )


def assert_close(found, expected):
  """A single number's gradient rounds as the terms of its sum, which cancel."""
  most = max(np.abs(array).max() for array in expected.values())
  for path, array in expected.items():
    scale = most if array.size == 1 else np.abs(array).max()
    np.testing.assert_allclose(
      found[path], array, rtol=0, atol=1e-4 * scale, err_msg=path
    )


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
def test_every_parameter_learns_with_remat_and_on_two_devices_alike(part):
  layers = THREE_LAYERS if part in tiny_models.STACKS else ONE_LAYER
  model, converter = tiny_models.build("t5_1_0", part, **layers)
  params = tiny_models.random_parameters(model)
  batch = tiny_models.lay_out(
    converter, tiny_models.random_examples(), packing=False
  )
  expected = gradient_of(model)(params, batch)
  for path, array in expected.items():
    assert np.isfinite(array).all() and np.any(array != 0), path

  again, _ = tiny_models.build("t5_1_0", part, REMAT="full", **layers)
  assert_close(gradient_of(again)(params, batch), expected)

  layout = Partitioning(num_partitions=2)
  mesh = layout.mesh(jax.devices()[:2])
  shardings = layout.shardings(
    mesh, state_lib.abstract_variables(model), params
  )
  with layout.activate(mesh):
    found = gradient_of(model)(jax.device_put(params, shardings), batch)
  assert_close(found, expected)
