"""DeBERTa v3's pre-training: three ways to share a table of embeddings."""

import dataclasses
import functools

from flax import linen as nn
from flax import traverse_util
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import scipy.special

from tests import programs
from tests import tiny_models
from tests.objectives import replaced_tokens_test as electra
from transformer_zoo.errors import UserError
from transformer_zoo.forecast import cost
from transformer_zoo.objectives import replaced_tokens
from transformer_zoo.training import state as state_lib
from transformer_zoo.training import step as step_lib
from transformer_zoo.training.optimizers import schedules
from transformer_zoo.training.optimizers.adam import adamw
from transformer_zoo.training.optimizers.clipped_apart import clipped_apart
from transformer_zoo.training.program import TrainProgram
from transformer_zoo.training.sharding.partitioning import Partitioning

FILES = ["../objectives/deberta_v3.gin"]
OTHERS = {
  "disentangled": [],
  "own": ["generator/own_table.gin"],
  "shared": ["generator/shared_table.gin"],
}
GENERATORS = "generator/token_embedder/embedding"


@functools.cache
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
def test_names_of_tables(sharing):
  own = "" if sharing == "shared" else GENERATORS
  rest = "_difference" if sharing == "disentangled" else ""
  _, params = build(sharing, NUM_ENCODER_LAYERS=1)
  assert tables(params) == {own, "token_embedder/embedding" + rest} - {""}


@pytest.mark.slow
@pytest.mark.parametrize(
  "sharing",
  [
    "disentangled",
    # Without a difference they are read as ELECTRA's are.
    pytest.param("own", marks=pytest.mark.slow),
    pytest.param("shared", marks=pytest.mark.slow),
  ],
)
def test_whose_loss_moves_which_table(sharing):
  model, params = build(sharing, NUM_ENCODER_LAYERS=1)
  _, gradients = electra.learned(model, params, electra.batch_of(model))
  of_generator, of_discriminator = (
    electra.largest(gradients[name]) for name in ("generator", "replaced")
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


@pytest.mark.slow
def test_the_difference_begins_at_zero_and_is_added_scanned_or_looped():
  """At first both read one table; then the discriminator the sum."""
  model, _ = build(NUM_ENCODER_LAYERS=1)

  @jax.jit  # Of the other parameters nothing is compiled.
  def first():
    fresh = state_lib.initial_variables(model, jax.random.key(0))
    return nn.unbox(fresh)["token_embedder"]["embedding_difference"]

  assert not np.asarray(first()).any()
  # Its layers scanned, those of the other looped.
  _, params = build(NUM_ENCODER_LAYERS=1)
  scanned, _ = build(SCAN_LAYERS=True, NUM_ENCODER_LAYERS=1)
  stacked = tiny_models.stack_layers(params)
  stacked["generator"] = tiny_models.stack_layers(params["generator"])
  alone, _ = build("own", NUM_ENCODER_LAYERS=1)
  batch = electra.batch_of(model)
  found, expected = (
    programs.apply(each, {"params": given}, batch, method="hidden")
    for each, given in ((scanned, stacked), (alone, whole_tables(params)))
  )
  jax.tree.map(
    functools.partial(np.testing.assert_allclose, rtol=2e-5, atol=2e-5),
    jax.device_get(found),
    jax.device_get(expected),
  )


@pytest.mark.slow
def test_a_tied_softmax_reads_the_sum():
  bindings = (
    "Heads.parts = {'tokens': @TransformedLogits()}",
    "generator/Heads.parts = {'tokens': @TransformedLogits()}",
  )
  model, params = build(bindings=bindings, NUM_ENCODER_LAYERS=1)
  alone, _ = build("own", bindings=bindings, NUM_ENCODER_LAYERS=1)
  hidden = np.random.RandomState(0).randn(1, 2, 24).astype(np.float32)
  whole = whole_tables(params)
  found, expected = (
    programs.apply(each, {"params": given}, hidden, "tokens", method="logits")
    for each, given in ((model, params), (alone, whole))
  )
  np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_the_generator_is_as_wide_and_half_as_deep():
  model, params = build(NUM_ENCODER_LAYERS=4, NUM_HEADS=3)
  generator, stack = (
    model.generator.encoder.layer_stack,
    model.encoder.layer_stack,
  )
  assert (generator.num_layers, stack.num_layers) == (2, 4)
  layer, other = generator.layer, stack.layer
  assert layer.mlp.d_ff == other.mlp.d_ff
  assert layer.attention.num_heads == other.attention.num_heads
  assert "relative_embedder" in params["generator"]["encoder"]
  assert "mask_decoder" in params["generator"]["encoder"]
  assert params["heads"]["replaced"].keys() == {"norm", "dense", "out"}


def test_the_head_reads_each_vector_with_the_first():
  """norm(h + h_CLS), then a layer with GELU, then the logit."""
  model, params = build(NUM_ENCODER_LAYERS=1)
  hidden = np.random.RandomState(0).randn(2, 5, 24).astype(np.float32)
  found = programs.apply(model, {"params": params}, hidden, method="logits")
  head = params["heads"]["replaced"]
  x = hidden + hidden[:, :1]
  x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-7)
  x = x * head["norm"]["scale"] + head["norm"]["bias"]
  x = x @ head["dense"]["kernel"] + head["dense"]["bias"]
  x = x * scipy.special.ndtr(x)  # GELU
  expected = x @ head["out"]["kernel"] + head["out"]["bias"]
  np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_the_discriminator_reads_the_generator_that_it_is_given():
  """The one after the update by the generator's loss, in the whole objective.

  Its tokens are those of the generator before it.
  """
  model, params = build(NUM_ENCODER_LAYERS=1)
  batch = electra.batch_of(model)
  terms, gradients = electra.learned(model, params, batch)
  rate = 1 / max(terms["generator"].weight, 1)
  later = traverse_util.unflatten_dict(
    {
      name: x - rate * gradients["generator"][name]
      for name, x in traverse_util.flatten_dict(params, sep="/").items()
    },
    sep="/",
  )

  @jax.jit
  def program(params, later):
    objective = dataclasses.replace(electra.OBJECTIVE, generator_first=True)
    terms = objective(
      model,
      params,
      batch,
      electra.KEY,
      updated=lambda gradients: jax.tree.map(
        lambda x, g: x - g, params, gradients
      ),
    )
    made = made_by(model, params, batch, jax.random.split(electra.KEY, 3)[0])
    params = {**params, "generator": later["generator"]}
    return terms, term_of_discriminator(model, params, made)

  found, expected = jax.device_get(program(params, later))
  before = terms["replaced"].total
  np.testing.assert_allclose(found["replaced"].total, expected.total, rtol=1e-5)
  assert abs(expected.total - before) > 1e-3 * before
  np.testing.assert_allclose(
    found["generator"].total, terms["generator"].total, rtol=1e-5
  )


def made_by(model, params, batch, key):
  """The batch with tokens of the generator of these parameters."""
  apply = functools.partial(model.apply, {"params": params})
  logits = apply(
    apply(batch, method="generator_hidden"),
    places_BP=batch["encoder_predicted_places"],
    method="generator_logits",
  )
  return replaced_tokens.replaced(
    {**batch, "encoder_real": batch["encoder_input_tokens"] != model.pad_id},
    replaced_tokens.sampled(key, logits),
  )


def term_of_discriminator(model, params, made):
  apply = functools.partial(model.apply, {"params": params})
  hidden = apply(made, method="hidden")
  return replaced_tokens.ReplacedTokenLoss()(
    lambda head, places: apply(hidden, head, method="logits"), made
  )


@pytest.mark.slow
def test_the_discriminator_reads_the_table_after_its_update():
  """And tokens that were sampled before it; both parts move once."""
  model, params = build(NUM_ENCODER_LAYERS=1)
  batch = electra.batch_of(model)
  rate = schedules.constant(1.0)
  optimizer = clipped_apart(
    rate, optimizer=adamw, parts=("generator/.*",), clip_norm=1.0
  )
  state = state_lib.TrainState(jnp.int32(7), params, optimizer.init(params))

  @functools.partial(jax.jit, static_argnums=0)
  def step(first, state):
    objective = dataclasses.replace(electra.OBJECTIVE, generator_first=first)
    return step_lib.train_step(
      state,
      batch,
      electra.KEY,
      objective=functools.partial(objective, model),
      optimizer=optimizer,
      takes_updates=objective.takes_updates,
    )

  (at_once, sums_at_once), (after, sums) = (
    jax.device_get(step(first, state)) for first in (False, True)
  )
  flops = {
    cost.count(functools.partial(step, first), state).matmul_flops
    for first in (False, True)
  }
  assert len(flops) == 1  # Nothing goes through the generator twice.
  for name in ("loss_sum", "correct_sum", "weight_sum"):
    name = f"generator/{name}"
    np.testing.assert_allclose(sums[name], sums_at_once[name], rtol=1e-5)

  key = jax.random.split(jax.random.fold_in(electra.KEY, 7), 3)[0]

  made = programs.run(made_by, model, params, batch, key)

  @functools.partial(jax.value_and_grad, has_aux=True)
  def loss(params, generator):
    params = {**params, "generator": generator["generator"]}
    term = term_of_discriminator(model, params, made)
    return 50.0 * term.total / term.weight, term.total

  # One program for both generators.
  loss = jax.jit(loss)
  (_, expected), gradients = jax.device_get(loss(params, after.params))
  np.testing.assert_allclose(sums["replaced/loss_sum"], expected, rtol=1e-5)
  (_, before), _ = jax.device_get(loss(params, params))
  np.testing.assert_allclose(
    sums_at_once["replaced/loss_sum"], before, rtol=1e-5
  )
  assert abs(before - expected) > 1e-3 * before
  norm = max(1, electra.norm({**gradients, "generator": {}}))
  moments, moments_at_once = (
    traverse_util.flatten_dict(optax.tree.get(each.opt_state, "mu"), sep="/")
    for each in (after, at_once)
  )
  expected = traverse_util.flatten_dict(gradients, sep="/")
  largest = max(np.abs(x).max() for x in expected.values())
  for name, gradient in expected.items():
    found = moments[name] * 10 * norm
    if name.startswith("generator/"):  # It moves as it does at once.
      assert not gradient.any()
      gradient = moments_at_once[name] * 10 * norm
    np.testing.assert_allclose(
      found, gradient, rtol=1e-3, atol=1e-5 * largest, err_msg=name
    )


@pytest.mark.slow
def test_without_the_generators_table_the_order_does_not_matter():
  model, params = build("own", NUM_ENCODER_LAYERS=1)
  electra.expected_of_the_order(model, params, electra.batch_of(model))


def test_parts_of_a_batch_make_no_update_to_read():
  model, _ = build(NUM_ENCODER_LAYERS=1)
  first = dataclasses.replace(electra.OBJECTIVE, generator_first=True)
  rate, partitioning = schedules.constant(0.1), Partitioning()
  program = TrainProgram(
    model, first, adamw(rate), rate, partitioning, partitioning.mesh(),
    num_microbatches=2,
  )  # fmt: skip
  with pytest.raises(UserError) as caught:
    program.check(64)
  assert str(caught.value) == (
    "NUM_MICROBATCHES=2, but the discriminator reads the generator after its "
    "update by the whole batch; set it to 1, or bind "
    "ReplacedTokens.generator_first = False"
  )


def test_a_generator_without_positions_is_refused():
  with pytest.raises(UserError) as caught:
    tiny_models.build("deberta", electra.HEADS)
  assert str(caught.value) == (
    "generator/Transformer.relative_embedder is None, but the encoder "
    "knows positions by its relative_embedder alone, so the generator "
    "would know none; choose objectives/deberta_v3.gin, which binds both"
  )


def test_a_difference_without_another_table_is_refused():
  model, _ = build(NUM_ENCODER_LAYERS=1)
  with pytest.raises(UserError) as caught:
    model.clone(generator=model.generator.clone(token_embedder=None))
  assert str(caught.value) == (
    "EncoderOnly.token_embedder is @EmbedDifference(), which needs a generator "
    "with embeddings; bind generator/EncoderOnly.token_embedder = @Embed(), as "
    "parts/generator/disentangled_table.gin does"
  )
