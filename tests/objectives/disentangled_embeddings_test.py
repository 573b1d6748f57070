"""DeBERTa v3's pre-training: three ways to share a table of embeddings."""

import functools

from flax import linen as nn
from flax import traverse_util
import jax
import numpy as np
import pytest

from tests import tiny_models
from tests.objectives import replaced_tokens_test as electra
from transformer_zoo.errors import UserError
from transformer_zoo.training import state as state_lib

FILES = ["../objectives/deberta_v3.gin"]
OTHERS = {
  "disentangled": [],
  "own": ["generator/own_table.gin"],
  "shared": ["generator/shared_table.gin"],
}
GENERATORS = "generator/token_embedder/embedding"


def build(sharing="disentangled", bindings=(), **macros):
  model, _ = tiny_models.build(
    "deberta_v3",
    *FILES,
    *OTHERS[sharing],
    bindings=bindings,
    **{"DROPOUT_RATE": 0.0, "MAX_POSITIONS": 24, **macros},
  )
  return model, tiny_models.random_parameters(model)


def tables(params):
  flat = traverse_util.flatten_dict(params, sep="/")
  return {name for name in flat if "token_embedder" in name}


def whole_tables(params):
  flat = traverse_util.flatten_dict(params, sep="/")
  difference = flat.pop("token_embedder/embedding_difference")
  flat["token_embedder/embedding"] = flat[GENERATORS] + difference
  return traverse_util.unflatten_dict(flat, sep="/")


@pytest.mark.parametrize("sharing", OTHERS)
def test_whose_loss_moves_which_table(sharing):
  model, params = build(sharing)
  batch = electra.batch_of(model)
  of_generator, of_discriminator = (
    electra.gradient_of(name, model, params, batch)
    for name in ("generator", "replaced")
  )
  expected = {
    "disentangled": (
      {GENERATORS},
      {"token_embedder/embedding_difference"},
    ),
    "own": ({GENERATORS}, {"token_embedder/embedding"}),
    "shared": (
      {"token_embedder/embedding"},
      {"token_embedder/embedding"},
    ),
  }[sharing]
  assert tables(params) == expected[0] | expected[1]
  for moved, found in zip(
    expected, (of_generator, of_discriminator), strict=True
  ):
    assert {name for name in tables(params) if found[name] > 0} == moved
  for name in of_generator:
    if "key/bias" in name or "token_embedder" in name:
      continue
    mine = name.startswith("generator/")
    unread = "encoder/mask_decoder" in name and not mine
    assert (of_generator[name] > 0) == mine, name
    assert (of_discriminator[name] > 0) == (not mine and not unread), name


def test_the_difference_begins_at_zero_and_is_added():
  """At first both read one table; then the discriminator the sum."""
  model, params = build()
  fresh = state_lib.initial_variables(model, jax.random.key(0))
  fresh = nn.unbox(fresh)
  assert not fresh["token_embedder"]["embedding_difference"].any()
  alone, _ = build("own")
  batch = electra.batch_of(model)
  whole = whole_tables(params)
  terms, expected = (
    jax.jit(functools.partial(electra.OBJECTIVE, each))(
      given, batch, electra.KEY
    )
    for each, given in ((model, params), (alone, whole))
  )
  for name, term in expected.items():
    np.testing.assert_allclose(terms[name].total, term.total, rtol=2e-5)


def test_a_tied_softmax_reads_the_sum():
  bindings = (
    "Heads.parts = {'tokens': @TransformedLogits()}",
    "generator/Heads.parts = {'tokens': @TransformedLogits()}",
  )
  model, params = build(bindings=bindings)
  alone, _ = build("own", bindings=bindings)
  hidden = np.random.RandomState(0).randn(1, 2, 24).astype(np.float32)
  whole = whole_tables(params)
  found, expected = (
    each.apply({"params": given}, hidden, "tokens", method="logits")
    for each, given in ((model, params), (alone, whole))
  )
  np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_the_generator_is_as_wide_and_half_as_deep():
  model, params = build(NUM_ENCODER_LAYERS=4, NUM_HEADS=3)
  generator = model.generator.encoder
  assert (generator.num_layers, model.encoder.num_layers) == (2, 4)
  layer, other = generator.layer, model.encoder.layer
  assert layer.mlp.d_ff == other.mlp.d_ff
  assert layer.attention.num_heads == other.attention.num_heads
  assert "relative_embedder" in params["generator"]["encoder"]
  assert "mask_decoder" in params["generator"]["encoder"]
  assert params["heads"]["replaced"].keys() == {"norm", "dense", "out"}


def test_the_head_reads_each_vector_with_the_first():
  """norm(h + h_CLS), then a layer with GELU, then the logit."""
  model, params = build()
  hidden = np.random.RandomState(0).randn(2, 5, 24).astype(np.float32)
  found = model.apply({"params": params}, hidden, method="logits")
  head = params["heads"]["replaced"]
  x = hidden + hidden[:, :1]
  x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-7)
  x = x * head["norm"]["scale"] + head["norm"]["bias"]
  x = x @ head["dense"]["kernel"] + head["dense"]["bias"]
  x = np.asarray(jax.nn.gelu(x, approximate=False))
  expected = x @ head["out"]["kernel"] + head["out"]["bias"]
  np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_scan_equals_loop():
  model, params = build()
  scanned, _ = build(SCAN_LAYERS=True)
  stacked = tiny_models.stack_layers(params)
  stacked["generator"] = tiny_models.stack_layers(params["generator"])
  batch = electra.batch_of(model)
  expected = electra.OBJECTIVE(model, params, batch, electra.KEY)
  found = electra.OBJECTIVE(scanned, stacked, batch, electra.KEY)
  for name, term in expected.items():
    np.testing.assert_allclose(found[name].total, term.total, rtol=2e-5)


def test_a_difference_without_another_table_is_refused():
  model, _ = build()
  with pytest.raises(UserError) as caught:
    model.clone(generator=model.generator.clone(token_embedder=None))
  assert str(caught.value) == (
    "EncoderOnly.token_embedder is @EmbedDifference(), which needs a generator "
    "with embeddings; bind generator/EncoderOnly.token_embedder = @Embed(), as "
    "parts/generator/disentangled_table.gin does"
  )
