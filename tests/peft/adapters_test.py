"""An adapted model is exactly the model as it was until it is trained."""

from flax import linen as nn
import jax
import numpy as np
import pytest

from tests import tiny_t5
from transformer_zoo import config
from transformer_zoo.peft import substitution

CONNECTIONS = ("pre_norm", "post_norm", "parallel")


def adapted(connection, scan=False, method="adapters"):
  macros = {**tiny_t5.TINY, "NUM_ENCODER_LAYERS": 1, "NUM_DECODER_LAYERS": 2}
  macros |= {"SCAN_LAYERS": scan, "ADAPTER_DIM": 6}
  bindings = [f"{name}={value!r}" for name, value in macros.items()]
  files = [
    "architectures/t5_1_0.gin",
    f"parts/connections/{connection}.gin",
    f"peft/{method}.gin",
  ]
  config.load(files, bindings, root="MODEL")
  return config.value("MODEL")


@pytest.mark.parametrize("connection", CONNECTIONS)
def test_a_fresh_adapter_adds_exactly_nothing(connection):
  model = adapted(connection)
  layer, base = (
    each.encoder.layer for each in (model, substitution.original(model))
  )
  x = np.random.RandomState(0).standard_normal((2, 5, 32))
  keywords = {
    "mask_B1LM": None,
    "bias_1HLM": None,
    "positions": None,
    "deterministic": True,
  }
  x = x.astype(np.float32)
  params = nn.meta.unbox(layer.init(jax.random.key(0), x, **keywords))
  kernel = params["params"]["adapter"]["wo"]["kernel"]
  assert kernel.shape == (6, 32)
  found = layer.apply(params, x, **keywords)
  np.testing.assert_array_equal(found, base.apply(params, x, **keywords))
  params["params"]["adapter"]["wo"]["kernel"] = kernel + 1
  assert np.all(layer.apply(params, x, **keywords) != found)


@pytest.mark.parametrize("connection", ["pre_norm", "parallel"])
def test_pfeiffers_reads_the_stream_and_is_added_to_it(connection):
  """Where a norm follows the sum: tests/golden/adapters, by the library."""
  model = adapted(connection, method="pfeiffer")
  layer, base = (
    each.encoder.layer for each in (model, substitution.original(model))
  )
  random = np.random.RandomState(0)
  x = random.standard_normal((2, 5, 32)).astype(np.float32)
  keywords = {
    "mask_B1LM": None,
    "bias_1HLM": None,
    "positions": None,
    "deterministic": True,
  }
  params = nn.meta.unbox(layer.init(jax.random.key(0), x, **keywords))["params"]
  params = jax.tree.map(
    lambda leaf: random.standard_normal(leaf.shape).astype(np.float32), params
  )
  found = layer.apply({"params": params}, x, **keywords)
  adapter = params.pop("adapter")
  z = np.asarray(base.apply({"params": params}, x, **keywords))
  hidden = np.maximum(z @ adapter["wi"]["kernel"] + adapter["wi"]["bias"], 0)
  added = hidden @ adapter["wo"]["kernel"] + adapter["wo"]["bias"]
  np.testing.assert_allclose(found, z + added, rtol=1e-4, atol=1e-3)


def test_scanned_and_looped_are_one_model():
  looped, scanned = adapted("pre_norm"), adapted("pre_norm", scan=True)
  params = tiny_t5.random_parameters(looped)
  assert "adapter" in params["decoder"]["layers_1"]
  batch = tiny_t5.random_batch()
  expected = tiny_t5.logits(looped, params, batch)
  found = tiny_t5.logits(scanned, tiny_t5.stack_layers(params), batch)
  assert tiny_t5.largest_difference(found, expected) < 1e-6
