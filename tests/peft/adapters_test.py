"""An adapted model is exactly the model as it was until it is trained."""

import functools

from flax import linen as nn
from flax import traverse_util
import jax
import numpy as np
import pytest

from tests import tiny_t5
from transformer_zoo import config
from transformer_zoo.peft import substitution


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


def layers(connection, method):
  """The encoder's layer, what it was before, and random parameters."""
  model = adapted(connection, method=method)
  layer, base = (
    each.encoder.layer_stack.layer
    for each in (model, substitution.original(model))
  )
  random = np.random.RandomState(0)
  x = random.standard_normal((2, 5, 32)).astype(np.float32)
  init = functools.partial(layer.init, **KEYWORDS)
  shapes = jax.eval_shape(init, jax.random.key(0), x)
  params = jax.tree.map(
    lambda leaf: random.standard_normal(leaf.shape).astype(np.float32),
    nn.meta.unbox(shapes)["params"],
  )
  return layer, base, params, x


KEYWORDS = {
  "mask_B1LM": None,
  "bias_1HLM": None,
  "positions": None,
  "deterministic": True,
}


@pytest.mark.parametrize(
  ("connection", "method", "place"),
  [
    ("pre_norm", "adapters", "adapter"),
    ("post_norm", "adapters", "adapter"),
    ("parallel", "adapters", "adapter"),
    ("pre_norm", "houlsby", "attention/adapter"),
    ("parallel", "parallel_adapters", "mlp/adapter"),
    ("post_norm", "pfeiffer", "adapter"),
  ],
)
def test_an_adapter_that_ends_in_0_adds_exactly_nothing(
  connection, method, place
):
  layer, base, params, x = layers(connection, method)
  flat = traverse_util.flatten_dict(params, sep="/")
  kernel = flat[f"{place}/wo/kernel"]
  assert kernel.shape == (6, 32)
  for name in flat:
    if "adapter/wo/" in name:
      flat[name] = 0 * flat[name]

  def outputs(each):
    # Not compiled: additions that are fused round otherwise.
    tree = traverse_util.unflatten_dict(flat, sep="/")
    return np.asarray(each.apply({"params": tree}, x, **KEYWORDS))

  found = outputs(layer)
  np.testing.assert_array_equal(found, outputs(base))
  flat[f"{place}/wo/kernel"] = kernel
  assert np.all(outputs(layer) != found)


@pytest.mark.parametrize("connection", ["pre_norm", "parallel"])
def test_pfeiffers_reads_the_stream_and_is_added_to_it(connection):
  """Where a norm follows the sum: tests/golden/adapters, by the library."""
  layer, base, params, x = layers(connection, "pfeiffer")
  found = layer.apply({"params": params}, x, **KEYWORDS)
  adapter = params.pop("adapter")
  z = np.asarray(base.apply({"params": params}, x, **KEYWORDS))
  hidden = np.maximum(z @ adapter["wi"]["kernel"] + adapter["wi"]["bias"], 0)
  added = hidden @ adapter["wo"]["kernel"] + adapter["wo"]["bias"]
  np.testing.assert_allclose(found, z + added, rtol=1e-4, atol=1e-3)


@pytest.mark.slow
def test_scanned_and_looped_are_one_model():
  looped, scanned = adapted("pre_norm"), adapted("pre_norm", scan=True)
  params = tiny_t5.random_parameters(looped)
  assert "adapter" in params["decoder"]["layers_1"]
  batch = tiny_t5.random_batch()
  expected = tiny_t5.logits(looped, params, batch)
  found = tiny_t5.logits(scanned, tiny_t5.stack_layers(params), batch)
  assert tiny_t5.largest_difference(found, expected) < 1e-6
