"""Disentangled attention: its definition pair by pair, memory, meshes."""

import functools

from flax import linen as nn
import jax
from jax import extend
import jax.numpy as jnp
import numpy as np
import pytest

from tests import tiny_models
from transformer_zoo.errors import UserError
from transformer_zoo.modules.attention.disentangled import DisentangledAttention
from transformer_zoo.modules.convolution import Convolution
from transformer_zoo.modules.dropout import Dropout
from transformer_zoo.modules.linear import Linear
from transformer_zoo.modules.mask_decoder import EnhancedMaskDecoder
from transformer_zoo.modules.positions import Positions
from transformer_zoo.modules.positions.relative_table import logarithmic_buckets
from transformer_zoo.modules.positions.relative_table import RelativeEmbeddings
from transformer_zoo.modules.positions.relative_table import RelativeTable
from transformer_zoo.training import state as state_lib
from transformer_zoo.training.sharding.partitioning import Partitioning

HEADS, WIDTH = 2, 4
LENGTH, FEATURES, BUCKETS = 7, 6, 3


def attention(**options):
  none = Dropout(rate=0.0)
  return DisentangledAttention(
    num_heads=HEADS,
    head_dim=WIDTH,
    dropout=none,
    position_dropout=none,
    **options,
  )


def setting(**options):
  """An attention, its parameters, inputs, a table and the rows of pairs."""
  random = np.random.RandomState(0)
  x_BLD = jnp.asarray(random.randn(2, LENGTH, FEATURES), jnp.float32)
  table_RD = random.randn(2 * BUCKETS, FEATURES)
  before = np.arange(LENGTH)[:, None] - np.arange(LENGTH)
  rows = np.clip(before + BUCKETS, 0, 2 * BUCKETS - 1)
  relative = RelativeTable(
    jnp.asarray(table_RD, jnp.float32), jnp.asarray(rows[None])
  )
  model = attention(**options)
  shapes = jax.eval_shape(
    functools.partial(model.init, relative=relative), jax.random.key(0), x_BLD
  )
  params = jax.tree.map(
    lambda leaf: jnp.asarray(random.randn(*leaf.shape), jnp.float32),
    nn.unbox(shapes["params"]),
  )
  return model, params, x_BLD, relative


@pytest.mark.parametrize("own_projections", [False, True])
@pytest.mark.parametrize("content_to_position", [False, True])
@pytest.mark.parametrize("position_to_content", [False, True])
def test_scores_by_definition(
  own_projections, content_to_position, position_to_content
):
  """Equation 4 of He et al. 2021, with both distances as in their code."""
  own = (
    {"position_key": Linear(), "position_query": Linear()}
    if own_projections
    else {}
  )
  model, params, x_BLD, relative = setting(
    content_to_position=content_to_position,
    position_to_content=position_to_content,
    **own,
  )
  found = model.apply({"params": params}, x_BLD, relative=relative)
  matrices = {
    name: np.asarray(jax.tree.leaves(value)[0], np.float64)
    for name, value in params.items()
  }
  expected = np.zeros(found.shape)
  terms = 1 + content_to_position + position_to_content
  for row, x in enumerate(np.asarray(x_BLD, np.float64)):
    context = []
    for head in range(HEADS):
      part = slice(head * WIDTH, (head + 1) * WIDTH)
      q, k, v = (x @ matrices[n][:, part] for n in ("query", "key", "value"))
      table = np.asarray(relative.table_RD, np.float64)
      of_keys = "position_key" if own_projections else "key"
      of_queries = "position_query" if own_projections else "query"
      scores = np.zeros((LENGTH, LENGTH))
      for i in range(LENGTH):
        for j in range(LENGTH):
          r = table[relative.row_1LM[0, i, j]]
          scores[i, j] = q[i] @ k[j]
          if content_to_position:
            scores[i, j] += q[i] @ (r @ matrices[of_keys][:, part])
          if position_to_content:
            scores[i, j] += k[j] @ (r @ matrices[of_queries][:, part])
      weights = np.exp(scores / np.sqrt(WIDTH * terms))
      context.append(weights / weights.sum(axis=1, keepdims=True) @ v)
    expected[row] = np.concatenate(context, axis=1) @ matrices["out"]
  scale = np.abs(expected).max()
  np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * scale)


def test_no_array_has_a_vector_for_each_pair():
  """Of 64 tokens and 2 * 3 rows nothing is larger than the scores."""
  length, heads, width = 64, 2, 16
  none = Dropout(rate=0.0)
  model = DisentangledAttention(
    num_heads=heads, head_dim=width, dropout=none, position_dropout=none
  )
  x = jax.ShapeDtypeStruct((1, length, 8), jnp.float32)
  relative = RelativeTable(
    jax.ShapeDtypeStruct((6, 8), jnp.float32),
    jax.ShapeDtypeStruct((1, length, length), jnp.int32),
  )
  params = jax.eval_shape(
    functools.partial(model.init), jax.random.key(0), x, relative=relative
  )

  def total(params, x, relative):
    return jnp.sum(model.apply(params, x, relative=relative) ** 2)

  jaxpr = jax.make_jaxpr(jax.grad(total))(params, x, relative)
  assert largest(jaxpr.jaxpr) <= 2 * heads * length * length


def largest(jaxpr) -> int:
  """The most numbers of an array in a program but its inner index vectors."""
  most = 0
  for equation in jaxpr.eqns:
    for inner in extend.core.jaxprs_in_params(equation.params):
      most = max(most, largest(inner))
    for variable in equation.outvars:
      if jnp.issubdtype(variable.aval.dtype, jnp.floating):
        most = max(most, variable.aval.size)
  return most


def test_tensor_parallel_heads_are_those_of_one_device():
  model, _ = tiny_models.build("deberta_v2", VOCAB_SIZE=48)
  params = tiny_models.random_parameters(model)
  tokens = np.random.RandomState(0).randint(3, 48, (4, 9))
  batch = {"encoder_input_tokens": tokens}

  def total(params):
    logits = model.apply({"params": params}, batch, method="all_logits")
    return jnp.mean(jnp.square(logits["tokens"]))

  expected = jax.jit(jax.grad(total))(params)
  layout = Partitioning(num_partitions=2)
  mesh = layout.mesh(jax.devices()[:4])
  shardings = layout.shardings(
    mesh, state_lib.abstract_variables(model), params
  )
  with layout.activate(mesh):
    found = jax.jit(jax.grad(total))(jax.device_put(params, shardings))
  for a, b in zip(
    jax.tree.leaves(found), jax.tree.leaves(expected), strict=True
  ):
    scale = np.abs(b).max() + 1e-9
    np.testing.assert_allclose(a, b, rtol=0, atol=1e-4 * scale)


def test_logarithmic_buckets():
  """Of DeBERTa v2: 256 for distances below 512."""
  buckets = logarithmic_buckets(256, 512)
  assert (buckets[:129] == np.arange(129)).all()
  assert (np.diff(buckets) >= 0).all() and (np.diff(buckets) <= 1).all()
  assert (buckets[511], buckets[512], len(buckets)) == (255, 256, 513)


@pytest.mark.parametrize("max_distance", [None, 9])
def test_rows_are_of_the_distance_alone(max_distance):
  """Far keys share the first and the last row; a moved text has the same."""
  table = RelativeEmbeddings(
    features=4, num_buckets=4, max_distance=max_distance
  )
  params = table.init(jax.random.key(0), Positions.of_length(1))

  def rows(start):
    places = jnp.arange(start, start + 40)[None]
    return np.asarray(table.apply(params, Positions(places, places)).row_1LM[0])

  np.testing.assert_array_equal(rows(0), rows(17))
  assert (np.diag(rows(0)) == 4).all()
  assert (rows(0)[0, -1], rows(0)[-1, 0]) == (0, 7)
  near = np.abs(np.subtract.outer(range(40), range(40))) < 3
  assert set((rows(0) + rows(0).T)[near]) == {8}


CONVOLUTION = (
  "encoder/Stack.convolution=@Convolution()",
  "Convolution.norm=%NORM",
  "Convolution.dropout=@Dropout()",
)


@pytest.mark.parametrize("kernel_size", [1, 3, 5])
def test_a_convolution_sees_its_own_text(kernel_size):
  size = f"Convolution.kernel_size={kernel_size}"
  model, _ = tiny_models.build("deberta_v2", bindings=(*CONVOLUTION, size))
  scanned, _ = tiny_models.build(
    "deberta_v2",
    bindings=(*CONVOLUTION, size),
    SCAN_LAYERS=True,
    REMAT="minimal",
  )
  params = tiny_models.random_parameters(model)
  random = np.random.RandomState(0)
  tokens = random.randint(3, 48, (1, 12))
  segments = np.repeat([1, 2, 0], [4, 6, 2])[None]
  packed = {
    "encoder_input_tokens": np.where(segments > 0, tokens, 0),
    "encoder_segment_ids": segments,
    "encoder_positions": np.concatenate([range(4), range(6), range(2)])[None],
  }
  alone = np.zeros((2, 8), int)
  alone[0, :4], alone[1, :6] = tokens[0, :4], tokens[0, 4:10]

  def logits(model, params, batch):
    apply = functools.partial(model.apply, method="all_logits")
    return np.asarray(jax.jit(apply)({"params": params}, batch)["tokens"])

  together = logits(model, params, packed)[0]
  apart = logits(model, params, {"encoder_input_tokens": alone})
  scale = np.abs(apart).max()
  close = functools.partial(
    np.testing.assert_allclose, rtol=0, atol=1e-5 * scale
  )
  close(together[:4], apart[0, :4])
  close(together[4:10], apart[1, :6])
  stacked = tiny_models.stack_layers(params)
  close(logits(scanned, stacked, packed)[0], together)


def test_absolute_positions_are_seen_by_masked_tokens_alone():
  """A table of positions moves the head of tokens and no other output."""
  model, _ = tiny_models.build("deberta_v2", MAX_POSITIONS=16)
  params = tiny_models.random_parameters(model)
  tokens = np.random.RandomState(0).randint(3, 48, (2, 9))
  batch = {"encoder_input_tokens": tokens}

  def totals(table):
    moved = jax.tree.map(lambda leaf: leaf, params)
    moved["encoder"]["mask_decoder"]["positions"]["pos_embedding"] = table
    hidden = model.apply({"params": moved}, batch, method="hidden")
    logits = model.apply({"params": moved}, hidden, method="logits")
    return jnp.sum(hidden.hidden_BLD**2), jnp.sum(logits**2)

  table = params["encoder"]["mask_decoder"]["positions"]["pos_embedding"]
  of_hidden, of_logits = jax.jacobian(totals)(jnp.asarray(table))
  assert not np.any(of_hidden)
  seen = np.abs(of_logits).max(axis=1) > 0
  np.testing.assert_array_equal(seen, np.arange(16) < 9)


def test_the_mask_decoder_by_hand():
  """Twice the last layer, its queries begun with positions."""
  model, _ = tiny_models.build("deberta_v2", MAX_POSITIONS=16)
  params = tiny_models.random_parameters(model)
  tokens = np.random.RandomState(0).randint(3, 48, (2, 9))
  batch = {"encoder_input_tokens": tokens}
  found = model.apply({"params": params}, batch, method="hidden").masked_BLD
  shorter, _ = tiny_models.build(
    "deberta_v2", NUM_ENCODER_LAYERS=1, MAX_POSITIONS=16
  )
  first = jax.tree.map(lambda leaf: leaf, params)
  del first["encoder"]["layers_1"]
  before = shorter.apply({"params": first}, batch, method="hidden").hidden_BLD
  encoder = model.encoder
  positions = Positions.of_length(9)
  relative = encoder.relative_embedder.clone(parent=None).apply(
    {"params": params["encoder"]["relative_embedder"]}, positions
  )
  positions_LD = params["encoder"]["mask_decoder"]["positions"]["pos_embedding"]
  query = before + positions_LD[None, :9]
  for _ in range(2):
    query = encoder.layer.clone(parent=None).apply(
      {"params": params["encoder"]["layers_1"]},
      query,
      memory_BMD=before,
      relative=relative,
      mask_B1LM=None,
      bias_1HLM=None,
      positions=positions,
      deterministic=True,
    )
  scale = np.abs(query).max()
  np.testing.assert_allclose(found, query, rtol=0, atol=1e-5 * scale)


def test_refusals():
  with pytest.raises(UserError) as caught:
    RelativeEmbeddings(features=4, num_buckets=0)
  assert str(caught.value) == (
    "RelativeEmbeddings.num_buckets is 0; it must be at least 1"
  )
  with pytest.raises(UserError) as caught:
    RelativeEmbeddings(features=4, num_buckets=8, max_distance=5)
  assert str(caught.value) == (
    "RelativeEmbeddings has num_buckets=8 and max_distance=5; half of the "
    "buckets, at least 2, hold single distances, which must be fewer than "
    "max_distance - 1"
  )
  model, params, x_BLD, _ = setting()
  with pytest.raises(UserError, match="the stack has no table of distances"):
    model.apply({"params": params}, x_BLD)
  with pytest.raises(UserError, match="kernel_size is 2; it must be odd"):
    Convolution(kernel_size=2)
  with pytest.raises(UserError, match="repeats is 0; it must be at least 1"):
    EnhancedMaskDecoder(positions=None, repeats=0)
