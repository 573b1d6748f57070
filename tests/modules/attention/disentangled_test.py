"""Disentangled attention: its definition pair by pair, memory, meshes."""

import contextlib
import functools
import itertools

from flax import linen as nn
import jax
from jax import extend
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

from tests import programs
from tests import tiny_models
from transformer_zoo import tracing
from transformer_zoo.errors import UserError
from transformer_zoo.modules.attention import masks
from transformer_zoo.modules.attention.disentangled import DisentangledAttention
from transformer_zoo.modules.attention.disentangled import pick_distances
from transformer_zoo.modules.convolutions.convolution import Convolution
from transformer_zoo.modules.dropout import Dropout
from transformer_zoo.modules.linear import Linear
from transformer_zoo.modules.mask_decoder import EnhancedMaskDecoder
from transformer_zoo.modules.mask_decoder import MaskDecoded
from transformer_zoo.modules.positions import Positions
from transformer_zoo.modules.positions.relative_table import logarithmic_buckets
from transformer_zoo.modules.positions.relative_table import RelativeEmbeddings
from transformer_zoo.modules.positions.relative_table import RelativeTable
from transformer_zoo.training import state as state_lib
from transformer_zoo.training.sharding.partitioning import Partitioning

HEADS, WIDTH = 2, 4
LENGTH, FEATURES, BUCKETS = 7, 6, 3
RANDOM = np.random.RandomState(1)


NO_DROPOUT = Dropout(rate=0.0)


def attention(dropout=NO_DROPOUT, **options):
  return DisentangledAttention(
    num_heads=HEADS,
    head_dim=WIDTH,
    dropout=dropout,
    position_dropout=NO_DROPOUT,
    **options,
  )


def setting(batch=2, **options):
  """An attention, its parameters, inputs, a table and the rows of pairs."""
  random = np.random.RandomState(0)
  x_BLD = random.randn(batch, LENGTH, FEATURES).astype(np.float32)
  table_RD = random.randn(2 * BUCKETS, FEATURES)
  before = np.arange(LENGTH)[:, None] - np.arange(LENGTH)
  rows = np.clip(before + BUCKETS, 0, 2 * BUCKETS - 1)
  relative = RelativeTable(table_RD.astype(np.float32), rows[None])
  model = attention(**options)
  shapes = jax.eval_shape(
    functools.partial(model.init, relative=relative), jax.random.key(0), x_BLD
  )
  params = jax.tree.map(
    lambda leaf: random.randn(*leaf.shape).astype(np.float32),
    nn.unbox(shapes["params"]),
  )
  return model, params, x_BLD, relative


def counted(relative):
  """The table with the row of each distance, key minus query."""
  distance_R = np.arange(1 - LENGTH, LENGTH)
  row_1R = np.clip(BUCKETS - distance_R, 0, 2 * BUCKETS - 1)[None]
  return relative.replace(row_1R=row_1R)


# Own projections only say which matrices are read: with one half of all.
@pytest.mark.parametrize(
  "content_to_position, position_to_content, is_counted",
  list(itertools.product([False, True], repeat=3)),
)
def test_scores_by_definition(
  content_to_position, position_to_content, is_counted
):
  """Equation 4 of He et al. 2021, with both distances as in their code."""
  own_projections = content_to_position ^ position_to_content ^ is_counted
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
  if is_counted:
    relative = counted(relative)
  found = programs.apply(model, {"params": params}, x_BLD, relative=relative)
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


@pytest.mark.parametrize("length, memory", [(1, 1), (1, 5), (4, 3), (3, 6)])
def test_entries_of_distances_are_picked_without_an_index(length, memory):
  of_distance = RANDOM.rand(2, HEADS, length, length + memory)
  found = np.asarray(programs.run(pick_distances, of_distance, memory))
  for i in range(length):
    for j in range(memory):
      expected = of_distance[..., i, j - i + length - 1]
      np.testing.assert_allclose(found[..., i, j], expected, rtol=1e-6)


DROPOUTS = {
  "none": Dropout(rate=0.0),
  "of every weight": Dropout(rate=0.5, broadcast_dims=()),
  "shared by queries": Dropout(rate=0.5),
}
PACKED = np.array([[1, 1, 1, 2, 2, 2, 0], [1] * 7, [1, 2, 2, 2, 2, 3, 3]])
ROWS_BL = np.tile(PACKED, (3, 1))[:8]
ALONE = np.asarray(masks.segment_mask(ROWS_BL, ROWS_BL))


def outputs_and_gradients(model, params, x_BLD, relative, **keywords):
  def total(params, x_BLD, table_RD):
    output_BLD = model.apply(
      {"params": params},
      x_BLD,
      relative=relative.replace(table_RD=table_RD),
      deterministic=False,
      rngs={"dropout": jax.random.key(3)},
      **keywords,
    )
    return jnp.sum(jnp.sin(output_BLD)), output_BLD

  gradient = jax.grad(total, argnums=(0, 1, 2), has_aux=True)
  return jax.device_get(jax.jit(gradient)(params, x_BLD, relative.table_RD))


def assert_close(found, expected):
  for a, b in zip(
    jax.tree.leaves(found), jax.tree.leaves(expected), strict=True
  ):
    scale = np.abs(b).max()
    np.testing.assert_allclose(a, b, rtol=0, atol=1e-5 * scale)


BIAS = RANDOM.rand(1, HEADS, LENGTH, LENGTH)


@functools.cache
def few_and_all(dropout, is_counted, scores_bytes=None, partitions=None):
  """Eight rows, all at a time or as few as so many bytes are enough for."""
  model, params, x_BLD, relative = setting(8, dropout=DROPOUTS[dropout])
  if is_counted:
    relative = counted(relative)
  model = model.clone(scores_bytes=scores_bytes)
  mesh = contextlib.nullcontext()
  if partitions:
    layout = Partitioning(num_partitions=partitions)
    mesh = layout.activate(layout.mesh())
  with mesh, tracing.recorded_choices() as choices:
    found = outputs_and_gradients(
      model, params, x_BLD, relative, mask_B1LM=ALONE, bias_1HLM=BIAS
    )
  in_parts = any("a few rows at a time" in sentence for sentence in choices)
  assert in_parts == bool(scores_bytes)
  return found


@pytest.mark.slow
@pytest.mark.parametrize(
  "dropout, rows, is_counted",
  [
    ("none", 2, False),
    ("of every weight", 1, True),
    ("shared by queries", 4, True),
    ("of every weight", 4, False),
  ],
)
def test_a_few_rows_at_a_time_equal_all(dropout, rows, is_counted):
  bytes_ = rows * 4 * HEADS * LENGTH * LENGTH
  assert_close(
    few_and_all(dropout, is_counted, bytes_), few_and_all(dropout, is_counted)
  )


@pytest.mark.slow
@pytest.mark.parametrize(
  "dropout, partitions",
  [
    ("of every weight", 2),
    ("of every weight", 4),
    ("shared by queries", 2),
    pytest.param("shared by queries", 4, marks=pytest.mark.slow),
  ],
)
def test_rows_and_heads_on_a_mesh_equal_those_of_one_device(
  dropout, partitions
):
  """Of two devices each has a head, which draws as both do together."""
  assert_close(
    few_and_all(dropout, True, 1, partitions), few_and_all(dropout, True)
  )


@pytest.mark.slow
def test_rows_in_parts_need_less_memory_than_all():
  """Also where dropout draws a number for every score."""
  x = jax.ShapeDtypeStruct((16, 128, 8), jnp.float32)
  positions = Positions.of_length(128, bidirectional=True)
  table = RelativeEmbeddings(features=8, num_buckets=128)
  embedded = jax.eval_shape(table.init, jax.random.key(0), positions)

  def bytes_of_gradient(scores_bytes):
    dropout = DROPOUTS["of every weight"]
    model = attention(dropout=dropout, scores_bytes=scores_bytes)

    def apply(params, x, relative_params, **keywords):
      relative = table.apply(relative_params, positions)
      return model.apply(params, x, relative=relative, **keywords)

    def init(key, x, relative_params):
      relative = table.apply(relative_params, positions)
      return model.init(key, x, relative=relative)

    def total(*arguments):
      rngs = {"dropout": jax.random.key(0)}
      return jnp.sum(apply(*arguments, deterministic=False, rngs=rngs) ** 2)

    params = jax.eval_shape(init, jax.random.key(0), x, embedded)
    gradient = jax.jit(jax.grad(total, (0, 1, 2)))
    compiled = gradient.lower(*nn.unbox((params, x, embedded))).compile()
    return compiled.memory_analysis().temp_size_in_bytes

  whole = bytes_of_gradient(2**30)
  assert whole > 4 * 16 * HEADS * 128 * 128  # one array of scores
  assert bytes_of_gradient(1) < whole / 5


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


@pytest.mark.slow
def test_tensor_parallel_heads_are_those_of_one_device():
  model, _ = tiny_models.build(
    "deberta_v2", VOCAB_SIZE=48, NUM_ENCODER_LAYERS=1
  )
  params = tiny_models.random_parameters(model)
  tokens = np.random.RandomState(0).randint(3, 48, (4, 9))
  batch = {"encoder_input_tokens": tokens}

  @jax.jit
  def hidden(params):
    both = model.apply({"params": params}, batch, method="hidden")
    return both.masked_BLD

  expected = np.asarray(hidden(params))
  layout = Partitioning(num_partitions=2)
  mesh = layout.mesh(jax.devices()[:4])
  shardings = layout.shardings(
    mesh, state_lib.abstract_variables(model), params
  )
  with layout.activate(mesh):
    found = hidden(jax.device_put(params, shardings))
  scale = np.abs(expected).max()
  np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * scale)


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
  params = programs.init(table, jax.random.key(0), Positions.of_length(1))

  @functools.cache
  def rows(start):
    places = np.arange(start, start + 40)[None]
    relative = programs.apply(table, params, Positions(places, places))
    return np.asarray(relative.row_1LM)[0]

  np.testing.assert_array_equal(rows(0), rows(17))
  assert (np.diag(rows(0)) == 4).all()
  assert (rows(0)[0, -1], rows(0)[-1, 0]) == (0, 7)
  near = np.abs(np.subtract.outer(range(40), range(40))) < 3
  assert set((rows(0) + rows(0).T)[near]) == {8}


CONVOLUTION = (
  "encoder/deberta_transformer.convolution=@Convolution()",
  "Convolution.norm=%NORM",
  "Convolution.dropout=@Dropout()",
)


@pytest.mark.parametrize("kernel_size", [1, 3, 5])
def test_a_convolution_by_definition(kernel_size):
  """Neighbours are read where attention may see them."""
  random = np.random.RandomState(0)
  x_BLD = random.randn(1, 8, 3).astype(np.float32)
  params = {
    "kernel": random.randn(kernel_size * 3, 3).astype(np.float32),
    "bias": random.randn(3).astype(np.float32),
    "norm": {name: np.ones(3, np.float32) for name in ("bias", "scale")},
  }
  mask_B1LM = random.rand(1, 1, 8, 8) < 0.6
  model = Convolution(kernel_size=kernel_size, dropout=NO_DROPOUT)
  found, of_norm = programs.apply(
    model, {"params": params}, x_BLD, mask_B1LM, deterministic=True
  )
  jax.tree.map(np.testing.assert_array_equal, dict(of_norm), params["norm"])
  kernel_PDD = params["kernel"].reshape(kernel_size, 3, 3)
  expected = np.tile(params["bias"], (8, 1))
  for place in range(8):
    for i, matrix in enumerate(kernel_PDD):
      other = place + i - kernel_size // 2
      if 0 <= other < 8 and mask_B1LM[0, 0, place, other]:
        expected[place] += x_BLD[0, other] @ matrix
  expected *= scipy.special.ndtr(expected)
  np.testing.assert_allclose(found[0], expected, rtol=1e-5, atol=1e-5)


# Two texts and padding.
SEGMENTS_BL = np.repeat([1, 2, 0], [4, 6, 2])[None]


@pytest.mark.slow
def test_a_convolution_is_joined_alike_in_any_form():
  """Looped with texts in rows of their own; scanned in one row, with remat."""
  bindings = (*CONVOLUTION, "Convolution.kernel_size=3")
  model, _ = tiny_models.build("deberta_v2", bindings=bindings)
  scanned, _ = tiny_models.build(
    "deberta_v2", bindings=bindings, SCAN_LAYERS=True, REMAT="minimal"
  )
  params = tiny_models.random_parameters(model)
  tokens = np.random.RandomState(0).randint(3, 48, (1, 12))
  packed = {
    "encoder_input_tokens": np.where(SEGMENTS_BL > 0, tokens, 0),
    "encoder_segment_ids": SEGMENTS_BL,
    "encoder_positions": np.concatenate([range(4), range(6), range(2)])[None],
  }
  alone = np.zeros((2, 8), int)
  alone[0, :4], alone[1, :6] = tokens[0, :4], tokens[0, 4:10]

  def masked(model, params, batch):
    both = programs.apply(model, {"params": params}, batch, method="hidden")
    return np.asarray(both.masked_BLD)

  together = masked(scanned, tiny_models.stack_layers(params), packed)[0]
  apart = masked(model, params, {"encoder_input_tokens": alone})
  close = functools.partial(
    np.testing.assert_allclose, rtol=0, atol=1e-5 * np.abs(apart).max()
  )
  close(together[:4], apart[0, :4])
  close(together[4:10], apart[1, :6])


# Two packed texts and padding in a row, one text in the other.
TEXTS_BL = np.array([[1] * 4 + [2] * 4 + [0], [1] * 9])
BATCH = {
  "encoder_input_tokens": np.random.RandomState(0).randint(3, 48, (2, 9))
  * (TEXTS_BL > 0),
  "encoder_segment_ids": TEXTS_BL,
  "encoder_positions": np.array([[0, 1, 2, 3, 0, 1, 2, 3, 0], range(9)]),
}


@functools.cache
def mask_decoding(**macros):
  """A model with a mask decoder, and its parameters."""
  model, _ = tiny_models.build("deberta_v2", MAX_POSITIONS=16, **macros)
  return model, tiny_models.random_parameters(model)


def hidden(model, params, **more):
  return programs.apply(
    model, {"params": params}, BATCH | more, method="hidden"
  )


@pytest.mark.slow
def test_absolute_positions_are_seen_by_masked_tokens_alone():
  """A table of positions moves the head of tokens and no other output."""
  model, params = mask_decoding()
  before = hidden(model, params)
  moved = jax.tree.map(np.copy, params)
  moved["encoder"]["mask_decoder"]["positions"]["pos_embedding"] += 1.0
  after = hidden(model, moved)
  np.testing.assert_array_equal(before.hidden_BLD, after.hidden_BLD)
  changes = np.abs(np.subtract(before.masked_BLD, after.masked_BLD)).max(-1)
  assert changes[TEXTS_BL > 0].min() > 0

  def logits(hidden_BLD, masked_BLD):
    both = MaskDecoded(hidden_BLD, masked_BLD)
    return np.asarray(
      programs.apply(model, {"params": params}, both, method="logits")
    )

  expected = logits(before.hidden_BLD, before.masked_BLD)
  other = logits(after.masked_BLD, before.masked_BLD)
  np.testing.assert_array_equal(other, expected)
  assert np.ptp(logits(before.hidden_BLD, after.masked_BLD) - expected) > 0


@pytest.mark.slow
def test_the_mask_decoder_by_hand():
  """Twice the last layer, its queries begun with positions."""
  model, params = mask_decoding()
  found = hidden(model, params).masked_BLD
  first = jax.tree.map(lambda leaf: leaf, params)
  del first["encoder"]["layers_1"]
  shorter, _ = mask_decoding(NUM_ENCODER_LAYERS=1)
  before = hidden(shorter, first).hidden_BLD
  encoder = model.encoder
  positions = Positions.of_length(9)
  relative = programs.apply(
    encoder.relative_embedder.clone(parent=None),
    {"params": params["encoder"]["relative_embedder"]},
    positions,
  )
  table = params["encoder"]["mask_decoder"]["positions"]["pos_embedding"]
  query = np.asarray(before) + table[BATCH["encoder_positions"]]
  mask_B1LM = masks.segment_mask(TEXTS_BL, TEXTS_BL)
  layer = encoder.layer_stack.layer.clone(parent=None)
  for _ in range(2):
    query = programs.apply(
      layer,
      {"params": params["encoder"]["layers_1"]},
      query,
      memory_BMD=before,
      relative=relative,
      mask_B1LM=mask_B1LM & (TEXTS_BL > 0)[:, None, None],
      bias_1HLM=None,
      positions=positions,
      deterministic=True,
    )
  scale = np.abs(query).max()
  is_text = TEXTS_BL > 0
  np.testing.assert_allclose(
    np.asarray(found)[is_text],
    np.asarray(query)[is_text],
    rtol=0,
    atol=1e-5 * scale,
  )


@pytest.mark.slow
@pytest.mark.parametrize(
  "scan", [False, pytest.param(True, marks=pytest.mark.slow)]
)
def test_the_mask_decoder_of_predicted_places_alone(scan):
  """Its output there is that of all places; else it is 0."""
  model, params = mask_decoding()
  all_BLD = np.asarray(hidden(model, params).masked_BLD)
  places = np.array([[1, 3, 6], [0, 4, 8]])
  if scan:
    model, _ = mask_decoding(SCAN_LAYERS=True)
    params = tiny_models.stack_layers(params)
  masked_BLD = hidden(model, params, encoder_predicted_places=places).masked_BLD
  is_there = np.zeros((2, 9, 1), bool)
  np.put_along_axis(is_there, places[..., None], True, axis=1)
  scale = np.abs(all_BLD).max()
  np.testing.assert_allclose(
    masked_BLD, np.where(is_there, all_BLD, 0), rtol=0, atol=1e-5 * scale
  )


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
