"""Gradients of every part: none is missing, layouts agree, losses fall."""

import functools

from flax import linen as nn
from flax import traverse_util
import jax
import numpy as np
import optax
import pytest

from tests import tiny_models
from tests import tiny_t5
from tests.architectures import parts_test
from transformer_zoo.training import state as state_lib
from transformer_zoo.training.sharding.partitioning import Partitioning

# All that change T5, but dropout, which `dropout_sites_test.py` is about.
PARTS = sorted(
  {
    *parts_test.CHANGING,
    *tiny_models.STACKS,
    *tiny_models.LAYERS,
    *tiny_models.EMBEDDINGS,
    *tiny_models.SHARING,
    *tiny_models.OF_ENCODERS,
  }
  - parts_test.own("t5_1_0")
)
# Whose parameters lie as those of another network do, activation apart.
SAME_LAYOUT = [
  f"feed_forward/{name}.gin"
  for name in (
    *("bilinear", "elu", "gelu", "gelu_exact", "glu", "reglu", "selu"),
    *("sigmoid", "softplus", "squared_relu", "swiglu", "swish"),
  )
]
# Parts in other places of one model, whose gradients are asked together.
TOGETHER = tuple(
  tuple(f"{part}.gin" for part in parts)
  for parts in (
    ("positions/alibi", "connections/complete_p", "softmax/factorized"),
    ("positions/sinusoidal", "softmax/factorized_untied"),
    ("positions/none", "connections/parallel", "softmax/mixture",
     "normalization/annotated"),
    ("positions/rotary", "connections/parallel_norms", "softmax/soft_capped",
     "normalization/layer_norm"),
    ("positions/rotary_interleaved", "connections/post_norm", "softmax/untied",
     "normalization/layer_norm_without_bias"),
    ("positions/shaw", "connections/residual_post_norm",
     "normalization/zero_centred_rms_norm"),
    ("positions/music_transformer", "connections/rezero",
     "feed_forward/mixture_of_experts"),
    ("positions/t5_buckets_per_layer", "connections/rezero_pre_norm",
     "feed_forward/switch"),
    ("positions/learned", "connections/sandwich_norm", "feed_forward/geglu"),
  )
)  # fmt: skip
ALONE = [
  (part,)
  for part in PARTS
  if part not in SAME_LAYOUT and not any(part in parts for parts in TOGETHER)
]
FEW = (
  "attention/talking_heads.gin",
  "connections/rezero.gin",
  "feed_forward/switch.gin",
  "softmax/mixture.gin",
)
ONE_LAYER = {"NUM_ENCODER_LAYERS": 1, "NUM_DECODER_LAYERS": 1}
TWO_LAYERS = {"NUM_ENCODER_LAYERS": 2, "NUM_DECODER_LAYERS": 2}
THREE_LAYERS = {"NUM_ENCODER_LAYERS": 3, "NUM_DECODER_LAYERS": 2}
NARROW = {"EMBED_DIM": 8, "MLP_DIM": 12, "NUM_HEADS": 2, "HEAD_DIM": 4}


def sizes_of(part):
  """As many layers as there must be, and a table that two devices share."""
  if part in (*tiny_models.STACKS, *tiny_models.SEVERAL_STREAMS):
    return THREE_LAYERS
  if part == tiny_models.WITH_MEMORY:
    return {**ONE_LAYER, "MEMORY_KEYS": 6}
  return TWO_LAYERS if part in tiny_models.SHARING else ONE_LAYER


def gradient_of(model):
  """Returns (params, batch) -> (the loss, its flat gradient)."""
  loss = functools.partial(tiny_t5.loss_and_sums, model)
  compute = jax.jit(jax.value_and_grad(loss, has_aux=True))

  def gradient(params, batch):
    (value, _), slopes = compute(params, batch)
    return value, traverse_util.flatten_dict(slopes, sep="/")

  return gradient


def assert_close(found, expected):
  """A single number's gradient rounds as the terms of its sum, which cancel.

  So do those of the vectors whose product is one, in differential attention.
  """
  most = max(np.abs(array).max() for array in expected.values())
  for path, array in expected.items():
    is_one = array.size == 1 or "/lambda_" in path
    scale = most if is_one else np.abs(array).max()
    np.testing.assert_allclose(
      found[path], array, rtol=0, atol=1e-4 * scale, err_msg=path
    )


@pytest.mark.slow
@pytest.mark.parametrize("parts", [*ALONE, *TOGETHER], ids="+".join)
def test_every_parameter_learns_with_remat_and_on_four_devices_alike(parts):
  part = parts[0]
  sizes = sizes_of(part)
  model, converter = tiny_models.build("t5_1_0", *parts, **sizes)
  params = tiny_models.random_parameters(model)
  # Of an adaptive softmax there must be targets in every cluster.
  longest = 16 if part.startswith("softmax/adaptive") else 9
  batch = tiny_models.lay_out(
    converter, tiny_models.random_examples(longest=longest), packing=False
  )
  gradient = gradient_of(model)
  before, expected = gradient(params, batch)
  for path, array in expected.items():
    assert np.isfinite(array).all() and np.any(array != 0), path

  # Both in one program: neither may change anything.
  again, _ = tiny_models.build("t5_1_0", *parts, REMAT="full", **sizes)
  layout = Partitioning(num_partitions=2)
  mesh = layout.mesh(jax.devices()[:4])
  shardings = layout.shardings(
    mesh, state_lib.abstract_variables(model), params
  )
  with layout.activate(mesh):
    _, found = gradient_of(again)(jax.device_put(params, shardings), batch)
  assert_close(found, expected)

  # A few steps down the gradient lower the loss.
  slopes = expected
  for _ in range(3):
    length = np.sqrt(sum(np.sum(slope**2) for slope in slopes.values()))
    params = jax.tree.map(
      lambda value, slope, length=length: value - 0.01 * slope / length,
      params,
      traverse_util.unflatten_dict(slopes, sep="/"),
    )
    after, slopes = gradient(params, batch)
  assert after < before


@functools.partial(jax.jit, static_argnums=0)
def losses(model, batch):
  """The loss before each of six steps of Adam from initial values."""
  optimizer = optax.adam(1e-2)
  loss = functools.partial(tiny_t5.loss_and_sums, model)

  def step(carry, _):
    params, state = carry
    (value, _), slopes = jax.value_and_grad(loss, has_aux=True)(params, batch)
    updates, state = optimizer.update(slopes, state)
    return (optax.apply_updates(params, updates), state), value

  params = nn.unbox(model.init(jax.random.key(0), batch, method="all_logits"))
  params = params["params"]
  return jax.lax.scan(step, (params, optimizer.init(params)), length=6)[1]


@pytest.mark.parametrize(
  "part",
  [
    *FEW,
    *(pytest.param(part, marks=pytest.mark.slow) for part in SAME_LAYOUT),
  ],
)
def test_steps_of_adam_lower_the_initial_loss(part):
  model, converter = tiny_models.build("lm", part, **NARROW, **ONE_LAYER)
  batch = tiny_models.lay_out(
    converter, tiny_models.random_examples(), packing=False
  )
  before, *_, after = losses(model, batch)
  assert after < before
