"""Properties of T5: what may influence what, and ways of computing the same."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import programs
from tests import tiny_models
from tests import tiny_t5
from transformer_zoo.modules.attention.cache import Decoding

ONE_LAYER = {"NUM_ENCODER_LAYERS": 1, "NUM_DECODER_LAYERS": 1}
TWO_LAYERS = {"NUM_ENCODER_LAYERS": 2, "NUM_DECODER_LAYERS": 2}

both_architectures = pytest.mark.parametrize(
  "architecture", tiny_t5.ARCHITECTURES
)


def loss_and_gradient(model, params, batch):
  objective = functools.partial(tiny_t5.loss_and_sums, model)
  return jax.jit(jax.value_and_grad(objective, has_aux=True))(params, batch)


def assert_trees_close(ours, theirs, rtol):
  """Each leaf within rtol of the largest value of that leaf."""
  paths, _ = jax.tree_util.tree_flatten_with_path(theirs)
  for (path, their), our in zip(paths, jax.tree.leaves(ours), strict=True):
    difference = np.abs(np.asarray(our) - np.asarray(their)).max()
    assert difference <= rtol * max(np.abs(their).max(), 1e-3), path


@pytest.mark.slow
def test_no_gradient_flows_from_an_earlier_logit_to_a_later_token():
  model = tiny_t5.build(**ONE_LAYER)
  params = tiny_t5.random_parameters(model)
  batch = tiny_t5.random_batch(rows=1, targets=6)

  def logits(embedded_BLD):
    # Embeddings stand in for the ids, which have no gradient.
    def forward(model):
      encoded = model.encode(batch["encoder_input_tokens"])
      return model.decoder(
        embedded_BLD,
        encoded,
        embedder=model.token_embedder,
        mask_B1LM=jnp.tril(jnp.ones((1, 1, 6, 6), bool)),
        encoder_mask_B1LM=None,
        decoding=None,
        deterministic=True,
      )

    return model.apply({"params": params}, method=forward).sum((0, 2))

  embedded = params["token_embedder"]["embedding"][
    batch["decoder_input_tokens"]
  ]
  jacobian = jax.jit(jax.jacrev(logits))(embedded)[:, 0]
  influence_LL = np.abs(np.asarray(jacobian)).max(-1)
  np.testing.assert_array_equal(influence_LL > 0, np.tri(6, dtype=bool))


def test_a_later_token_does_not_change_earlier_logits():
  model = tiny_t5.build(**ONE_LAYER)
  params = tiny_t5.random_parameters(model)
  batch = tiny_t5.random_batch()
  changed = {k: v.copy() for k, v in batch.items()}
  changed["decoder_input_tokens"][0, 4] += 1
  before = tiny_t5.logits(model, params, batch)
  after = tiny_t5.logits(model, params, changed)
  np.testing.assert_array_equal(before[0, :4], after[0, :4])
  assert (before[0, 4:] != after[0, 4:]).any(-1).all()
  np.testing.assert_array_equal(before[1:], after[1:])


def test_padding_changes_no_logit():
  model = tiny_t5.build(**ONE_LAYER)
  params = tiny_t5.random_parameters(model)
  batch = tiny_t5.random_batch(inputs=12, targets=7)
  wider = {
    name: np.pad(tokens, ((0, 0), (0, 9))) for name, tokens in batch.items()
  }
  short = tiny_t5.logits(model, params, batch)
  long = tiny_t5.logits(model, params, wider)
  real = batch["decoder_target_tokens"] > 0
  assert tiny_t5.largest_difference(long[:, :7][real], short[real]) < 2e-6


def pack(batch, inputs, targets):
  """All rows in one, one after another, as SeqIO packs."""
  packed = {
    "encoder_input_tokens": np.zeros((1, inputs), np.int32),
    "encoder_segment_ids": np.zeros((1, inputs), np.int32),
    "decoder_input_tokens": np.zeros((1, targets), np.int32),
    "decoder_target_tokens": np.zeros((1, targets), np.int32),
    "decoder_segment_ids": np.zeros((1, targets), np.int32),
  }
  used = {"encoder": 0, "decoder": 0}
  rows = batch["encoder_input_tokens"].shape[0]
  for row in range(rows):
    real = {
      "encoder": batch["encoder_input_tokens"][row] > 0,
      "decoder": batch["decoder_target_tokens"][row] > 0,
    }
    for side, mask in real.items():
      where = slice(used[side], used[side] + mask.sum())
      used[side] = where.stop
      packed[f"{side}_segment_ids"][0, where] = row + 1
      for name in batch:
        if name.startswith(side) and name in packed:
          packed[name][0, where] = batch[name][row][mask]
  packed["decoder_loss_weights"] = (packed["decoder_target_tokens"] > 0).astype(
    np.int32
  )
  return packed


@pytest.mark.slow
def test_packed_examples_count_as_they_do_in_rows_of_their_own():
  model = tiny_t5.build(**ONE_LAYER)
  params = tiny_t5.random_parameters(model)
  batch = tiny_t5.random_batch(rows=4)
  packed = pack(batch, inputs=50, targets=30)
  assert packed["decoder_segment_ids"].max() == 4
  (loss, sums), gradient = loss_and_gradient(model, params, batch)
  (packed_loss, packed_sums), packed_gradient = loss_and_gradient(
    model, params, packed
  )
  np.testing.assert_allclose(packed_loss, loss, rtol=1e-6)
  for name, value in sums.items():
    np.testing.assert_allclose(packed_sums[name], value, rtol=1e-6)
  assert_trees_close(packed_gradient, gradient, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
  ("architecture", "remat"), [("t5_1_0", "none"), ("t5_1_1", "minimal")]
)
def test_scan_equals_loop(architecture, remat):
  looped = tiny_t5.build(architecture, **TWO_LAYERS)
  scanned = tiny_t5.build(
    architecture, SCAN_LAYERS=True, REMAT=remat, **TWO_LAYERS
  )
  params = tiny_t5.random_parameters(looped)
  batch = tiny_t5.random_batch()
  (loss, _), gradient = loss_and_gradient(looped, params, batch)
  (scanned_loss, _), scanned_gradient = loss_and_gradient(
    scanned, tiny_t5.stack_layers(params), batch
  )
  np.testing.assert_allclose(scanned_loss, loss, rtol=1e-6)
  assert_trees_close(
    scanned_gradient, tiny_t5.stack_layers(gradient), rtol=1e-5
  )


@pytest.mark.slow
def test_scan_equals_loop_in_bfloat16():
  looped = tiny_t5.build(DTYPE="bfloat16", **TWO_LAYERS)
  scanned = tiny_t5.build(DTYPE="bfloat16", SCAN_LAYERS=True, **TWO_LAYERS)
  params = tiny_t5.random_parameters(looped)
  batch = tiny_t5.random_batch()
  one = tiny_t5.logits(looped, params, batch)
  other = tiny_t5.logits(scanned, tiny_t5.stack_layers(params), batch)
  assert one.dtype == other.dtype == np.float32
  assert tiny_t5.largest_difference(one, other) < 0.03


@pytest.mark.parametrize(
  ("architecture", "scan"),
  [pytest.param("t5_1_0", False, marks=pytest.mark.slow), ("t5_1_1", True)],
)
def test_decoder_with_cache_equals_decoder_without(architecture, scan):
  # Longer than the relative bias's largest distance.
  length = 140
  model = tiny_t5.build(architecture, SCAN_LAYERS=scan, **TWO_LAYERS)
  looped = tiny_t5.build(architecture, **TWO_LAYERS)
  params = tiny_t5.random_parameters(looped)
  if scan:
    params = tiny_t5.stack_layers(params)
  batch = tiny_t5.random_batch(rows=2, targets=length)
  whole = tiny_t5.logits(model, params, batch)
  stepped = with_cache(model, params, batch, length)
  real = batch["decoder_target_tokens"] > 0
  assert tiny_t5.largest_difference(stepped[real], whole[real]) < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize(
  "variant",
  [
    ("umt5",),
    ("llama_encoder_decoder",),
    *(
      pytest.param(each, marks=pytest.mark.slow)
      for each in (
        ("shared",),
        ("transformer_2017",),
        ("t5_1_0", "layers/merged_attention.gin"),
        ("t5_1_0", "positions/alibi.gin"),
        ("t5_1_0", "positions/learned.gin"),
        ("t5_1_0", "positions/music_transformer.gin"),
        ("t5_1_0", "positions/rotary.gin"),
        ("t5_1_0", "positions/shaw.gin"),
      )
    ),
  ],
  ids="-".join,
)
def test_other_decoders_with_cache_equal_those_without(variant):
  model, converter = tiny_models.build(*variant, NUM_DECODER_LAYERS=1)
  params = tiny_models.random_parameters(model)
  batch = tiny_models.lay_out(
    converter, tiny_models.random_examples(), packing=False
  )
  whole = np.asarray(tiny_models.forward(model)(params, batch))
  stepped = with_cache(model, params, batch, whole.shape[1])
  real = batch["decoder_target_tokens"] > 0
  assert tiny_t5.largest_difference(stepped[real], whole[real]) < 1e-5


def with_cache(model, params, batch, length):
  """Logits of the decoder's inputs, fed one after the other [B, L, V]."""
  inputs, variables = batch["encoder_input_tokens"], {"params": params}

  @jax.jit
  def encode(inputs):
    return model.apply(variables, inputs, method=model.encode)

  encoded = encode(inputs)

  @jax.jit
  def step(cache, token, position):
    return model.apply(
      variables if cache is None else {**variables, "cache": cache},
      token,
      encoded,
      inputs,
      Decoding(position=position, length=length),
      method=model.decode_step,
      mutable=["cache"],
    )

  cache, stepped = None, []
  for position in range(length):
    token = batch["decoder_input_tokens"][:, position : position + 1]
    logits, changed = step(cache, token, jnp.asarray(position))
    cache = changed["cache"]
    stepped.append(np.asarray(logits))
  return np.concatenate(stepped, axis=1)


def test_bfloat16_is_near_float32():
  batch = tiny_t5.random_batch()
  exact = tiny_t5.build(**ONE_LAYER)
  params = tiny_t5.random_parameters(exact)
  model = tiny_t5.build(DTYPE="bfloat16", **ONE_LAYER)
  difference = tiny_t5.largest_difference(
    tiny_t5.logits(model, params, batch), tiny_t5.logits(exact, params, batch)
  )
  assert 1e-4 < difference < 0.05


@both_architectures
def test_bfloat16_compute_keeps_float32_parameters(architecture):
  model = tiny_t5.build(architecture, DTYPE="bfloat16")
  params = tiny_t5.shapes(model)
  assert {leaf.dtype for leaf in jax.tree.leaves(params)} == {
    np.dtype("float32")
  }


@pytest.mark.slow
@pytest.mark.parametrize(
  "architecture", [pytest.param("t5_1_0", marks=pytest.mark.slow), "t5_1_1"]
)
def test_initial_loss_is_that_of_knowing_nothing(architecture):
  model = tiny_t5.build(architecture, VOCAB_SIZE=1000, **ONE_LAYER)
  token = np.ones((1, 1), np.int32)
  key = jax.random.key(0)
  params = programs.init(model, key, token, token, token)["params"]
  batch = tiny_t5.random_batch(rows=8, vocab_size=1000)
  objective = jax.jit(functools.partial(tiny_t5.loss_and_sums, model))
  sums = objective(params, batch)[1]
  assert abs(sums["loss_sum"] / sums["weight_sum"] - np.log(1000)) < 1.5


def test_prints_its_tree_before_a_key_exists():
  printed = str(tiny_t5.build())
  for part in (
    "EncoderDecoder(",
    "token_embedder = Embed(",
    "layer = EncoderLayer(",
    "attention = Attention(",
    "encoder_decoder_attention = Attention(",
    "mlp = GatedMlp(",
    "position_bias = RelativePositionBias(",
    "head = LinearLogits(",
    "num_embeddings = 96",
    "d_ff = 48",
  ):
    assert part in printed


@pytest.mark.slow
def test_padding_may_be_another_token():
  """Ids renamed in table and batch, padding with them: nothing changes."""
  model = tiny_t5.build("t5_1_0", **ONE_LAYER)
  params = tiny_t5.random_parameters(model)
  batch = tiny_t5.random_batch()
  vocab_size = tiny_t5.TINY["VOCAB_SIZE"]
  renamed = {
    name: tokens if name.endswith("weights") else (tokens + 5) % vocab_size
    for name, tokens in batch.items()
  }
  table = params["token_embedder"]["embedding"]
  moved = {
    **params, "token_embedder": {"embedding": np.roll(table, 5, axis=0)}
  }  # fmt: skip
  other = model.clone(pad_id=5)
  logits, loss = programs.run(logits_and_loss, model, params, batch)
  found, found_loss = programs.run(logits_and_loss, other, moved, renamed)
  np.testing.assert_allclose(
    found, np.roll(logits, 5, axis=-1), rtol=1e-5, atol=1e-5
  )
  np.testing.assert_allclose(found_loss, loss, rtol=1e-5)


def logits_and_loss(model, params, batch):
  logits = model.apply({"params": params}, batch, method="all_logits")
  return logits["tokens"], tiny_t5.loss_and_sums(model, params, batch)[0]


@pytest.mark.slow
def test_targets_may_have_embeddings_of_their_own():
  """Two tables of the same rows are one; of other rows they are not."""
  model = tiny_t5.build("t5_1_0", **ONE_LAYER)
  params = tiny_t5.random_parameters(model)
  batch = tiny_t5.random_batch()
  shared = tiny_t5.logits(model, params, batch)
  apart = model.clone(target_embedder=model.token_embedder.clone())
  table = params["token_embedder"]["embedding"]
  two = {**params, "target_embedder": {"embedding": table}}
  np.testing.assert_array_equal(tiny_t5.logits(apart, two, batch), shared)
  two["target_embedder"] = {"embedding": np.roll(table, 1, axis=0)}
  moved = {**batch}
  moved["decoder_input_tokens"] = (batch["decoder_input_tokens"] + 1) % len(
    table
  )
  np.testing.assert_allclose(
    np.roll(tiny_t5.logits(apart, two, moved), -1, axis=-1),
    shared,
    rtol=1e-5,
    atol=1e-5,
  )
