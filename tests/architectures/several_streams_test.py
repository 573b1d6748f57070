"""Layers that hand on several streams, or values beside one, at first."""

from flax import linen as nn
from flax import traverse_util
import jax
import numpy as np
import pytest

from tests import tiny_models
from transformer_zoo.errors import UserError
from transformer_zoo.training import state

HYPER = "connections/hyper_connections.gin"
STATIC = "connections/hyper_connections_static.gin"
VALUES = "attention/value_residual.gin"
TOGETHER = (
  "Transformer.layer_stack = @hyper_stack()",
  "hyper_stack.stack = @value_residual_stack()",
  "value_residual_stack.stack = @Stack()",
)


def as_without(variables):
  """Parameters by which values are not mixed, and those of other names."""
  flat = traverse_util.flatten_dict(nn.unbox(variables)["params"], sep="/")
  for path, array in flat.items():
    if "/value_residual/" in path:
      flat[path] = np.full_like(array, "/own/" in path)
  others = {
    path: array
    for path, array in flat.items()
    if "_streams/" not in path and "/value_residual/" not in path
  }
  return flat, others


@pytest.mark.parametrize(
  ("architecture", "parts", "bindings"),
  [
    ("lm", (STATIC,), ()),
    pytest.param("t5_1_0", (HYPER,), (), marks=pytest.mark.slow),
    ("lm", (VALUES,), ()),
    ("lm", (VALUES, HYPER), TOGETHER),
  ],
  ids=["static", "dynamic", "values", "together"],
)
def test_they_begin_as_one_stream(architecture, parts, bindings):
  sizes = {"SCAN_LAYERS": True, "NUM_DECODER_LAYERS": 3}
  model, converter = tiny_models.build(
    architecture, *parts, bindings=bindings, **sizes
  )
  plain, _ = tiny_models.build(architecture, **sizes)
  batch = tiny_models.lay_out(
    converter, tiny_models.random_examples(), packing=False
  )
  flat, others = as_without(
    jax.jit(lambda key: model.init(key, batch, method="all_logits"))(
      jax.random.key(0)
    )
  )
  assert flat.keys() != others.keys()
  found, expected = (
    np.asarray(
      tiny_models.forward(each)(
        traverse_util.unflatten_dict(params, sep="/"), batch
      )
    )
    for each, params in ((model, flat), (plain, others))
  )
  np.testing.assert_allclose(
    found, expected, atol=1e-5 * np.abs(expected).max()
  )


@pytest.mark.parametrize("scan", [False, True])
def test_each_sublayer_reads_the_next_stream_at_first(scan):
  model, _ = tiny_models.build(
    "lm", HYPER, SCAN_LAYERS=scan, NUM_DECODER_LAYERS=3
  )
  params = nn.unbox(state.initial_variables(model, jax.random.key(0)))
  layers = params["decoder"]
  if scan:
    layers = {
      f"layers_{i}": jax.tree.map(lambda x: x[i], layers["layers"])  # noqa: B023
      for i in range(3)
    }
  for i in range(3):
    for place, name in enumerate(("self_attention", "mlp")):
      mixes = layers[f"layers_{i}"][f"{name}_streams"]
      read_X = np.arange(4) == (2 * i + place) % 4
      np.testing.assert_array_equal(
        mixes["alpha_bias"], np.column_stack([read_X, np.eye(4)])
      )
      np.testing.assert_array_equal(mixes["beta_bias"], np.ones((4, 1)))


@pytest.mark.parametrize("architecture", ["deberta_v2", "deberta_v3"])
def test_nothing_is_done_between_layers_of_several_streams(architecture):
  model, _ = tiny_models.build(architecture, HYPER)
  with pytest.raises(UserError, match="^hyper_stack does not go with an oper"):
    state.abstract_variables(model)
