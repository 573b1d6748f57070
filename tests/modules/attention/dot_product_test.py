"""Every kernel of attention against the reference; which is chosen, and why."""

import contextlib

from flax import linen as nn
import jax
from jax.experimental import pallas
import jax.numpy as jnp
import numpy as np
import pytest

from tests import programs
from tests import rule_sets
from tests import tiny_models
from tests.modules.attention import by_hand
from transformer_zoo import axes
from transformer_zoo import config
from transformer_zoo import tracing
from transformer_zoo.errors import UserError
from transformer_zoo.modules.attention import masks
from transformer_zoo.modules.attention.attention import Attention
from transformer_zoo.modules.attention.banded import BandedAttention
from transformer_zoo.modules.attention.chunked import ChunkedAttention
from transformer_zoo.modules.attention.chunked import RowwiseAttention
from transformer_zoo.modules.attention.dot_product import dot_product_attention
from transformer_zoo.modules.attention.dot_product import Problem
from transformer_zoo.modules.attention.dot_product import REFERENCE
from transformer_zoo.modules.attention.fused import FusedAttention
from transformer_zoo.modules.attention.kernels import AutomaticAttention
from transformer_zoo.modules.attention.kernels import CudnnAttention
from transformer_zoo.modules.attention.kernels import SplashAttention
from transformer_zoo.modules.attention.kernels import XlaAttention
from transformer_zoo.modules.dropout import Dropout
from transformer_zoo.modules.positions.relative_vectors import RelativeVectors
from transformer_zoo.training.sharding.partitioning import Partitioning

# Odd lengths, that no chunk and no block divides; more than one block of keys.
B, H, G, L, M, K = 2, 4, 2, 13, 131, 8
RANDOM = np.random.RandomState(0)


def normal(*shape):
  return RANDOM.standard_normal(shape).astype(np.float32)


SEGMENTS_BL = np.array([[1] * 5 + [2] * 8, [1] * 9 + [2] * 2 + [0] * 2])
SEGMENTS_BM = np.sort(RANDOM.randint(1, 3, (B, M)))
MASKS = {
  "everything": None,
  "causal": np.tri(L, M, k=100, dtype=bool)[None, None],
  "packed": np.asarray(masks.segment_mask(SEGMENTS_BL, SEGMENTS_BM)),
  "padding": np.asarray(
    masks.padding_mask(SEGMENTS_BL > 0, np.arange(M)[None] < [[100], [M]])
  ),
  "keys": np.arange(M)[None, None, None]
  < np.array([3, 40])[:, None, None, None],
}
BIASES = {
  "none": None,
  "bias": normal(1, H, L, M),
  "of rows": normal(B, H, L, M),
}
KEPT = {
  "none": None,
  "shared": 2.0 * RANDOM.randint(0, 2, (B, H, 1, M)).astype(np.float32),
  "apart": 2.0 * RANDOM.randint(0, 2, (B, H, L, M)).astype(np.float32),
}


@contextlib.contextmanager
def interpreted():
  """Pallas' kernels as plain JAX; the cache must not keep what is traced."""
  compiled = pallas.pallas_call
  jax.clear_caches()
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(
      pallas,
      "pallas_call",
      lambda *arguments, **settings: compiled(
        *arguments, **{**settings, "interpret": True}
      ),
    )
    patch.setattr(jax, "default_backend", lambda: "tpu")
    yield
  jax.clear_caches()


def outputs_and_gradients(kernel, groups, mask, bias, kept):
  """The context, and its gradients by all that is differentiable."""
  query, cotangent = normal_of(0, B, L, H, K), normal_of(1, B, L, H, K)
  key, value = normal_of(2, B, M, groups, K), normal_of(3, B, M, groups, K)

  def attend(query, key, value, bias):
    context = dot_product_attention(
      query,
      key,
      value,
      mask_B1LM=mask,
      bias_1HLM=bias,
      keep_BH1M=kept,
      kernel=kernel,
    )
    return jnp.sum(context * cotangent), context

  wanted = (0, 1, 2) if bias is None else (0, 1, 2, 3)
  gradient = jax.jit(jax.grad(attend, wanted, has_aux=True))
  gradients, context = gradient(query, key, value, bias)
  return jax.device_get((context, *gradients))


def normal_of(seed, *shape):
  random = np.random.RandomState(seed)
  return random.standard_normal(shape).astype(np.float32)


def assert_is_right(kernel, groups=H, mask=None, bias=None, kept=None):
  case = MASKS[mask or "everything"], BIASES[bias or "none"]
  case = groups, *case, KEPT[kept or "none"]
  found = outputs_and_gradients(kernel, *case)
  for one, other in zip(found, by_definition(*case), strict=True):
    np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-5)


def by_definition(groups, mask, bias, kept):
  """What `outputs_and_gradients` gives of a right kernel."""
  query, cotangent = normal_of(0, B, L, H, K), normal_of(1, B, L, H, K)
  key, value = normal_of(2, B, M, groups, K), normal_of(3, B, M, groups, K)
  found = by_hand.attention(
    query, key, value, cotangent, mask=mask, bias=bias, keep=kept
  )
  *found, of_scores = found.values()
  if bias is None:
    return found
  if len(bias) == 1:
    of_scores = of_scores.sum(axis=0, keepdims=True)
  return [*found, of_scores]


@pytest.mark.parametrize(
  "kernel, cases",
  [
    (REFERENCE, (0, 1, 2, 3)),
    (ChunkedAttention(queries=4), (0, 1, 2, 3)),
    (RowwiseAttention(), (0, 1, 2, 3)),
    (RowwiseAttention(0), (1, 2)),
  ],
  ids=str,
)
def test_attention_equals_its_definition(kernel, cases):
  table = [
    {},
    {"mask": "causal", "bias": "bias", "kept": "shared"},
    {"mask": "packed", "bias": "of rows", "kept": "apart", "groups": G},
    {"mask": "keys", "bias": "bias", "groups": 1},
  ]
  for case in cases:
    assert_is_right(kernel, **table[case])


@pytest.mark.slow
@pytest.mark.parametrize(
  "groups, partitions, case",
  [
    # Neither rows nor heads divide, heads alone, both with keys that do or do
    # not, rows alone.
    (2, 1, {"mask": "packed", "bias": "bias", "kept": "apart"}),
    (4, 2, {"mask": "causal", "bias": "of rows", "kept": "shared"}),
    (1, 4, {"mask": "causal", "bias": "of rows", "kept": "shared"}),
    (2, 4, {"mask": "packed", "bias": "bias", "kept": "apart"}),
    (4, 8, {"mask": "packed", "bias": "bias", "kept": "apart"}),
  ],
)
def test_rowwise_attention_on_a_mesh_equals_its_definition(
  groups, partitions, case
):
  layout = Partitioning(num_partitions=partitions)
  with layout.activate(layout.mesh()):
    assert_is_right(RowwiseAttention(), groups, **case)


@pytest.mark.slow
@pytest.mark.parametrize(
  "kernel, sizes",
  [
    (REFERENCE, {"sequence": 2, "num_partitions": 4}),
    (RowwiseAttention(0), {"sequence": 4, "num_partitions": 2}),
    (RowwiseAttention(), {"sequence": 8}),
    (ChunkedAttention(1), {"sequence": 4, "fsdp": 2}),
  ],
)
def test_queries_on_several_devices_are_those_of_one(kernel, sizes):
  """Packed and causal rows, a bias, and keys that heads share."""
  length, causal = 16, np.tri(16, dtype=bool)[None, None]
  ids_BL = np.repeat([[1, 2, 3, 0], [1, 1, 1, 2]], 4, axis=1)
  mask = causal & np.asarray(masks.segment_mask(ids_BL, ids_BL))
  mask &= np.asarray(masks.padding_mask(ids_BL > 0, ids_BL > 0))
  given = [normal_of(i, B, length, n, K) for i, n in enumerate((H, G, G))]
  given += [normal_of(3, 1, H, length, length), normal_of(4, B, length, H, K)]
  expected = with_gradients(*given, mask, REFERENCE)
  layout = Partitioning(**sizes)
  with layout.activate(layout.mesh()):
    found = with_gradients(*given, mask, kernel)
  for one, other in zip(found, expected, strict=True):
    np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-5)


def with_gradients(query, key, value, bias, cotangent, mask, kernel):
  """The context, and its gradients."""

  def total(query, key, value, bias):
    context = dot_product_attention(
      axes.constrain(query, "batch", "length", "heads", "kv"), key, value,
      mask_B1LM=mask, bias_1HLM=bias, kernel=kernel,
    )  # fmt: skip
    return jnp.sum(context * cotangent), context

  gradient = jax.jit(jax.grad(total, (0, 1, 2, 3), has_aux=True))
  gradients, context = gradient(query, key, value, bias)
  return jax.device_get((context, *gradients))


@pytest.mark.parametrize("rows_of_bytes", [2, 4, 7])
def test_rows_in_groups_of_any_size_equal_the_reference(rows_of_bytes):
  """Groups are of those that divide the batch, here 2, 3 or 6."""
  query, key = normal(6, 5, 2, K), normal(6, 7, 2, K)
  mask = RANDOM.rand(6, 1, 5, 7) < 0.7
  given = query, key, key, mask, normal(1, 2, 5, 7), None
  kernel = RowwiseAttention(group_bytes=rows_of_bytes * 4 * 2 * 5 * 7)
  np.testing.assert_allclose(
    programs.run(type(kernel).attend, kernel, *given),
    programs.run(type(REFERENCE).attend, REFERENCE, *given),
    rtol=1e-5,
    atol=1e-6,
  )


@pytest.mark.parametrize("queries", [1, 13])
def test_chunks_of_any_size_equal_the_definition(queries):
  assert_is_right(ChunkedAttention(queries), bias="bias", mask="causal")


@pytest.mark.parametrize(
  "case",
  [
    {"mask": "causal", "bias": "bias", "groups": 1},
    {"mask": "packed", "bias": "of rows", "groups": G},
  ],
  ids=str,
)
def test_attention_of_jax_equals_its_definition(case):
  assert_is_right(XlaAttention(), **case)


@pytest.mark.slow
@pytest.mark.parametrize(
  "case", [{"groups": 1}, {"mask": "causal", "groups": G}], ids=str
)
def test_splash_attention_equals_its_definition(case):
  with interpreted():
    assert_is_right(SplashAttention(largest_block=128), **case)


@pytest.mark.slow
@pytest.mark.parametrize(
  "groups", [2, *(pytest.param(g, marks=pytest.mark.slow) for g in (1, 4))]
)
def test_splash_attention_on_a_mesh_equals_its_definition(groups):
  """Four ways through the heads, of which two share a key, or none, or all."""
  layout = Partitioning(num_partitions=4)
  with interpreted(), layout.activate(layout.mesh()):
    assert_is_right(SplashAttention(), groups, "packed")


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [RowwiseAttention(), SplashAttention()])
def test_rules_that_share_lengths_out_leave_attention_as_it_is(kernel):
  """Rules of sequence parallelism, and a length that they would divide."""
  query, key = normal_of(0, B, 12, H, K), normal_of(1, B, M, G, K)
  given = query, key, key, MASKS["causal"][:, :, :12], None, None
  layout = rule_sets.build("sequence")
  with interpreted(), layout.activate(layout.mesh()):
    found = jax.jit(kernel.attend)(*given)
  np.testing.assert_allclose(
    found,
    programs.run(type(REFERENCE).attend, REFERENCE, *given),
    rtol=2e-5,
    atol=2e-5,
  )


def test_a_query_that_sees_nothing_stays_finite():
  query, key = (normal(1, n, 1, K).astype(jnp.bfloat16) for n in (3, 5))
  mask = np.zeros((1, 1, 3, 5), bool)
  kernels = REFERENCE, ChunkedAttention(2), RowwiseAttention(), XlaAttention()
  for kernel in kernels:
    attend = type(kernel).attend
    context = programs.run(attend, kernel, query, key, key, mask, None, None)
    assert np.isfinite(np.asarray(context, np.float32)).all()
  with interpreted():
    attend = jax.jit(
      lambda *given: SplashAttention().attend(*given, None, None)
    )
    context = attend(query, key, key, mask)
    assert np.isfinite(np.asarray(context, np.float32)).all()


@pytest.mark.parametrize(
  "kernel", [ChunkedAttention(queries=2), RowwiseAttention()]
)
def test_every_kernel_draws_the_same_dropout(kernel):
  x = normal(2, 9, 6)
  attention = Attention(
    num_heads=3, head_dim=2, dropout=Dropout(rate=0.5), kernel=REFERENCE
  )
  shapes = jax.eval_shape(attention.init, jax.random.key(0), x)
  variables = jax.tree.map(lambda leaf: normal(*leaf.shape), nn.unbox(shapes))
  keywords = {"deterministic": False, "rngs": {"dropout": jax.random.key(1)}}
  expected = programs.apply(attention, variables, x, **keywords)
  found = programs.apply(
    attention.copy(kernel=kernel), variables, x, **keywords
  )
  np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
  assert not np.allclose(expected, programs.apply(attention, variables, x))


def test_parts_need_less_memory_than_all_scores():
  def bytes_of_gradient(kernel, rows=2):
    shapes = [jax.ShapeDtypeStruct((rows, 512, 4, K), jnp.float32)] * 3

    def loss(query, key, value):
      return kernel.attend(query, key, value, None, None, None).sum()

    gradient = jax.jit(jax.grad(loss, (0, 1, 2)))
    analysis = gradient.lower(*shapes).compile().memory_analysis()
    return analysis.temp_size_in_bytes

  whole = bytes_of_gradient(REFERENCE)
  assert whole > 4 * 2 * 4 * 512 * 512  # one array of scores
  assert bytes_of_gradient(ChunkedAttention(queries=32)) < whole / 5
  whole = bytes_of_gradient(REFERENCE, rows=16)
  assert bytes_of_gradient(RowwiseAttention(), rows=16) < whole / 5


@pytest.mark.slow
@pytest.mark.parametrize(
  "architecture, kernel, settings",
  [
    ("t5_1_1", "chunked", {"ChunkedAttention.queries": 16}),
    ("gpt_2", "splash", {}),
    ("llama", "rowwise", {}),
  ],
)
def test_models_have_the_same_outputs(architecture, kernel, settings):
  def logits(kernel, **settings):
    model, converter = tiny_models.build(
      architecture,
      f"attention/kernels/{kernel}.gin",
      NUM_DECODER_LAYERS=1,
      NUM_ENCODER_LAYERS=1,
      DROPOUT_RATE=0.0,
      DTYPE="float32",
      **settings,
    )
    batch = tiny_models.lay_out(
      converter, tiny_models.random_examples(), packing=True
    )
    params = tiny_models.random_parameters(model)
    return np.asarray(tiny_models.forward(model)(params, batch))

  expected = logits("reference")
  with interpreted() if kernel == "splash" else contextlib.nullcontext():
    found = logits(kernel, **settings)
  atol = 1e-5 * np.abs(expected).max()
  np.testing.assert_allclose(found, expected, rtol=0, atol=atol)


def test_splash_attention_is_lowered_to_kernels_for_tpus():
  def loss(query, key, mask):
    return SplashAttention().attend(query, key, key, mask, None, None).sum()

  lowered = (
    jax.jit(jax.grad(loss, (0, 1)))
    .trace(normal(B, L, H, K), normal(B, M, G, K), MASKS["packed"])
    .lower(lowering_platforms=("tpu",))
  )
  assert lowered.as_text().count("tpu_custom_call") == 3


def problem(**changes):
  settings = {
    "shape": (8, 12, 1024, 1024),
    "head_dim": 64,
    "dtype": jnp.dtype("bfloat16"),
    "has_bias": False,
    "dropout": False,
  }
  return Problem(**{**settings, **changes})


@pytest.mark.parametrize(
  "backend, changes, kernel, reason",
  [
    ("tpu", {"shape": (8, 6, 512, 512)}, REFERENCE, "48 MB of scores"),
    ("tpu", {}, SplashAttention(), "384 MB of scores"),
    ("tpu", {"described": True}, FusedAttention(), "384 MB of scores"),
    (
      "gpu",
      {"described": True, "window": 128},
      BandedAttention(),
      "each token sees 127 on a side",
    ),
    ("cpu", {"window": 128}, RowwiseAttention(), "384 MB of scores"),
    (
      "tpu",
      {"described": True, "shape": (8, 6, 256, 512)},
      REFERENCE,
      "24 MB of scores",
    ),
    (
      "tpu",
      {"has_bias": True},
      ChunkedAttention(),
      "not SplashAttention: it a",
    ),
    ("gpu", {"has_bias": True}, CudnnAttention(), "384 MB"),
    (
      "gpu",
      {"dropout": True},
      ChunkedAttention(),
      "CudnnAttention: it drops n",
    ),
    ("gpu", {"dtype": jnp.dtype("float32")}, ChunkedAttention(), "not Cudnn"),
    ("cpu", {}, RowwiseAttention(), "384 MB of scores"),
    ("cpu", {"shape": (8, 6, 512, 512)}, RowwiseAttention(), "48 MB of scor"),
    ("cpu", {"shape": (16, 4, 128, 128)}, REFERENCE, "4 MB of scores"),
    ("cpu", {"shape": (32, 4, 128, 128)}, RowwiseAttention(), "8 MB of sc"),
    ("cpu", {"shape": (512, 4, 32, 32)}, RowwiseAttention(), "8 MB of sco"),
    ("cpu", {"shape": (1, 12, 2048, 2048)}, REFERENCE, "192 MB of scores"),
    ("cpu", {"shape": (2, 12, 4096, 4096)}, ChunkedAttention(), "1,536 MB of"),
  ],
)
def test_the_device_and_the_model_choose(
  monkeypatch, backend, changes, kernel, reason
):
  monkeypatch.setattr(jax, "default_backend", lambda: backend)
  chosen, why = AutomaticAttention().choose(problem(**changes))
  assert chosen == kernel
  assert reason in why


@pytest.mark.parametrize(
  "backend, kernel", [("tpu", REFERENCE), ("cpu", RowwiseAttention())]
)
def test_a_mesh_shares_the_scores_out(monkeypatch, backend, kernel):
  layout = Partitioning(num_partitions=4)
  with layout.activate(layout.mesh()):
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    assert AutomaticAttention().choose(problem())[0] == kernel


def test_devices_that_share_lengths_have_kernels_for_them(monkeypatch):
  layout = Partitioning(sequence=4)
  with layout.activate(layout.mesh()):
    monkeypatch.setattr(jax, "default_backend", lambda: "tpu")
    long = {"shape": (8, 12, 8192, 8192), "described": True}
    assert AutomaticAttention().choose(problem(**long))[0] == ChunkedAttention()


def test_a_length_that_devices_do_not_divide_is_refused():
  attention, x = Attention(num_heads=3, head_dim=2), normal(1, 6, 6)
  layout = Partitioning(sequence=4)
  with layout.activate(layout.mesh()):
    params = jax.eval_shape(attention.init, jax.random.key(0), x)
    with pytest.raises(
      UserError, match="a length of 6 does not divide over Pa"
    ):
      jax.eval_shape(attention.apply, params, x)


def test_what_is_chosen_is_told_once_to_who_listens():
  x = normal(1, 4, 6)
  attention = Attention(num_heads=3, head_dim=2)
  with tracing.recorded_choices() as made:
    for _ in range(2):
      jax.eval_shape(attention.init, jax.random.key(0), x)
  assert list(made) == [
    "attention of 4 to 4 tokens: ReferenceAttention(), 0 MB of scores on a "
    "device"
  ]


@pytest.mark.parametrize(
  "kernel, settings, message",
  [
    (SplashAttention(), {}, "it runs on TPUs, and this is a cpu; bind @Auto"),
    (CudnnAttention(), {}, "it runs on NVIDIA GPUs, and this is a cpu"),
    (
      XlaAttention(),
      {"dropout": Dropout(rate=0.1)},
      r"@XlaAttention\(\) cannot serve this model: it drops no attention weig",
    ),
    (BandedAttention(), {}, "it computes blocks of Attention.radius, and the"),
    (
      ChunkedAttention(),
      {"relative_vectors": RelativeVectors(head_dim=2)},
      r"@ChunkedAttention\(\) cannot serve relative vectors; bind @Automatic",
    ),
  ],
)
def test_a_kernel_that_cannot_serve_is_refused(kernel, settings, message):
  with pytest.raises(UserError, match=message):
    attention = Attention(num_heads=3, head_dim=2, kernel=kernel, **settings)
    # As a run does first: shapes alone, nothing compiled, nothing dropped.
    jax.eval_shape(attention.init, jax.random.key(0), normal(1, 4, 6))


@pytest.mark.parametrize(
  "backend, changes, message",
  [
    ("gpu", {"head_dim": 60}, "a multiple of 8 up to 128 dimensions, and"),
    ("gpu", {"dtype": jnp.dtype("float32")}, "in bfloat16 or float16, and"),
    ("tpu", {"has_bias": True}, "it adds no bias to the scores, and the model"),
  ],
)
def test_what_devices_cannot_is_refused(monkeypatch, backend, changes, message):
  monkeypatch.setattr(jax, "default_backend", lambda: backend)
  kernel = {"gpu": CudnnAttention(), "tpu": SplashAttention()}[backend]
  with pytest.raises(UserError, match=message):
    kernel.choose(problem(**changes))


def test_chunks_must_be_positive():
  with pytest.raises(UserError, match="queries is 0; it must be positive"):
    ChunkedAttention(queries=0)


def test_kernels_are_bound_by_name():
  files = ["architectures/t5_1_0.gin", "sizes/tiny.gin"]
  config.load(
    [*files, "parts/attention/kernels/chunked.gin"],
    ["ChunkedAttention.queries = 64"],
    root="MODEL",
  )
  model = config.value("MODEL")
  assert model.encoder.layer_stack.layer.attention.kernel == ChunkedAttention(
    queries=64
  )
