"""The fused kernel against the reference, in Pallas' interpreter."""

import contextlib
import dataclasses

import jax
import jax.extend
from jax.extend import core
import jax.numpy as jnp
import numpy as np
import pytest

from tests import tiny_models
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
from transformer_zoo.modules.positions import score_bias
from transformer_zoo.modules.positions import whole_bias
from transformer_zoo.modules.positions.relative_bias import Alibi
from transformer_zoo.modules.positions.relative_bias import RelativePositionBias
from transformer_zoo.objectives import sequence_to_sequence
from transformer_zoo.objectives import terms
from transformer_zoo.training.sharding.partitioning import Partitioning

B, H, K = 2, 4, 16
FUSED = FusedAttention(block_q=128, block_k=128, interpreted=True)


def normal(seed, *shape, dtype=jnp.float32):
  drawn = np.random.RandomState(seed).standard_normal(shape)
  return jnp.asarray(drawn, dtype)


def segments(seed, length, most):
  """Packed examples and padding at the end."""
  ids = np.random.RandomState(seed).randint(1, most + 2, (B, length))
  return jnp.asarray(np.sort(ids, axis=1) % (most + 1))


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
  "prefix": prefix,
  "window": window,
  "UniLM, both ways and in turn": kinds(0, 1),
  "UniLM, left and right": kinds(2, 3),
}
BIASES = {
  "none": None,
  "both ways": RelativePositionBias(H, bidirectional=True),
  "one way": RelativePositionBias(H, bidirectional=False),
  "alibi": Alibi(H),
}


def outputs_and_gradients(
  kernel, length, memory, mask, bias, groups=H, dtype=jnp.float32, keep=None
):
  """The context and its gradients by all that is differentiable, by name."""
  arrays = {
    "query": normal(0, B, length, H, K, dtype=dtype),
    "key": normal(1, B, memory, groups, K, dtype=dtype),
    "value": normal(2, B, memory, groups, K, dtype=dtype),
    "table": {},
  }
  module, positions = BIASES[bias], Positions.of_length(length)
  if module is not None:
    arrays["table"] = module.init(jax.random.key(0), positions)
  cotangent = normal(3, B, length, H, K)

  def attend(arrays):
    bias_1HLM = None
    if module is not None:
      bias_1HLM = module.apply(arrays["table"], positions, method=score_bias)
    context = dot_product_attention(
      arrays["query"],
      arrays["key"],
      arrays["value"],
      mask_B1LM=MASKS[mask](length, memory),
      bias_1HLM=bias_1HLM,
      keep_BH1M=keep,
      kernel=kernel,
    )
    return jnp.sum(context * cotangent), context

  gradients, context = jax.jit(jax.grad(attend, has_aux=True))(arrays)
  return {"context": context, **gradients}


def assert_close(found, expected, of_context=1e-5, of_gradients=1e-4):
  """Differences relative to the largest number of each array."""
  for name in expected:
    tolerance = of_context if name == "context" else of_gradients
    for x, y in zip(
      jax.tree.leaves(found[name]), jax.tree.leaves(expected[name]), strict=True
    ):
      y = np.asarray(y, np.float32)
      np.testing.assert_allclose(
        np.asarray(x, np.float32),
        y,
        rtol=0,
        atol=tolerance * np.abs(y).max(),
        err_msg=name,
      )


CASES = [
  (150, 200, "everything", "none", H),
  (114, 300, "packed", "none", H),
  (1, 130, "packed", "none", 1),
  (129, 129, "causal", "one way", H),
  (200, 200, "packed", "both ways", 2),
  (257, 257, "packed and causal", "one way", H),
  (140, 140, "prefix", "alibi", 1),
  (150, 150, "window", "both ways", H),
  (133, 133, "UniLM, both ways and in turn", "none", H),
  (133, 133, "UniLM, left and right", "alibi", H),
]


@pytest.mark.parametrize("platform", ["tpu", "gpu"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_fused_kernel_equals_the_reference(case, platform):
  expected = outputs_and_gradients(REFERENCE, *case)
  with tracing.compiling_for(platform):
    assert_close(outputs_and_gradients(FUSED, *case), expected)


@pytest.mark.parametrize("case", [CASES[1], CASES[4]], ids=str)
def test_the_queries_of_long_rows_have_a_kernel_of_their_own(case, monkeypatch):
  monkeypatch.setattr(fused_tpu, "MOST_BYTES_OF_QUERIES", 0)
  assert_close(
    outputs_and_gradients(FUSED, *case), outputs_and_gradients(REFERENCE, *case)
  )


@pytest.mark.parametrize("case", [CASES[4], CASES[5]], ids=str)
def test_in_bfloat16_it_is_as_near_to_float32_as_the_reference(case):
  expected = outputs_and_gradients(REFERENCE, *case)

  def error(kernel):
    found = outputs_and_gradients(kernel, *case, dtype=jnp.bfloat16)
    return {
      name: max(
        np.sqrt(np.mean((np.asarray(x, np.float32) - y) ** 2))
        for x, y in zip(
          jax.tree.leaves(found[name]),
          jax.tree.leaves(expected[name]),
          strict=True,
        )
      )
      for name in expected
      if jax.tree.leaves(expected[name])
    }

  fused, reference = error(FUSED), error(REFERENCE)
  for name, usual in reference.items():
    assert fused[name] <= 1.5 * usual, (name, fused[name], usual)


@pytest.mark.parametrize(
  "blocks", [(128, 256, 4), (256, 128, 2), (384, 384, 1)]
)
def test_blocks_of_any_size_give_the_same(blocks):
  kernel = FusedAttention(*blocks, interpreted=True)
  case = (300, 300, "packed and causal", "one way")
  draw = Draw(
    jax.random.key(1), 0.5, (B, H, 300, 300), jnp.float32, frozenset()
  )
  assert_close(
    outputs_and_gradients(kernel, *case, keep=draw),
    outputs_and_gradients(FUSED, *case, keep=draw),
  )


@pytest.mark.parametrize("platform", ["tpu", "gpu"])
def test_dropout_is_that_of_the_reference_with_the_same_draw(platform):
  length, rate = 150, 0.75
  shape = (B, H, length, length)
  draw = Draw(jax.random.key(1), rate, shape, jnp.float32, frozenset())
  words = jax.lax.bitcast_convert_type(jax.random.key_data(draw.key), jnp.int32)
  rows, heads, queries, keys = jnp.ogrid[:B, :H, :length, :length]
  pairs = threefry((words[0], words[1]), (rows, heads))
  kept = is_kept(pairs, (queries, keys), rate)
  case = (length, length, "causal", "one way")
  with tracing.compiling_for(platform):
    found = outputs_and_gradients(FUSED, *case, keep=draw)
  assert_close(found, outputs_and_gradients(REFERENCE, *case, keep=kept / rate))
  assert abs(float(kept.mean()) - rate) < 0.01
  # No row, head, query or key has the draws of the next.
  for axis in range(4):
    one, other = (
      np.split(np.asarray(kept[..., : length // 2 * 2]), 2, axis)
      if (axis == 3)
      else np.split(np.asarray(kept), 2, axis)
    )
    assert 0.6 < (one == other).mean() < 0.65


def test_dropout_that_queries_share_is_that_of_the_reference():
  x_BLD = normal(4, 2, 9, 6)
  attention = Attention(num_heads=3, head_dim=2, dropout=Dropout(rate=0.5))
  variables = attention.init(jax.random.key(0), x_BLD)
  found, expected = (
    attention.copy(kernel=kernel).apply(
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
  words = [jnp.asarray(x.view(np.int32)) for x in (key, counter)]
  found = threefry(tuple(words[0]), tuple(words[1].reshape(2, 10)))
  np.testing.assert_array_equal(np.concatenate(found).view(np.uint32), expected)


def test_blocks_that_see_nothing_of_each_other_are_skipped():
  """Nothing of keys that are not numbers reaches queries of another block."""
  ids_BL = jnp.repeat(jnp.array([1, 2, 3]), 128)[None]
  mask = masks.Mask(masks.segment_mask(ids_BL, ids_BL), ids_BL, ids_BL)
  spoilt_1L11 = jnp.where(ids_BL == 2, jnp.nan, 1.0)[..., None, None]
  query, key = normal(0, 1, 384, H, K), normal(1, 1, 384, H, K) * spoilt_1L11

  def attend(query, key):
    context = dot_product_attention(
      query, key, key, mask_B1LM=mask, kernel=FUSED
    )
    return jnp.sum(jnp.where(ids_BL[..., None, None] == 2, 0, context))

  query_gradient, key_gradient = jax.jit(jax.grad(attend, (0, 1)))(query, key)
  sound = np.asarray(ids_BL[0] != 2)
  assert np.isfinite(np.asarray(query_gradient)[:, sound]).all()
  assert np.isfinite(np.asarray(key_gradient)[:, sound]).all()


@pytest.mark.parametrize("groups, partitions", [(1, 2), (2, 4)])
def test_on_a_mesh_it_equals_the_reference(groups, partitions):
  """Rows and heads over eight devices, or whole where they do not divide."""
  case = (140, 140, "packed and causal", "one way", groups)
  shape = (B, H, 140, 140)
  draw = Draw(jax.random.key(1), 0.5, shape, jnp.float32, frozenset())
  expected = outputs_and_gradients(FUSED, *case, keep=draw)
  layout = Partitioning(num_partitions=partitions)
  with layout.activate(layout.mesh()):
    assert_close(outputs_and_gradients(FUSED, *case, keep=draw), expected)
    assert_close(
      outputs_and_gradients(FUSED, *case),
      outputs_and_gradients(REFERENCE, *case),
    )


@dataclasses.dataclass(frozen=True)
class Describing(Kernel):
  """Checks that descriptions and arrays say the same."""

  reads_descriptions = True

  def attend(self, query, key, value, mask, bias, keep):
    if isinstance(mask, masks.Mask):
      length, memory = query.shape[1], key.shape[1]
      seen = np.ones((1, length, memory), bool)
      given = {n: np.asarray(x) for n, x in mask.description.items()}
      if "query_ids_BL" in given:
        ids_BL1, ids_BM = given["query_ids_BL"][..., None], given["key_ids_BM"]
        seen = ids_BL1 == ids_BM[:, None]
      if "first_BL" in given:
        seen = seen & (np.arange(memory) >= given["first_BL"][..., None])
      if "last_BL" in given:
        seen = seen & (np.arange(memory) <= given["last_BL"][..., None])
      array = np.broadcast_to(mask.array_B1LM[:, 0], seen.shape)
      np.testing.assert_array_equal(seen, array)
    if isinstance(bias, Bias):
      length, memory = query.shape[1], key.shape[1]
      distances = np.arange(memory) - np.arange(length)[:, None]
      np.testing.assert_array_equal(
        bias.by_distance_1HR[..., distances + length - 1], bias.array_1HLM
      )
    described = [isinstance(mask, masks.Mask | None)]
    described += [isinstance(bias, Bias | None)]
    CHECKED.append(all(described))
    return REFERENCE.attend(
      query, key, value, masks.whole(mask), whole_bias(bias), keep
    )


CHECKED = []


@pytest.mark.parametrize("packing", [False, True])
@pytest.mark.parametrize(
  "architecture, part, macros",
  [
    ("t5_1_1", None, {}),
    ("umt5", None, {}),
    ("shared", None, {}),
    ("prefix_lm", None, {}),
    ("gpt_3", None, {"Stack.windows": (None, 3)}),
    ("lm", "positions/alibi.gin", {}),
  ],
)
def test_models_describe_their_masks_and_biases(
  architecture, part, macros, packing, monkeypatch
):
  model, converter = tiny_models.build(
    architecture, *filter(None, [part]), DTYPE="float32", **macros
  )
  batch = tiny_models.lay_out(
    converter, tiny_models.random_examples(), packing=packing
  )
  params = tiny_models.random_parameters(model)
  CHECKED.clear()
  chosen = lambda self, problem: (Describing(), "")  # noqa: E731
  monkeypatch.setattr(
    "transformer_zoo.modules.attention.kernels.AutomaticAttention.choose",
    chosen,
  )
  model.apply({"params": params}, batch, method="all_logits")
  assert CHECKED and all(CHECKED)


def loss_and_gradients(kernel, params=None, **macros):
  """A function of parameters, the parameters, and the shapes it is traced at.

  Packed rows of 200 inputs and 136 targets of a T5 with dropout.
  """
  model, converter = tiny_models.build(
    "t5_1_1",
    f"attention/kernels/{kernel}.gin",
    bindings=("FusedAttention.interpreted = True",) * (kernel == "fused"),
    DTYPE="float32",
    DROPOUT_RATE=0.1,
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
    found = sequence_to_sequence.sequence_to_sequence(model, params, batch, key)
    return terms.loss(found)

  return jax.value_and_grad(loss), tiny_models.random_parameters(model)


def sizes_of_arrays(jaxpr):
  """The shapes of all arrays, but for what kernels hold of them."""
  for equation in jaxpr.eqns:
    yield from (variable.aval.shape for variable in equation.outvars)
    if equation.primitive.name != "pallas_call":
      for body in core.jaxprs_in_params(equation.params):
        yield from sizes_of_arrays(body)


@pytest.mark.parametrize(
  "kernel, is_free", [("fused", True), ("reference", False)]
)
def test_no_array_of_a_step_is_of_queries_by_keys(kernel, is_free):
  step, params = loss_and_gradients(kernel, SCAN_LAYERS=True)
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


@pytest.mark.parametrize("partitions", [None, 2])
@pytest.mark.parametrize(
  "remat, kernels", [("none", 2), ("minimal", 2), ("full", 3)]
)
def test_minimal_remat_runs_no_kernel_again(remat, kernels, partitions):
  """Each of the three attentions has a kernel forward and one backward."""
  step, params = loss_and_gradients("fused", SCAN_LAYERS=True, REMAT=remat)
  layout = Partitioning(num_partitions=partitions or 1)
  mesh = contextlib.nullcontext()
  if partitions is not None:
    mesh = layout.activate(layout.mesh())
  with mesh:
    jaxpr = cost.trace(step, params, jax.random.key(0))
  assert number_of_kernels(jaxpr) == 3 * kernels


def test_what_remat_computes_again_changes_nothing():
  found, expected = (
    jax.jit(step)(params, jax.random.key(0))
    for step, params in (
      loss_and_gradients("fused", SCAN_LAYERS=True, REMAT=remat)
      for remat in ("full", "none")
    )
  )
  for x, y in zip(
    jax.tree.leaves(found), jax.tree.leaves(expected), strict=True
  ):
    np.testing.assert_allclose(x, y, rtol=0, atol=1e-5 * np.abs(y).max())


@pytest.mark.slow
def test_a_model_trains_to_the_same_losses():
  """Twenty steps of plain descent, dropout included, on a mesh of eight."""

  def losses(kernel):
    step, params = loss_and_gradients(kernel, SCAN_LAYERS=True, REMAT="minimal")
    step, found = jax.jit(step), []
    for i in range(20):
      loss, gradients = step(params, jax.random.key(i))
      params = jax.tree.map(lambda x, g: x - 0.2 * g, params, gradients)
      found.append(float(loss))
    return found

  expected = losses("reference")
  layout = Partitioning(num_partitions=2)
  with layout.activate(layout.mesh()):
    np.testing.assert_allclose(losses("fused"), expected, rtol=1e-3)
  assert expected[-1] < 0.9 * expected[0]
