"""Stages of a pipeline compute what one device does; activations travel."""

import functools

from flax import linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import tiny_models
from transformer_zoo import axes
from transformer_zoo import config
from transformer_zoo.architectures.transformer import Transformer
from transformer_zoo.decoding import generate
from transformer_zoo.errors import UserError
from transformer_zoo.forecast import collectives
from transformer_zoo.modules import pipeline
from transformer_zoo.modules.attention import masks
from transformer_zoo.modules.by_layer import Windows
from transformer_zoo.modules.dropout import Dropout
from transformer_zoo.modules.positions import whole_bias
from transformer_zoo.modules.positions.relative_bias import RelativePositionBias
from transformer_zoo.modules.stack import Stack
from transformer_zoo.objectives import sequence_to_sequence
from transformer_zoo.training.sharding.partitioning import ONE_COPY_PER_DEVICE
from transformer_zoo.training.sharding.partitioning import Partitioning

SIZES = {
  "EMBED_DIM": 16,
  "MLP_DIM": 32,
  "NUM_HEADS": 4,
  "HEAD_DIM": 4,
  "VOCAB_SIZE": 64,
  "SCAN_LAYERS": True,
  "NUM_DECODER_LAYERS": 4,
}
SETTINGS = {
  "t5_1_1": {"NUM_ENCODER_LAYERS": 4},
  # A window belongs to its layer, whichever stage that lies on.
  "gpt_2": {"bindings": ("Windows.sizes=(None, 2)",)},
  "lm": {},
}
ROWS = 8


@functools.cache
def setting(architecture, *parts, **macros):
  model, converter = tiny_models.build(
    architecture, *parts, **{**SIZES, **SETTINGS[architecture], **macros}
  )
  examples = tiny_models.random_examples(ROWS)
  batch = tiny_models.lay_out(converter, examples, packing=False)
  return model, tiny_models.random_parameters(model), batch


@functools.cache
def compiled(architecture, partitioning, count, *parts, **macros):
  """The loss, those of all rows, and the gradient."""
  model, params, batch = setting(architecture, *parts, **macros)
  mesh = partitioning.mesh(jax.devices()[:count])

  def loss(params, batch):
    sums = sequence_to_sequence.example_sums(model, params, batch)
    return sums["loss_sum"].sum(), sums["loss_sum"]

  with partitioning.activate(mesh):
    boxed = jax.eval_shape(
      lambda: model.init(jax.random.key(0), batch, method="hidden")
    )["params"]
    # Those of the head are not asked for by `hidden`.
    shapes = jax.tree.map(lambda x: x, params)
    shardings = partitioning.shardings(mesh, boxed, shapes)
    placed = jax.device_put(params, shardings)
    function = jax.jit(jax.value_and_grad(loss, has_aux=True))
    return jax.device_get(function(placed, batch))


class Reading(nn.Module):
  """The least layer that reads all that is given: rows, and what is whole."""

  @nn.compact
  def __call__(
    self,
    x,
    memory_BLD,
    *,
    mask_B1LM,
    bias_1HLM,
    positions,
    window,
    deterministic,
  ):
    mask_B1LM, _ = masks.within(window, mask_B1LM, positions)
    kernel = self.param("kernel", nn.initializers.ones, 2 * x.shape[-1:])
    seen_B1LM = jnp.where(mask_B1LM, whole_bias(bias_1HLM), 0)
    context_BLD = jnp.einsum("blm,bmd->bld", seen_B1LM[:, 0], x)
    return x + jnp.tanh(context_BLD @ kernel + memory_BLD)


@functools.cache
def of_reading(partitioning, count, remat):
  """The text of a program, and what it gives.

  The gradients by parameters, embeddings and memory, and the output.
  """
  transformer = Transformer(
    Stack(Reading(), num_layers=4, scan=True, remat=remat),
    position_bias=RelativePositionBias(1, bidirectional=True),
    by_layer=(Windows((None, 2)),),
    norm=None,
  )
  random = np.random.RandomState(0)
  normal = lambda *shape: random.randn(*shape).astype(np.float32)  # noqa: E731
  x_BLD, memory_BLD, cotangent = (normal(ROWS, 5, 6) for _ in range(3))
  mask_B1LM = random.rand(ROWS, 1, 5, 5) < 0.7
  shapes = jax.eval_shape(
    functools.partial(transformer.init, mask_B1LM=mask_B1LM),
    *(jax.random.key(0), x_BLD, memory_BLD),
  )
  params = jax.tree.map(lambda leaf: normal(*leaf.shape), nn.unbox(shapes))

  def total(*given):
    y = transformer.apply(*given, mask_B1LM=mask_B1LM)
    return jnp.sum(y * cotangent), y

  mesh = partitioning.mesh(jax.devices()[:count])
  if partitioning.num_stages > 1:
    params["params"]["layers"] = jax.device_put(
      params["params"]["layers"],
      jax.NamedSharding(mesh, jax.P(pipeline.STAGE)),
    )
  with partitioning.activate(mesh):
    gradient = jax.jit(jax.grad(total, (0, 1, 2), has_aux=True))
    made = gradient.lower(params, x_BLD, memory_BLD).compile()
  return made.as_text(), jax.device_get(made(params, x_BLD, memory_BLD))


# Stages of one layer and of two, alone and with rows that lie apart.
@pytest.mark.parametrize(
  "stages, count, remat", [(4, 4, "none"), (2, 8, "minimal")]
)
def test_layers_and_what_they_read_are_those_of_one_device(
  stages, count, remat
):
  _, expected = of_reading(ONE_COPY_PER_DEVICE, 1, "none")
  _, found = of_reading(Partitioning(num_stages=stages), count, remat)
  for a, b in zip(
    jax.tree.leaves(found), jax.tree.leaves(expected), strict=True
  ):
    np.testing.assert_allclose(a, b, rtol=0, atol=2e-5 * np.abs(b).max())


@pytest.mark.slow
@pytest.mark.parametrize(
  "variant",
  [
    ("t5_1_1",),
    ("lm", "attention/value_residual.gin"),
    ("lm", "connections/hyper_connections_static.gin"),
  ],
  ids="-".join,
)
def test_losses_and_gradients_of_a_model_are_those_of_one_device(variant):
  architecture, *parts = variant
  (_, one), expected = compiled(architecture, ONE_COPY_PER_DEVICE, 1, *parts)
  everywhere = Partitioning(num_stages=2, fsdp=2, num_partitions=2)
  (_, other), found = compiled(architecture, everywhere, 8, *parts)
  np.testing.assert_allclose(other, one, rtol=2e-5)
  jax.tree.map(
    lambda a, b: np.testing.assert_allclose(
      a, b, atol=2e-5 * max(1, np.abs(b).max())
    ),
    found,
    expected,
  )


def test_activations_travel_to_neighbours_and_no_layer_does():
  text, _ = of_reading(Partitioning(num_stages=4), 4, "none")
  assert "collective-permute" in text
  assert "all-gather" not in text
  pairs = {
    line.partition("source_target_pairs={")[2].partition("}}")[0]
    for line in text.splitlines()
    if "source_target_pairs=" in line
  }
  forward, backward = "{0,1},{1,2},{2,3", "{1,0},{2,1},{3,2"
  assert pairs <= {forward, backward}, pairs
  assert collectives.read(text, {"stage": 4, "data": 1, "fsdp": 1, "model": 1})


def test_layers_lie_on_their_stages():
  model, _, batch = setting("gpt_2")
  partitioning = Partitioning(num_stages=4)
  mesh = partitioning.mesh(jax.devices()[:4])
  boxed = jax.eval_shape(
    lambda: model.init(jax.random.key(0), batch, method="hidden")
  )["params"]
  shardings = partitioning.shardings(mesh, boxed, setting("gpt_2")[1])
  spec = shardings["decoder"]["layers"]["mlp"]["wo"]["kernel"].spec
  assert spec[0] == "stage"


class AddDropout(nn.Module):
  """Adds 0 or 2 to every feature, 1 where nothing is dropped."""

  @nn.compact
  def __call__(self, x, *, deterministic):
    one = self.param("one", nn.initializers.ones, (1, 1, x.shape[-1]))
    ones = jnp.broadcast_to(one, x.shape)
    return x + Dropout(rate=0.5)(ones, deterministic=deterministic)


def test_layers_and_microbatches_on_stages_draw_dropout_apart():
  features = 64
  layers = Stack(layer=AddDropout(), num_layers=4, scan=True)
  x_BLD = np.zeros((ROWS, 3, features), np.float32)
  params = {"layers": {"one": np.ones((4, 1, 1, features), np.float32)}}
  partitioning = Partitioning(num_stages=2)
  mesh = partitioning.mesh(jax.devices()[:2])

  @functools.partial(jax.jit, static_argnums=1)
  def applied(key, deterministic):
    return layers.apply(
      {"params": params},
      x_BLD,
      deterministic=deterministic,
      rngs={"dropout": key},
    )[0]

  with partitioning.activate(mesh):
    assert pipeline.num_microbatches(ROWS) == ROWS
    first, again, other = (
      np.asarray(applied(jax.random.key(seed), False)) for seed in (0, 0, 1)
    )
    off = np.asarray(applied(jax.random.key(0), True))
  np.testing.assert_array_equal(first, again)
  # Four layers of the same draw would give 0 and 8 alone, two stages of the
  # same draws 0, 4 and 8; a layer left out no 8.
  values, counts = np.unique(first[:, 0], return_counts=True)
  np.testing.assert_array_equal(values, [0, 2, 4, 6, 8])
  binomial = np.array([1, 4, 6, 4, 1]) / 16
  np.testing.assert_allclose(counts / counts.sum(), binomial, atol=0.07)
  # One draw for all tokens of a row; rows, each a microbatch, differ.
  np.testing.assert_array_equal(first, np.repeat(first[:, :1], 3, axis=1))
  rows = first[:, 0]
  for one in range(ROWS):
    assert (rows[one] != other[one, 0]).mean() > 0.5
    for two in range(one):
      assert (rows[one] != rows[two]).mean() > 0.5
  np.testing.assert_array_equal(off, x_BLD + 4)


@pytest.mark.slow
@pytest.mark.parametrize(
  "variant",
  [
    ("gpt_2",),
    ("t5_1_1",),
    ("lm", "attention/value_residual.gin"),
    ("lm", "connections/hyper_connections.gin"),
  ],
  ids="-".join,
)
def test_decoding_keeps_each_cache_on_its_stage(variant):
  model, params, batch = setting(*variant)
  read = batch.get("encoder_input_tokens", batch["decoder_target_tokens"])
  found = []
  for partitioning, count in (
    (ONE_COPY_PER_DEVICE, 1),
    (Partitioning(num_stages=2, num_partitions=2), 8),
  ):
    mesh = partitioning.mesh(jax.devices()[:count])
    with partitioning.activate(mesh):
      decode = jax.jit(
        functools.partial(generate.generate, model, max_length=6)
      )
      found.append(decode(params, read))
  one, other = found
  np.testing.assert_array_equal(one.tokens, other.tokens)
  np.testing.assert_allclose(
    one.log_likelihoods, other.log_likelihoods, rtol=1e-4
  )


@pytest.mark.parametrize(
  ("rows", "expected"), [(32, 8), (8, 8), (6, 6), (5, 5), (7, 7), (1, 1)]
)
def test_numbers_of_microbatches(rows, expected):
  partitioning = Partitioning(num_stages=2)
  with partitioning.activate(partitioning.mesh(jax.devices()[:2])):
    assert axes.num_stages() == 2
    assert pipeline.num_microbatches(rows) == expected


def test_the_shipped_file_names_the_stages():
  files = ["architectures/gpt_2.gin", "sizes/gpt_2_small.gin"]
  files += ["partitioning/pipeline.gin"]
  for stages in (2, 4):
    config.load(
      files, [f"NUM_STAGES={stages}"], root="MODEL", allow_unused=True
    )
    assert config.call("Partitioning") == Partitioning(num_stages=stages)
    assert config.value("MODEL").decoder.transformer.layer_stack.scan


def test_refusals():
  devices = jax.devices()
  with pytest.raises(
    UserError, match="^num_stages=3 does not divide 8 devices; choose one of 1"
  ):
    Partitioning(num_stages=3).mesh(devices)
  with pytest.raises(UserError, match="num_stages is 0; it must be at least 1"):
    Partitioning(num_stages=0)
  with pytest.raises(UserError, match="one array then; set SCAN_LAYERS = True"):
    compiled("gpt_2", Partitioning(num_stages=2), 2, SCAN_LAYERS=False)
  model, _, _ = setting("gpt_2", NUM_DECODER_LAYERS=3)
  partitioning = Partitioning(num_stages=2)
  mesh = partitioning.mesh(devices)
  from transformer_zoo.training import state

  with pytest.raises(UserError, match="^axis 'layers' of .*, of size 3, does"):
    partitioning.check(mesh, state.abstract_variables(model), 8)
