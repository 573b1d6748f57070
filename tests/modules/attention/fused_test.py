"""The fused kernel against the reference, in Pallas' interpreter."""

import contextlib
import dataclasses

from flax import linen as nn
import jax
import jax.extend
from jax.extend import core
import jax.numpy as jnp
import numpy as np
import pytest

from tests import programs
from tests import tiny_models
from tests.modules.attention import by_hand
from transformer_zoo import tracing
from transformer_zoo.errors import UserError
from transformer_zoo.forecast import cost
from transformer_zoo.modules.attention import fused_tpu
from transformer_zoo.modules.attention import masks
from transformer_zoo.modules.attention.attention import Attention
from transformer_zoo.modules.attention.dot_product import dot_product_attention
from transformer_zoo.modules.attention.dot_product import Kernel
from transformer_zoo.modules.attention.dot_product import REFERENCE
from transformer_zoo.modules.attention.fused import FusedAttention
from transformer_zoo.modules.attention.fused_plan import is_kept
from transformer_zoo.modules.attention.threefry import threefry
from transformer_zoo.modules.dropout import Draw
from transformer_zoo.modules.dropout import Dropout
from transformer_zoo.modules.positions import Bias
from transformer_zoo.modules.positions import Positions
from transformer_zoo.modules.positions import whole_bias
from transformer_zoo.objectives import terms
from transformer_zoo.objectives.sequence_to_sequence import SequenceToSequence
from transformer_zoo.training.sharding.partitioning import Partitioning

B = 2
FUSED = FusedAttention(block_q=128, block_k=128, interpreted=True)


def normal(seed, *shape, dtype=np.float32):
  return np.random.RandomState(seed).standard_normal(shape).astype(dtype)


def segments(seed, length, most):
  """Packed examples and padding at the end."""
  ids = np.random.RandomState(seed).randint(1, most + 2, (B, length))
  return np.sort(ids, axis=1) % (most + 1)


def packed(length, memory, **intervals):
  """Rows of three examples, of which the last is in the queries alone."""
  query_ids_BL = segments(0, length, 3)
  key_ids_BM = query_ids_BL if memory == length else segments(1, memory, 2)
  return masks.Mask(
    masks.padding_mask(query_ids_BL > 0, key_ids_BM > 0)
    & masks.segment_mask(query_ids_BL, key_ids_BM),
    masks.ids_of_tokens(query_ids_BL > 0, query_ids_BL, masks.NO_QUERY),
    masks.ids_of_tokens(key_ids_BM > 0, key_ids_BM, masks.NO_KEY),
    **intervals,
  )


def causal(length, memory):
  places_1L = jnp.arange(length)[None]
  return masks.Mask(masks.causal_mask(length), last_BL=places_1L)


def packed_and_causal(length, memory):
  mask = packed(length, memory, last_BL=jnp.arange(length)[None])
  return mask.replace(array_B1LM=mask.array_B1LM & masks.causal_mask(length))


def texts_and_causal(length, memory):
  """Without padding: every query sees a key, also with dropout."""
  texts_BL = np.sort(
    np.random.RandomState(0).randint(1, 4, (B, length)), axis=1
  )
  return masks.Mask(
    masks.segment_mask(texts_BL, texts_BL) & masks.causal_mask(length),
    texts_BL,
    texts_BL,
    last_BL=jnp.arange(length)[None],
  )


def prefix(length, memory):
  prefix_BL = jnp.arange(length)[None] < jnp.array([[length // 3], [7]])
  array_B1LL = masks.causal_mask(length) | masks.prefix_mask(prefix_BL)
  return masks.Mask(array_B1LL, last_BL=masks.ends_of_runs(prefix_BL))


def window(length, memory):
  positions = Positions.of_length(length, bidirectional=True)
  return masks.windowed(packed(length, memory), positions, 20)


def kinds(first, second):
  def unilm(length, memory):
    kinds_B = jnp.array([first, second])
    second_BL = jnp.arange(length)[None] >= jnp.array([[40], [length - 9]])
    first_BL, last_BL = masks.attention_kind_interval(kinds_B, second_BL)
    array_B1LL = masks.attention_kind_mask(kinds_B, second_BL)
    return masks.Mask(array_B1LL, first_BL=first_BL, last_BL=last_BL)

  return unilm


MASKS = {
  "everything": lambda length, memory: None,
  "causal": causal,
  "packed": packed,
  "packed and causal": packed_and_causal,
  "texts and causal": texts_and_causal,
  "prefix": prefix,
  "window": window,
  "UniLM, both ways and in turn": kinds(0, 1),
  "UniLM, left and right": kinds(2, 3),
}


@dataclasses.dataclass(frozen=True)
class Case:
  """An attention of so many queries to so many keys."""

  length: int
  memory: int
  mask: str
  has_bias: bool = False
  heads: int = 2
  groups: int = 2
  width: int = 16
  keep_rate: float | None = None
  dtype: type = np.float32

  def __str__(self):
    return f"{self.mask}, {self.length} to {self.memory}"

  def arrays(self):
    """All that is differentiable, by name."""
    of_keys = B, self.memory, self.groups, self.width
    arrays = {
      "query": normal(0, B, self.length, self.heads, self.width),
      "key": normal(1, *of_keys),
      "value": normal(2, *of_keys),
    }
    arrays = {name: x.astype(self.dtype) for name, x in arrays.items()}
    if self.has_bias:
      arrays["bias"] = normal(4, self.heads, self.length + self.memory - 1)
    return arrays

  def cotangent(self):
    return normal(3, B, self.length, self.heads, self.width)

  def distances_LM(self):
    """The place of every pair among the biases."""
    ahead = np.arange(self.memory) - np.arange(self.length)[:, None]
    return ahead + self.length - 1

  def draw(self):
    shape = B, self.heads, self.length, self.memory
    key = jax.random.key(1)
    return Draw(key, self.keep_rate, shape, jnp.float32, frozenset())


def outputs_and_gradients(kernel, case, again=False):
  """By name the context, its gradients by all arrays, the mask and the draw."""

  def attend(arrays):
    bias = mask = keep = None
    if case.has_bias:
      by_distance_HR = arrays["bias"]
      array_HLM = by_distance_HR[:, case.distances_LM()]
      bias = Bias(array_HLM[None], by_distance_HR[None])
    others = {}
    mask = MASKS[case.mask](case.length, case.memory)
    if mask is not None:
      others["mask"] = mask.array_B1LM
    if case.keep_rate is not None:
      keep = case.draw()
      others["kept"] = kept(keep)
    context = dot_product_attention(
      *(arrays[name] for name in ("query", "key", "value")),
      mask_B1LM=mask,
      bias_1HLM=bias,
      keep_BH1M=keep,
      kernel=kernel,
    )
    others["context"] = context
    return jnp.sum(context * case.cotangent()), others

  if again:
    attend = jax.checkpoint(attend)
  program = jax.jit(jax.grad(attend, has_aux=True))
  gradients, others = jax.device_get(program(case.arrays()))
  return gradients | others


def kept(draw):
  """The weights that the kernel keeps of a draw, bool [B, H, L, M]."""
  rows, heads, queries, keys = np.ogrid[tuple(map(slice, draw.shape))]
  words = jax.lax.bitcast_convert_type(jax.random.key_data(draw.key), jnp.int32)
  pairs = threefry((words[0], words[1]), (rows, heads))
  return is_kept(pairs, (queries, keys), draw.keep_rate)


def by_definition(case, mask=None, kept=None, **_):
  """What a kernel gives with this mask and the weights that it kept."""
  arrays, bias = case.arrays(), None
  if case.has_bias:
    bias = arrays.pop("bias")[:, case.distances_LM()]
  keep = None if kept is None else kept / case.keep_rate
  found = by_hand.attention(
    *arrays.values(), case.cotangent(), mask=mask, bias=bias, keep=keep
  )
  of_scores_HLM = found.pop("scores").sum(axis=0)
  if case.has_bias:
    found["bias"] = np.stack(
      [
        np.trace(of_scores_HLM, ahead, axis1=1, axis2=2)
        for ahead in range(1 - case.length, case.memory)
      ],
      axis=1,
    )
  return found


def assert_is_right(case, found, of_context=1e-5, of_gradients=1e-4):
  """Differences relative to the largest number of each array."""
  for name, y in by_definition(case, **found).items():
    tolerance = of_context if name == "context" else of_gradients
    np.testing.assert_allclose(
      np.asarray(found[name], np.float32),
      y,
      rtol=0,
      atol=tolerance * np.abs(y).max(),
      err_msg=name,
    )


# Each platform has kernels of its own: on both, every kind of interval, a bias
# and dropout, heads that share keys. One query alone and no mask at all are
# slow cases.
CASES = {
  "tpu": [
    Case(150, 150, "window", heads=4, groups=2),
    # A block of each head.
    Case(133, 133, "UniLM, both ways and in turn", width=128, keep_rate=0.75),
  ],
  "gpu": [
    Case(133, 133, "UniLM, left and right"),
    Case(150, 150, "packed and causal", True, heads=4, groups=2),
  ],
}
SLOW_CASES = {
  "tpu": [
    Case(114, 300, "packed"),
    Case(128, 256, "everything"),
    Case(150, 200, "everything", True, groups=1),
    Case(1, 130, "packed", groups=1),
    Case(140, 140, "UniLM, left and right"),
  ],
  "gpu": [
    Case(1, 130, "packed", groups=1),
    Case(128, 256, "everything"),
    Case(150, 200, "everything", True, groups=1),
    Case(140, 140, "window"),
  ],
}


@pytest.mark.parametrize(
  "platform, case",
  [
    pytest.param(platform, case, id=f"{platform}, {case}", marks=marks)
    for marks, table in (((), CASES), (pytest.mark.slow, SLOW_CASES))
    for platform, cases in table.items()
    for case in cases
  ],
)
def test_the_fused_kernel_equals_the_definition(case, platform):
  with tracing.compiling_for(platform):
    found = outputs_and_gradients(FUSED, case)
  assert_is_right(case, found)


@pytest.mark.slow
@pytest.mark.parametrize(
  "case",
  [
    Case(140, 140, "prefix", True, groups=1),
    pytest.param(
      Case(130, 300, "packed", heads=4, groups=2), marks=pytest.mark.slow
    ),
  ],
  ids=str,
)
def test_the_queries_of_long_rows_have_a_kernel_of_their_own(case, monkeypatch):
  monkeypatch.setattr(fused_tpu, "MOST_BYTES_OF_QUERIES", 0)
  assert_is_right(case, outputs_and_gradients(FUSED, case))


@pytest.mark.slow
def test_in_bfloat16_it_is_as_near_to_float32_as_the_reference():
  case = Case(130, 130, "packed", True, groups=1)
  low = dataclasses.replace(case, dtype=jnp.bfloat16)

  def error(kernel):
    found = outputs_and_gradients(kernel, low)
    return {
      name: np.sqrt(np.mean((np.asarray(found[name], np.float32) - y) ** 2))
      for name, y in by_definition(case, **found).items()
    }

  fused, reference = error(FUSED), error(REFERENCE)
  for name, usual in reference.items():
    assert fused[name] <= 1.5 * usual, (name, fused[name], usual)


@pytest.mark.slow
@pytest.mark.parametrize(
  "blocks", [(256, 128), pytest.param((128, 256), marks=pytest.mark.slow)]
)
def test_blocks_of_any_size_give_the_same(blocks):
  case = Case(300, 300, "texts and causal", True, 1, 1, keep_rate=0.5)
  kernel = FusedAttention(*blocks, interpreted=True)
  assert_is_right(case, outputs_and_gradients(kernel, case))


@pytest.mark.slow
def test_dropout_of_gpus_is_drawn_again_where_it_is_computed_again():
  case = Case(150, 150, "causal", True, keep_rate=0.75)
  with tracing.compiling_for("gpu"):
    found = outputs_and_gradients(FUSED, case, again=True)
  assert_is_right(case, found)


def test_no_row_head_query_or_key_has_the_draws_of_the_next():
  case = Case(150, 150, "everything", heads=4, keep_rate=0.75)
  draws = np.asarray(programs.run(kept, case.draw()))
  assert abs(draws.mean() - 0.75) < 0.01
  for axis in range(4):
    one, other = np.split(draws, 2, axis)
    assert 0.6 < (one == other).mean() < 0.65


def variables_of(attention, x_BLD):
  shapes = jax.eval_shape(attention.init, jax.random.key(0), x_BLD)
  return jax.tree.map(lambda x: normal(5, *x.shape), nn.unbox(shapes))


def test_dropout_that_queries_share_is_that_of_the_reference():
  x_BLD = normal(4, 2, 9, 6)
  attention = Attention(num_heads=3, head_dim=2, dropout=Dropout(rate=0.5))
  variables = variables_of(attention, x_BLD)
  found, expected = (
    programs.apply(
      attention.copy(kernel=kernel),
      variables,
      x_BLD,
      deterministic=False,
      rngs={"dropout": jax.random.key(1)},
    )
    for kernel in (FUSED, REFERENCE)
  )
  np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_threefry_is_that_of_jax():
  key = np.array([7, 2**31 + 5], np.uint32)
  counter = np.arange(20, dtype=np.uint32) * 977_777_777
  expected = jax.extend.random.threefry_2x32(key, counter)
  words = key.view(np.int32), counter.view(np.int32).reshape(2, 10)
  found = programs.run(threefry, tuple(words[0]), tuple(words[1]))
  np.testing.assert_array_equal(np.concatenate(found).view(np.uint32), expected)


def test_blocks_that_see_nothing_of_each_other_are_skipped():
  """Nothing of keys that are not numbers reaches queries of another block."""
  ids_BL = np.repeat([1, 2, 3], 128)[None]
  mask = masks.Mask(masks.segment_mask(ids_BL, ids_BL), ids_BL, ids_BL)
  spoilt_1L11 = np.where(ids_BL == 2, np.float32(np.nan), np.float32(1))
  spoilt_1L11 = spoilt_1L11[..., None, None]
  query, key = normal(0, 1, 384, 1, 16), normal(1, 1, 384, 1, 16) * spoilt_1L11

  def attend(query, key):
    context = dot_product_attention(
      query, key, key, mask_B1LM=mask, kernel=FUSED
    )
    return jnp.sum(jnp.where(ids_BL[..., None, None] == 2, 0, context))

  query_gradient, key_gradient = jax.jit(jax.grad(attend, (0, 1)))(query, key)
  sound = ids_BL[0] != 2
  assert np.isfinite(np.asarray(query_gradient)[:, sound]).all()
  assert np.isfinite(np.asarray(key_gradient)[:, sound]).all()


@pytest.mark.slow
@pytest.mark.parametrize(
  "partitions, case",
  [
    (2, Case(140, 140, "packed", groups=1)),
    (4, Case(140, 140, "texts and causal", True, 4, 2, keep_rate=0.5)),
  ],
  ids=str,
)
def test_on_a_mesh_it_equals_the_definition(partitions, case):
  """Rows and heads over eight devices, or whole where they do not divide."""
  layout = Partitioning(num_partitions=partitions)
  with layout.activate(layout.mesh()):
    found = outputs_and_gradients(FUSED, case)
  assert_is_right(case, found)


@dataclasses.dataclass(frozen=True)
class Describing(Kernel):
  """Keeps the masks and biases that it is given."""

  reads_descriptions = True

  def attend(self, query, key, value, mask, bias, keep):
    is_described = isinstance(mask, masks.Mask | None)
    is_described = is_described and isinstance(bias, Bias | None)
    arrays = {"described": is_described}
    if isinstance(mask, masks.Mask):
      arrays |= {"mask": mask.array_B1LM, **mask.description}
    if isinstance(bias, Bias):
      arrays |= {"bias": bias.array_1HLM, "distances": bias.by_distance_1HR}
    # The shapes of arrays alone come out of a program.
    GIVEN.append(
      arrays | {"pairs": jnp.zeros((query.shape[1], key.shape[1], 0))}
    )
    return REFERENCE.attend(
      query, key, value, masks.whole(mask), whole_bias(bias), keep
    )


GIVEN = []


def assert_described(given):
  """Checks that descriptions and arrays say the same."""
  assert given["described"]
  length, memory, _ = given["pairs"].shape
  if "mask" in given:
    seen = np.ones((1, length, memory), bool)
    if "query_ids_BL" in given:
      ids_BL1, ids_BM = given["query_ids_BL"][..., None], given["key_ids_BM"]
      seen = ids_BL1 == ids_BM[:, None]
    if "first_BL" in given:
      seen = seen & (np.arange(memory) >= given["first_BL"][..., None])
    if "last_BL" in given:
      seen = seen & (np.arange(memory) <= given["last_BL"][..., None])
    array = np.broadcast_to(given["mask"][:, 0], seen.shape)
    np.testing.assert_array_equal(seen, array)
  if "bias" in given:
    distances = np.arange(memory) - np.arange(length)[:, None]
    np.testing.assert_array_equal(
      given["distances"][..., distances + length - 1], given["bias"]
    )


# Segments come from packing or from padding alone, intervals from prefixes,
# from causal masks and from windows, biases from tables and from slopes.
@pytest.mark.parametrize(
  "architecture, part, macros, packing",
  [
    ("t5_1_1", None, {}, False),
    ("umt5", None, {}, True),
    ("shared", None, {}, True),
    ("prefix_lm", None, {}, False),
    ("prefix_lm", None, {}, True),
    ("gpt_3", None, {"Windows.sizes": (None, 3)}, True),
    ("lm", "positions/alibi.gin", {}, False),
  ],
)
def test_models_describe_their_masks_and_biases(
  architecture, part, macros, packing, monkeypatch
):
  model, converter = tiny_models.build(
    architecture, *filter(None, [part]), DTYPE="float32", **macros
  )
  if "Windows.sizes" not in macros:  # Each layer has one of its own.
    model = tiny_models.shallow(model)
  batch = tiny_models.lay_out(
    converter, tiny_models.random_examples(), packing=packing
  )
  params = tiny_models.random_parameters(model)
  GIVEN.clear()
  chosen = lambda self, problem: (Describing(), "")  # noqa: E731
  monkeypatch.setattr(
    "transformer_zoo.modules.attention.kernels.AutomaticAttention.choose",
    chosen,
  )

  @jax.jit
  def arrays_of_kernels(params, batch):
    model.apply({"params": params}, batch, method="all_logits")
    return GIVEN

  found = jax.device_get(arrays_of_kernels(params, batch))
  assert found
  for given in found:
    assert_described(given)


def loss_and_gradients(kernel, architecture, **macros):
  """A function of parameters, and the parameters.

  Packed rows of 200 inputs and 136 targets of a model of one layer with
  dropout.
  """
  model, converter = tiny_models.build(
    architecture,
    f"attention/kernels/{kernel}.gin",
    bindings=("FusedAttention.interpreted = True",) * (kernel == "fused"),
    DTYPE="float32",
    DROPOUT_RATE=0.1,
    NUM_HEADS=2,
    NUM_ENCODER_LAYERS=1,
    NUM_DECODER_LAYERS=1,
    **macros,
  )
  batch = converter(
    tiny_models.random_examples(number=24, longest=20),
    np.arange(24) // 12,
    num_rows=2,
    lengths={"inputs": 200, "targets": 136},
    packing=True,
    pad_id=0,
  )

  def loss(params, key):
    found = SequenceToSequence()(model, params, batch, key)
    return terms.loss(found)

  return jax.value_and_grad(loss), tiny_models.random_parameters(model)


def sizes_of_arrays(jaxpr):
  """The shapes of all arrays, but for what kernels hold of them."""
  for equation in jaxpr.eqns:
    yield from (variable.aval.shape for variable in equation.outvars)
    if equation.primitive.name != "pallas_call":
      for body in core.jaxprs_in_params(equation.params):
        yield from sizes_of_arrays(body)


@pytest.mark.slow
@pytest.mark.parametrize(
  "kernel, is_free", [("fused", True), ("reference", False)]
)
def test_no_array_of_a_step_is_of_queries_by_keys(kernel, is_free):
  step, params = loss_and_gradients(kernel, "t5_1_1")
  jaxpr = cost.trace(step, params, jax.random.key(0))
  lengths = {136, 200, 256}
  pairs = [
    shape
    for shape in sizes_of_arrays(jaxpr)
    if sum(size in lengths for size in shape) > 1
  ]
  assert (not pairs) == is_free


@pytest.mark.parametrize(
  "settings, message",
  [
    ({}, "it runs on TPUs and NVIDIA GPUs, and this is a cpu; bind @Auto"),
    ({"block_q": 100}, "block_q is 100; it must be a positive multiple of 128"),
    ({"block_k": 0}, "block_k is 0; it must be a positive multiple of 128"),
  ],
)
def test_settings_that_cannot_serve_are_refused(settings, message):
  query = normal(0, 1, 4, 1, 8)
  with pytest.raises(UserError, match=message):
    kernel = FusedAttention(**settings)
    dot_product_attention(query, query, query, kernel=kernel)


@pytest.mark.parametrize("name", ["mask_B1LM", "bias_1HLM", "keep_BH1M"])
def test_arrays_of_queries_by_keys_are_refused(name):
  query = normal(0, 1, 4, 1, 8)
  with pytest.raises(UserError, match="the model gives arrays of queries by"):
    dot_product_attention(
      query, query, query, kernel=FUSED, **{name: jnp.ones((1, 1, 4, 4))}
    )


@pytest.mark.parametrize(
  "platform, lowering, call, number",
  [
    ("tpu", "tpu", "tpu_custom_call", 2),
    ("gpu", "cuda", "__gpu$xla.gpu.triton", 4),
  ],
)
def test_it_is_lowered_to_kernels(platform, lowering, call, number):
  """For devices that need not be there; Triton compiles on the device."""
  length, ids_BL = 600, jnp.ones((2, 600), jnp.int32)
  arrays = [jax.ShapeDtypeStruct((2, length, 12, 64), jnp.bfloat16)] * 3

  def loss(query, key, value, bias_HR):
    return (
      FusedAttention()
      ._on_device(
        0.9,
        query=query,
        key=key,
        value=value,
        bias_HR=bias_HR,
        draw=jnp.arange(2),
        rows=jnp.arange(2),
        heads=jnp.arange(12),
        query_ids_BL=ids_BL,
        key_ids_BM=ids_BL,
        last_BL=jnp.arange(length)[None],
      )
      .sum()
    )

  with tracing.compiling_for(platform):
    lowered = (
      jax.jit(jax.grad(loss, (0, 1, 2, 3)))
      .trace(*arrays, jnp.ones((12, 2 * length - 1)))
      .lower(lowering_platforms=(lowering,))
    )
  assert lowered.as_text().count(f"@{call}") == number


def number_of_kernels(jaxpr):
  """The calls of kernels in a program, each as often as it is written."""
  return sum(
    equation.primitive.name == "pallas_call"
    or sum(map(number_of_kernels, core.jaxprs_in_params(equation.params)))
    for equation in jaxpr.eqns
  )


@pytest.mark.slow
@pytest.mark.parametrize(
  "remat, kernels, partitions",
  [("minimal", 2, 2), ("minimal", 2, None), ("full", 3, None)],
)
def test_minimal_remat_runs_no_kernel_again(remat, kernels, partitions):
  """An attention has a kernel forward and one backward."""
  step, params = loss_and_gradients("fused", "lm", REMAT=remat)
  layout = Partitioning(num_partitions=partitions or 1)
  mesh = contextlib.nullcontext()
  if partitions is not None:
    mesh = layout.activate(layout.mesh())
  with mesh:
    jaxpr = cost.trace(step, params, jax.random.key(0))
  assert number_of_kernels(jaxpr) == kernels


@pytest.mark.slow
def test_what_is_computed_again_draws_the_same_dropout():
  """That a model computes the kernel again is counted above."""
  attention = Attention(
    num_heads=1,
    head_dim=4,
    kernel=FUSED,
    dropout=Dropout(rate=0.5, broadcast_dims=()),
  )
  x_BLD = normal(0, 2, 140, 6)
  variables = variables_of(attention, x_BLD)

  def apply(variables, x_BLD, key):
    return attention.apply(
      variables, x_BLD, deterministic=False, rngs={"dropout": key}
    )

  def gradient(apply):
    total = lambda *given: jnp.sum(jnp.sin(apply(*given)))  # noqa: E731
    step = jax.jit(jax.value_and_grad(total, (0, 1)))
    return jax.device_get(step(variables, x_BLD, jax.random.key(1)))

  found, expected = gradient(jax.checkpoint(apply)), gradient(apply)
  for x, y in zip(
    jax.tree.leaves(found), jax.tree.leaves(expected), strict=True
  ):
    np.testing.assert_allclose(x, y, rtol=0, atol=1e-5 * np.abs(y).max())


@pytest.mark.slow
def test_a_step_of_a_model_is_that_with_the_reference():
  """Dropout included, with scanned layers computed again, on eight devices."""

  def step(kernel):
    step, params = loss_and_gradients(
      kernel, "lm", SCAN_LAYERS=True, REMAT="minimal"
    )
    return jax.device_get(jax.jit(step)(params, jax.random.key(0)))

  expected = step("reference")
  layout = Partitioning(num_partitions=2)
  with layout.activate(layout.mesh()):
    found = step("fused")
  for x, y in zip(
    jax.tree.leaves(found), jax.tree.leaves(expected), strict=True
  ):
    np.testing.assert_allclose(x, y, rtol=0, atol=1e-4 * np.abs(y).max())
