"""ELECTRA's objective: what is replaced, who learns of it, and by hand."""

import dataclasses
import functools

from flax import traverse_util
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

from tests import programs
from tests import tiny_models
from transformer_zoo.corruption.ragged import Ragged
from transformer_zoo.data.features import converters
from transformer_zoo.errors import UserError
from transformer_zoo.modules import dropout
from transformer_zoo.objectives import encoder
from transformer_zoo.objectives import replaced_tokens
from transformer_zoo.objectives import terms as terms_lib
from transformer_zoo.training import step as step_lib

KEY = jax.random.key(3)
HEADS = "../heads/replaced_tokens.gin"


def built(architecture="electra", *parts, bindings=(), **macros):
  macros = {"DROPOUT_RATE": 0.0, **macros}
  model, _ = tiny_models.build(
    architecture, HEADS, *parts, bindings=bindings, **macros
  )
  return model


@functools.cache
def build(architecture="electra", *parts, bindings=(), **macros):
  model = built(architecture, *parts, bindings=bindings, **macros)
  return model, tiny_models.random_parameters(model)


def batch_of(model, rows=4, length=12, padded=3):
  """Rows of which about a third of the tokens is predicted, then padding."""
  random = np.random.RandomState(1)
  tokens = random.randint(5, 48, (rows, length)).astype(np.int32)
  tokens[:, length - padded :] = model.pad_id
  weights = (random.rand(rows, length) < 0.35) & (tokens != model.pad_id)
  places = np.argsort(~weights, axis=1, kind="stable")[:, : length * 2 // 3]
  return {
    "encoder_input_tokens": np.where(weights, 4, tokens).astype(np.int32),
    "encoder_target_tokens": tokens,
    "encoder_loss_weights": weights.astype(np.int32),
    "encoder_predicted_places": places.astype(np.int32),
  }


OBJECTIVE = replaced_tokens.ReplacedTokens(
  (replaced_tokens.ReplacedTokenLoss(),)
)


@pytest.mark.parametrize("vocab_size", [1, 2, 5, 9, 23])
def test_samples_are_of_the_softmax(vocab_size):
  """In blocks of 1 to 5, the last of which may lack some."""
  random = np.random.RandomState(0)
  logits = (random.randn(vocab_size) * 1.5).astype(np.float32)
  many = np.broadcast_to(logits, (4, 4000, vocab_size))
  tokens = np.asarray(programs.run(replaced_tokens.sampled, KEY, many))
  share = np.bincount(tokens.ravel(), minlength=vocab_size) / tokens.size
  np.testing.assert_allclose(share, scipy.special.softmax(logits), atol=0.015)
  assert vocab_size == 1 or (tokens[0] != tokens[1]).any()


def test_samples_have_no_gradient():
  logits = np.random.RandomState(0).randn(2, 3, 5).astype(np.float32)

  @jax.jit
  def total(logits):
    return jnp.sum(replaced_tokens.sampled(KEY, logits).astype(jnp.float32))

  assert not np.asarray(jax.grad(total)(logits)).any()


def test_a_sampled_token_that_is_the_original_counts_as_original():
  model = built()
  batch = batch_of(model)
  places = batch["encoder_predicted_places"]
  targets = np.take_along_axis(batch["encoder_target_tokens"], places, 1)
  same, other = (
    jax.device_get(programs.run(replaced_tokens.replaced, batch, tokens))
    for tokens in (targets, targets + 1)
  )
  assert not same["encoder_replaced"].any()
  weights = batch["encoder_loss_weights"] > 0
  np.testing.assert_array_equal(other["encoder_replaced"], weights)
  np.testing.assert_array_equal(
    other["encoder_input_tokens"], batch["encoder_target_tokens"] + weights
  )
  for found in (same, other):
    np.testing.assert_array_equal(
      found["encoder_original_tokens"], batch["encoder_target_tokens"]
    )


def learned(model, params, batch):
  """The terms, and of the total of each the gradients, {name: {path: array}}.

  One program, whose backward pass is that of all terms at once.
  """
  terms, gradients = jax.device_get(
    programs.run(_learned, model, params, batch)
  )
  return terms, {
    name: traverse_util.flatten_dict(tree, sep="/")
    for name, tree in gradients.items()
  }


def _learned(model, params, batch):
  def totals(params):
    terms = OBJECTIVE(model, params, batch, KEY)
    return {name: term.total for name, term in terms.items()}, terms

  gradients, terms = jax.jacrev(totals, has_aux=True)(params)
  return terms, gradients


def largest(gradients):
  return {name: np.abs(leaf).max() for name, leaf in gradients.items()}


def _read(model, params, batch):
  """The generator's logits, what it replaced, and the discriminator's."""
  apply = functools.partial(model.apply, {"params": params})
  logits = apply(
    apply(batch, method="generator_hidden"),
    places_BP=batch["encoder_predicted_places"],
    method="generator_logits",
  )
  tokens = replaced_tokens.sampled(jax.random.split(KEY, 3)[0], logits)
  made = replaced_tokens.replaced(batch, tokens)
  found = apply(apply(made, method="hidden"), method="logits")[..., 0]
  return logits, made["encoder_replaced"], found


def test_terms_by_hand():
  model, params = build(NUM_ENCODER_LAYERS=1)
  batch = batch_of(model)
  terms, _ = learned(model, params, batch)
  places = batch["encoder_predicted_places"]
  logits, is_replaced, found = jax.device_get(
    programs.run(_read, model, params, batch)
  )
  weights = batch["encoder_loss_weights"]
  targets = np.take_along_axis(batch["encoder_target_tokens"], places, 1)
  nll = -np.take_along_axis(
    scipy.special.log_softmax(logits, axis=-1), targets[..., None], -1
  )[..., 0]
  expected = np.sum(nll * np.take_along_axis(weights, places, 1))
  np.testing.assert_allclose(terms["generator"].total, expected, rtol=1e-5)
  assert terms["generator"].weight == weights.sum()
  assert is_replaced.sum() > 5
  real = batch["encoder_target_tokens"] != model.pad_id
  nll = np.logaddexp(0, np.where(is_replaced, -found, found))
  term = terms["replaced"]
  np.testing.assert_allclose(term.total, np.sum(nll * real), rtol=1e-5)
  assert (term.weight, term.scale) == (real.sum(), 50.0)

  @jax.jit
  def of_predicted(logits_BL, batch):
    only = replaced_tokens.ReplacedTokenLoss(predicted_only=True)
    return only(lambda head, places: logits_BL[..., None], batch)

  term = of_predicted(
    found, {**batch, "encoder_real": real, "encoder_replaced": is_replaced}
  )
  np.testing.assert_allclose(term.total, np.sum(nll * weights), rtol=1e-5)
  assert term.weight == weights.sum()


def test_every_token_by_softmax_or_copied():
  random = np.random.RandomState(0)
  logits = random.randn(2, 3, 7).astype(np.float32)
  copies = random.randn(2, 3, 1).astype(np.float32)
  targets = random.randint(0, 7, (2, 3))
  replaced = np.array([[True, False, False], [False, True, True]])
  batch = {
    "encoder_original_tokens": targets,
    "encoder_replaced": replaced,
    "encoder_real": np.array([[True, True, False], [True, True, True]]),
  }

  @jax.jit
  def of_all(logits, copies, batch):
    def of(head, places):
      made = {"tokens": logits, "copied": copies}[head]
      if places is None:
        return made
      return jnp.take_along_axis(made, places[..., None], axis=1)

    return replaced_tokens.AllTokensLoss(logits_chunk=2)(of, batch)

  term = of_all(logits, copies, batch)
  copy = scipy.special.expit(copies[..., 0].astype(np.float64))
  softmax = np.take_along_axis(
    scipy.special.softmax(logits.astype(np.float64), -1), targets[..., None], -1
  )[..., 0]
  likelihood = np.where(replaced, 0, copy) + (1 - copy) * softmax
  expected = -np.sum(np.log(likelihood) * batch["encoder_real"])
  np.testing.assert_allclose(term.total, expected, rtol=1e-5)


def test_who_learns_of_which_loss():
  """The generator of its own alone; shared embeddings of both."""
  model, params = build(NUM_ENCODER_LAYERS=1)
  _, gradients = learned(model, params, batch_of(model))
  of_generator = largest(gradients["generator"])
  of_discriminator = largest(gradients["replaced"])
  shared = ("token_embedder", "token_type_embedder", "encoder/input_norm",
            "encoder/position_embedder")  # fmt: skip
  for name in of_generator:
    if "key/bias" in name:  # It cancels in the softmax.
      continue
    mine = name.startswith("generator/")
    common = name.startswith(shared)
    assert (of_generator[name] > 0) == (mine or common), name
    assert (of_discriminator[name] > 0) == (not mine), name


@pytest.mark.slow
def test_own_embeddings_of_a_generator():
  model, params = build(
    "electra", "generator/own_embeddings.gin", NUM_ENCODER_LAYERS=1
  )
  assert {"token_embedder", "token_type_embedder"} < params["generator"].keys()

  @jax.jit
  @jax.grad
  def gradients(params):
    return OBJECTIVE(model, params, batch_of(model), KEY)["generator"].total

  found = traverse_util.flatten_dict(gradients(params), sep="/")
  of_each = largest(jax.device_get(found))
  assert any(of_one for of_one in of_each.values())
  assert not any(
    of_one for name, of_one in of_each.items() if name[:3] != "gen"
  )


def test_rows_have_the_same_samples_in_any_part_of_a_batch():
  logits = np.random.RandomState(0).randn(4, 9, 48).astype(np.float32)

  @functools.partial(jax.jit, static_argnums=2)
  def of(logits, index, number):
    with dropout.microbatch(index, number):
      return replaced_tokens.sampled(KEY, logits)

  whole = np.asarray(of(logits, 0, 1))
  assert len(np.unique(whole)) > 9
  for i in range(2):
    np.testing.assert_array_equal(of(logits[i::2], i, 2), whole[i::2])


@pytest.mark.slow
def test_parts_of_a_batch_have_the_gradient_of_the_whole():
  """Each row has the same samples and dropout, however the batch is cut."""
  model, params = build(DROPOUT_RATE=0.3, NUM_ENCODER_LAYERS=1)
  batch = batch_of(model)

  def of(**parts):
    objective = functools.partial(OBJECTIVE, model)
    function = functools.partial(step_lib.gradients_of, objective, **parts)
    return jax.device_get(jax.jit(function)(params, batch, KEY))

  (whole, sums), (parts, others) = of(), of(num_microbatches=2)
  for name, value in sums.items():
    np.testing.assert_allclose(others[name], value, rtol=1e-5, err_msg=name)
  difference = jax.tree.map(lambda a, b: a - b, whole, parts)
  assert norm(difference) < 1e-5 * norm(whole)


def norm(tree):
  return np.sqrt(sum(np.sum(np.square(x)) for x in jax.tree.leaves(tree)))


@pytest.mark.slow
def test_a_generator_may_be_first_where_it_has_no_embeddings():
  """The gradients are those of both terms, each kept from its own pass."""
  model, params = build(NUM_ENCODER_LAYERS=1)
  expected_of_the_order(model, params, batch_of(model))


def expected_of_the_order(model, params, batch):
  """Asserts gradients and sums of an objective whose generator is first.

  The discriminator reads nothing of the generator's parameters.
  """
  terms, of_terms = learned(model, params, batch)
  expected = {
    name: sum(
      terms[term].scale / terms[term].weight * gradients[name]
      for term, gradients in of_terms.items()
    )
    for name in of_terms["generator"]
  }

  @jax.jit
  def program(params):
    objective = functools.partial(
      dataclasses.replace(OBJECTIVE, generator_first=True),
      model,
      updated=lambda gradients: jax.tree.map(
        lambda x, g: x - g, params, gradients
      ),
    )
    return step_lib.gradients_of(objective, params, batch, KEY)

  found, sums = jax.device_get(program(params))
  found = traverse_util.flatten_dict(found, sep="/")
  difference = {name: found[name] - expected[name] for name in expected}
  assert found.keys() == expected.keys()
  assert norm(difference) < 1e-6 * norm(expected)
  loss = sum(t.scale * t.total / t.weight for t in terms.values())
  expected = {**terms_lib.sums(terms), "loss": loss}
  assert sums.keys() == expected.keys()
  for name, value in expected.items():
    np.testing.assert_allclose(sums[name], value, rtol=1e-6)


@pytest.mark.slow
def test_padding_changes_nothing_and_scan_equals_loop():
  """Padded rows in a scanned model against rows as they are in a looped one."""
  model, params = build()
  scanned, _ = build(SCAN_LAYERS=True)
  stacked = tiny_models.stack_layers(params)
  stacked["generator"] = tiny_models.stack_layers(params["generator"])
  narrow, wide = batch_of(model, padded=0), batch_of(model, padded=0)
  for name in wide:
    if name != "encoder_predicted_places":
      wide[name] = np.pad(wide[name], ((0, 0), (0, 5)))
  expected = programs.run(OBJECTIVE, model, params, narrow, KEY)
  found = programs.run(OBJECTIVE, scanned, stacked, wide, KEY)
  for name, term in expected.items():
    np.testing.assert_allclose(found[name].total, term.total, rtol=1e-5)
    assert found[name].weight == term.weight


@pytest.mark.slow
@pytest.mark.parametrize(
  ("architecture", "file"),
  [
    ("electra", HEADS),
    ("deberta_v3", "../objectives/deberta_v3.gin"),
  ],
)
def test_texts_that_share_a_row_have_the_terms_of_rows_of_their_own(
  architecture, file, monkeypatch
):
  """DeBERTa v3's head adds the first token of the text, not of the row."""
  monkeypatch.setattr(
    replaced_tokens, "sampled", lambda key, logits: jnp.argmax(logits, axis=-1)
  )
  model, _ = tiny_models.build(
    architecture,
    file,
    DROPOUT_RATE=0.0,
    MAX_POSITIONS=40,
    NUM_ENCODER_LAYERS=1,
  )
  params = tiny_models.random_parameters(model)
  random, sizes = np.random.RandomState(0), (9, 6, 8)
  examples = {
    "inputs": Ragged.of([random.randint(5, 48, n, np.int32) for n in sizes]),
    "weights": Ragged.of(
      [(np.arange(n) % 4 == 2).astype(np.int32) for n in sizes]
    ),
  }
  examples["targets"] = examples["inputs"]
  examples["token_types"] = Ragged.of(
    [np.arange(n, dtype=np.int32) // 5 for n in sizes]
  )
  lay_out = functools.partial(
    converters.Encoder(predicted_share=0.9), examples, pad_id=model.pad_id
  )
  # Rows of one shape: the program is compiled once.
  apart, together = (
    lay_out(rows, num_rows=3, lengths={"inputs": 25}, packing=True)
    for rows in (np.arange(3), np.zeros(3, int))
  )
  # A program of its own: that of another test has other samples.
  terms = jax.jit(lambda params, batch: OBJECTIVE(model, params, batch))
  expected, found = (terms(params, batch) for batch in (apart, together))
  for name, term in expected.items():
    np.testing.assert_allclose(found[name].total, term.total, rtol=1e-5)
    assert found[name].weight == term.weight


@pytest.mark.parametrize("share", [0.125, 0.25, 0.5, 0.75, 1.0])
def test_generators_have_a_share_of_the_width(share):
  model = built(EMBED_DIM=64, MLP_DIM=256, HEAD_DIM=16, NUM_HEADS=4,
                GENERATOR_SHARE=share)  # fmt: skip
  encoder = model.generator.encoder
  layer = encoder.layer_stack.layer
  width = round(64 * share)
  assert encoder.input_projection.features == width
  assert layer.mlp.d_ff == 4 * width
  assert layer.attention.num_heads == max(1, width // 16)
  assert layer.attention.head_dim * layer.attention.num_heads == width


def test_models_without_a_generator_are_refused():
  model, _ = tiny_models.build("electra")
  with pytest.raises(UserError) as caught:
    OBJECTIVE.check(model)
  assert str(caught.value) == (
    "train.objective is @ReplacedTokens(), but EncoderOnly has no generator; "
    "include heads/replaced_tokens.gin, which binds MODEL = "
    "@GeneratorDiscriminator(), after the file of the run"
  )
  model = built()
  objective = replaced_tokens.ReplacedTokens((encoder.MaskedTokenLoss(),))
  with pytest.raises(UserError, match="no head 'tokens'; it has 'replaced'"):
    objective.check(model)
