"""Encoders and their heads: what they promise, and two losses at once."""

import functools
import re

from flax import linen as nn
from flax import traverse_util
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

from tests import programs
from tests import tiny_models
from transformer_zoo.errors import UserError
from transformer_zoo.forecast import cost
from transformer_zoo.modules.attention import masks
from transformer_zoo.objectives import encoder as objectives
from transformer_zoo.training import state as state_lib
from transformer_zoo.training import step as step_lib
from transformer_zoo.training.sharding import partitioning as partitioning_lib
from transformer_zoo.training.sharding.partitioning import Partitioning

KEY = jax.random.key(1)
SHORT, LONG, WIDTH = 5, 8, 16
# Every architecture and every kind of position: other parts look at one token.
FEW = [
  *((name, None) for name in ("albert", "bert", "deberta_v2")),
  *((name, None) for name in ("modernbert", "mpnet", "xlnet")),
  *(("bert", f"positions/{name}.gin") for name in ("alibi", "shaw")),
]
VARIANTS = FEW + [
  pytest.param(*each, marks=pytest.mark.slow)
  for each in (
    *((name, None) for name in tiny_models.ENCODERS),
    *(("bert", part) for part in tiny_models.PARTS if "positions/" in part),
  )
  if each not in FEW
]
# Layers of every kind: the other architectures have BERT's or DeBERTa v2's.
# Both ways of sharing, and what all layers are given; the others are slow.
STACKS = [
  ("bert", None),
  ("albert", "sharing/groups.gin"),
  *(
    pytest.param(*each, marks=pytest.mark.slow)
    for each in (
      *(("deberta", None), ("deberta_v2", None), ("mpnet", None)),
      *(("xlnet", None), ("albert", "sharing/attention.gin")),
      *(("albert", f"sharing/{part}.gin") for part in ("all", "feed_forward")),
    )
  ),
]
# Others have their gradients in tests/golden/encoders.py.
GRADIENTS = [
  ("bert", None),
  ("deberta", None),
  ("albert", "sharing/attention.gin"),
  ("albert", "sharing/groups.gin"),
]


def alone_and_together(pad_id):
  """Each of two texts in a row, and both in a third; padding behind them."""
  random = np.random.RandomState(0)
  short, long = (random.randint(3, 48, size) for size in (SHORT, LONG))
  tokens = np.full((3, WIDTH), pad_id)
  segments, places = np.zeros_like(tokens), np.zeros_like(tokens)
  for row, texts in enumerate([[short], [long], [short, long]]):
    ends = np.cumsum([len(text) for text in texts])
    tokens[row, : ends[-1]] = np.concatenate(texts)
    for i, (end, text) in enumerate(zip(ends, texts, strict=True)):
      segments[row, end - len(text) : end] = i + 1
      places[row, end - len(text) : end] = np.arange(len(text))
  return {
    "encoder_input_tokens": tokens,
    "encoder_segment_ids": segments,
    "encoder_positions": places,
  }


def in_rows(pad_id):
  """A text in each row."""
  tokens = alone_and_together(pad_id)["encoder_input_tokens"]
  return {"encoder_input_tokens": tokens[:2, :LONG]}


def build(architecture, part=None, **macros):
  parts = [part] if part else []
  model, _ = tiny_models.build(architecture, *parts, **macros)
  return model, tiny_models.random_parameters(model)


def logits_of(model, params, batch):
  return np.asarray(tiny_models.forward(model)(params, batch))


def assert_close(found, expected, tolerance=1e-5):
  scale = np.abs(expected).max()
  np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * scale)


@pytest.mark.parametrize(("architecture", "part"), VARIANTS)
def test_padding_changes_nothing_and_packed_texts_do_not_meet(
  architecture, part
):
  """That padding is known by its token alone, the goldens say."""
  layers = 2 if architecture in tiny_models.UNSCANNED else 1
  model, params = build(architecture, part, NUM_ENCODER_LAYERS=layers)
  short, long, together = logits_of(
    model, params, alone_and_together(model.pad_id)
  )
  assert_close(together[:SHORT], short[:SHORT])
  assert_close(together[SHORT : SHORT + LONG], long[:LONG])


def looped_and_scanned(architecture, part, **macros):
  """Models with parameters, two layers or two groups of two."""
  layers = 4 if part and "groups" in part else 2
  model, params = build(architecture, part, NUM_ENCODER_LAYERS=layers)
  scanned, _ = tiny_models.build(
    *filter(None, (architecture, part)),
    NUM_ENCODER_LAYERS=layers,
    SCAN_LAYERS=True,
    **macros,
  )
  stacked = tiny_models.stack_layers(params)
  assert jax.tree.structure(stacked) == jax.tree.structure(
    nn.unbox(state_lib.abstract_params(scanned))
  )
  return (model, params), (scanned, stacked)


@pytest.mark.slow
@pytest.mark.parametrize(("architecture", "part"), STACKS)
def test_scanned_layers_are_looped_ones(architecture, part):
  looped, scanned = looped_and_scanned(architecture, part)
  batch = in_rows(looped[0].pad_id)
  assert_close(logits_of(*scanned, batch), logits_of(*looped, batch))


@pytest.mark.slow
@pytest.mark.parametrize(("architecture", "part"), GRADIENTS)
def test_gradient_of_scanned_layers_is_that_of_looped_ones(architecture, part):
  looped, scanned = looped_and_scanned(architecture, part, REMAT="minimal")
  batch = in_rows(looped[0].pad_id)

  def gradient(model, params):
    def total(params):
      logits = model.apply({"params": params}, batch, method="all_logits")
      return jnp.mean(logits["tokens"] ** 2)

    return jax.jit(jax.grad(total))(params)

  expected = tiny_models.stack_layers(jax.device_get(gradient(*looped)))
  jax.tree.map(
    lambda found, expected: assert_close(found, expected, 1e-4),
    _without_rounding(gradient(*scanned)),
    _without_rounding(expected),
  )


def _without_rounding(gradient):
  """Without what cancels in the softmax: its gradient is rounding.

  Biases of keys, and XLNet's vectors of segments in texts of one segment.
  """
  flat = traverse_util.flatten_dict(gradient, sep="/")
  return {
    name: np.asarray(value)
    for name, value in flat.items()
    if not re.search("key/bias|segment", name)
  }


def test_layers_that_share_parameters_have_one_copy():
  """Of four layers; what is shared lies in the tree once."""

  def parameters(part):
    _, params = build("albert", f"sharing/{part}.gin", NUM_ENCODER_LAYERS=4)
    flat = traverse_util.flatten_dict(params["encoder"], sep="/")
    return {n: a.size for n, a in flat.items() if not n.startswith("input")}

  def size(names, part):
    return sum(n for name, n in names.items() if re.search(part, name))

  apart = parameters("none")
  for part, shared in (
    ("all", "layers_"), ("attention", "/?attention/"), ("feed_forward", "mlp/")
  ):  # fmt: skip
    found = parameters(part)
    assert 4 * size(found, shared) == size(apart, shared)
    assert size(found, f"^(?!.*{shared})") == size(apart, f"^(?!.*{shared})")
  assert 2 * size(parameters("groups"), "layers_") == size(apart, "layers_")


@functools.cache
def gradient_of(part, layers, **macros):
  """A gradient and the shapes of its parameters."""
  model, _ = tiny_models.build(
    "albert", part, NUM_ENCODER_LAYERS=layers, **macros
  )
  batch = in_rows(model.pad_id)

  def total(params):
    logits = model.apply({"params": params}, batch, method="all_logits")
    return jnp.mean(logits["tokens"] ** 2)

  return jax.grad(total), state_lib.abstract_params(model)


@pytest.mark.slow
def test_what_is_compiled_does_not_grow_with_scanned_shared_layers():
  few, many = (
    jax.jit(gradient).lower(params).as_text().count("\n")
    for gradient, params in (
      gradient_of("sharing/all.gin", layers, SCAN_LAYERS=True)
      for layers in (3, 24)
    )
  )
  assert few == many


@functools.cache
def matmul_flops(part, **macros):
  return cost.count(*gradient_of(part, 4, **macros)).matmul_flops


@pytest.mark.parametrize(
  "scan", [False, pytest.param(True, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("part", tiny_models.SHARING)
def test_shared_layers_take_the_flops_of_layers_of_their_own(part, scan):
  found = matmul_flops(part, SCAN_LAYERS=scan)
  assert found == matmul_flops("sharing/none.gin", SCAN_LAYERS=False)


def test_sharing_that_a_stack_cannot_have():
  with pytest.raises(UserError) as caught:
    build("albert", "sharing/groups.gin", NUM_ENCODER_LAYERS=3)
  assert str(caught.value) == (
    "Stack.num_groups is 2; it must divide num_layers, 3: all groups have "
    "equally many layers"
  )
  model, _ = build("albert")
  with pytest.raises(UserError) as caught:
    model.encoder.layer_stack.clone(shared=("self_attention",))
  assert str(caught.value) == (
    "Stack.shared has 'self_attention', but EncoderLayer has no such part; "
    "name fields of it, like 'attention' and 'mlp'"
  )


def seen(model, batch):
  """Whether a place's vector [B, L] depends on another's [B, L, L]."""
  tokens = batch["encoder_input_tokens"]
  random = np.random.RandomState(0)
  x = random.randn(*tokens.shape, tiny_models.TINY["EMBED_DIM"])
  signs = random.randn(x.shape[-1])

  @jax.jit
  @jax.jacrev
  def influence_LBLD(x_BLD, params):
    hidden_BLD = model.apply({"params": params}, x_BLD, batch, method="encoded")
    return jnp.sum(hidden_BLD @ signs, axis=0)

  found = influence_LBLD(
    x.astype(np.float32), tiny_models.random_parameters(model)
  )
  return np.abs(np.asarray(found)).max(axis=-1).transpose(1, 0, 2) > 0


def test_every_token_sees_every_token_of_its_text():
  model, _ = tiny_models.build("bert", NUM_ENCODER_LAYERS=1)
  batch = in_rows(model.pad_id)
  real = batch["encoder_input_tokens"] != model.pad_id
  np.testing.assert_array_equal(
    seen(model, batch), real[:, None] & real[:, :, None]
  )


@pytest.mark.slow
def test_unified_kinds_of_attention():
  """As a mask of who sees whom, a row of each kind."""
  model, _ = tiny_models.build("bert", NUM_ENCODER_LAYERS=2)
  tokens = np.tile(in_rows(model.pad_id)["encoder_input_tokens"][1], (4, 1))
  batch = {
    "encoder_input_tokens": tokens,
    "encoder_token_types": np.array([[0, 0, 0, 1, 1, 1, 1, 1]] * 4),
    "attention_kind": np.arange(4),
  }
  second = batch["encoder_token_types"] == 1
  once = np.asarray(
    programs.run(masks.attention_kind_mask, batch["attention_kind"], second)
  )[:, 0]
  # Two layers reach what is seen by what is seen.
  np.testing.assert_array_equal(seen(model, batch), once @ once)


def pair_batch(model):
  """Rows of very different weight, labels in some of them."""
  random = np.random.RandomState(1)
  tokens = random.randint(3, 48, (8, 12))
  weights = (random.rand(8, 12) < 0.4) & (
    np.arange(12) < np.array([[1], [4], [12], [0]] * 2)
  )
  places = np.argsort(~weights, axis=1, kind="stable")
  return {
    "encoder_input_tokens": tokens.astype(np.int32),
    "encoder_token_types": (np.arange(12) > 6).astype(np.int32)
    + np.zeros_like(tokens, np.int32),
    "encoder_target_tokens": random.randint(3, 48, (8, 12)).astype(np.int32),
    "encoder_loss_weights": weights.astype(np.int32),
    "encoder_predicted_places": places[:, :8].astype(np.int32),
    "next_sentence": np.array([0, 1, -1, -1, 1, -1, 0, 1], np.int32),
  }


TWO_TERMS = objectives.EncoderObjective(
  (objectives.MaskedTokenLoss(), objectives.SentencePairLoss(scale=0.5))
)


def with_two_heads(**macros):
  return tiny_models.build(
    "bert", "../heads/tokens_next_sentence.gin", **macros
  )[0]


def assert_same(found, expected):
  (gradients, sums), (expected, expected_sums) = found, expected
  assert sums.keys() == expected_sums.keys()
  for name, value in expected_sums.items():
    np.testing.assert_allclose(sums[name], value, rtol=1e-6, err_msg=name)
  found, expected = (
    np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])
    for tree in (gradients, expected)
  )
  norm = np.linalg.norm
  assert norm(found - expected) < 1e-6 * norm(expected)


def gradients_of_terms(model, params, batch, **parts):
  objective = functools.partial(TWO_TERMS, model)
  function = functools.partial(step_lib.gradients_of, objective, **parts)
  return jax.device_get(jax.jit(function)(params, batch, KEY))


@functools.cache
def one_device():
  """Model, parameters, batch, and their gradients and sums, with dropout."""
  model = with_two_heads(DROPOUT_RATE=0.3, NUM_ENCODER_LAYERS=1)
  params = tiny_models.random_parameters(model)
  batch = pair_batch(model)
  return model, params, batch, gradients_of_terms(model, params, batch)


@pytest.mark.slow
def test_two_terms_in_parts_have_the_gradient_of_the_whole():
  *setting, whole = one_device()
  assert_same(gradients_of_terms(*setting, num_microbatches=2), whole)


@pytest.mark.slow
def test_two_terms_on_a_mesh_are_those_of_one_device():
  model, params, batch, expected = one_device()
  layout = Partitioning(fsdp=2, num_partitions=2)
  mesh = layout.mesh(jax.devices()[:4])
  shardings = layout.shardings(
    mesh, state_lib.abstract_variables(model), params
  )
  with layout.activate(mesh):
    found = gradients_of_terms(
      model,
      jax.device_put(params, shardings),
      partitioning_lib.put_batch(batch, mesh),
      num_microbatches=2,
      lay_out=lambda g: jax.lax.with_sharding_constraint(g, shardings),
    )
  assert_same(found, expected)


@pytest.mark.slow
def test_terms_by_hand():
  model = with_two_heads(NUM_ENCODER_LAYERS=1)
  params = tiny_models.random_parameters(model)
  batch = pair_batch(model)

  @jax.jit
  def program(params):
    apply = functools.partial(model.apply, {"params": params}, batch)
    logits = apply(method="all_logits")["tokens"]
    return TWO_TERMS(model, params, batch), logits, apply(method="hidden")

  terms, logits, hidden = jax.device_get(program(params))
  nll = -_chosen(logits, batch["encoder_target_tokens"])
  weights = batch["encoder_loss_weights"]
  np.testing.assert_allclose(
    terms["tokens"].total, np.sum(nll * weights), rtol=1e-5
  )
  assert terms["tokens"].weight == weights.sum()
  pooler, out = (
    params["pooler"]["dense"],
    params["heads"]["next_sentence"]["out"],
  )
  pooled = np.tanh(hidden[:, 0] @ pooler["kernel"] + pooler["bias"])
  labels = batch["next_sentence"]
  nll = -_chosen(pooled @ out["kernel"] + out["bias"], np.maximum(labels, 0))
  found = terms["next_sentence"]
  np.testing.assert_allclose(found.total, np.sum(nll * (labels >= 0)), 1e-5)
  assert (found.weight, found.scale) == (5, 0.5)


def _chosen(logits, targets):
  likelihoods = scipy.special.log_softmax(logits, axis=-1)
  return np.take_along_axis(likelihoods, targets[..., None], axis=-1)[..., 0]


@functools.partial(jax.jit, static_argnums=0)
def term_of(loss, logits, batch):
  return loss(fixed_logits(logits), batch)


def fixed_logits(values):
  return lambda head, places_BP: (
    values
    if places_BP is None
    else jnp.take_along_axis(values, places_BP[..., None], axis=1)
  )


def test_choices_of_a_row_share_a_softmax():
  """Three choices in the first row, two in the second, none in the third."""
  scores = np.random.RandomState(0).randn(3, 6, 1).astype(np.float32)
  weights = np.array([[1, 0, 1, 0, 1, 0], [1, 0, 0, 1, 0, 0], [0] * 6])
  targets = np.array([[0, 9, 1, 9, 0, 9], [1, 9, 9, 0, 9, 9], [9] * 6])
  batch = {
    "encoder_target_tokens": targets,
    "encoder_loss_weights": weights,
    "encoder_predicted_places": np.argsort(weights == 0, axis=1, kind="stable")[
      :, :4
    ],
  }
  term = term_of(objectives.ChoiceLoss(), scores, batch)
  first = scipy.special.log_softmax(scores[0, [0, 2, 4], 0])
  second = scipy.special.log_softmax(scores[1, [0, 3], 0])
  np.testing.assert_allclose(term.total, -first[1] - second[0], rtol=1e-6)
  assert term.weight == 2


def test_numbers_are_bits():
  numbers = np.array([[3.25, 0], [0.1, 0]], np.float32)
  batch = {
    "encoder_target_tokens": numbers.view(np.int32),
    "encoder_loss_weights": np.array([[1, 0], [1, 0]]),
    "encoder_predicted_places": np.array([[0], [0]]),
  }
  logits = np.array([[[3.0], [7.0]], [[0.1], [7.0]]], np.float32)
  term = term_of(objectives.NumberLoss(), logits, batch)
  np.testing.assert_allclose((term.total, term.weight), (0.0625, 2))


def test_answers_are_among_the_tokens_of_their_row():
  logits = np.random.RandomState(0).randn(3, 4, 2).astype(np.float32)
  batch = {
    "encoder_real": np.array([[1, 1, 1, 0], [1, 1, 1, 1], [1, 1, 0, 0]]) > 0,
    "answer_starts": np.array([1, 0, -1]),
    "answer_ends": np.array([2, 0, -1]),
  }
  term = term_of(objectives.SpanLoss(), logits, batch)
  first = scipy.special.log_softmax(logits[0, :3], axis=0)
  second = scipy.special.log_softmax(logits[1], axis=0)
  expected = -(first[1, 0] + first[2, 1] + second[0, 0] + second[0, 1]) / 2
  np.testing.assert_allclose(term.total, expected, rtol=1e-6)
  assert term.weight == 2


def test_heads_that_a_model_lacks():
  model, _ = build("bert")
  with pytest.raises(UserError) as caught:
    TWO_TERMS.check(model)
  assert str(caught.value) == (
    "the model has no head 'next_sentence'; it has 'tokens': choose heads and "
    "objective by one file of gin_configs/heads/, after the file of the run"
  )
  other, _ = tiny_models.build("lm")
  with pytest.raises(UserError, match="DecoderOnly has no heads that it could"):
    TWO_TERMS.check(other)
  with pytest.raises(UserError, match="the model has no head 'spans'; it has "):
    model.apply({}, jnp.zeros((1, 1, 24)), "spans", method="logits")


@pytest.mark.slow
@pytest.mark.parametrize(
  ("direction", "answering"),
  [("left_to_right", "last"), ("right_to_left", "first")],
)
def test_a_text_read_in_a_direction_sees_nothing_of_the_other(
  direction, answering
):
  model, converter = tiny_models.build(
    "bert", f"{direction}.gin", NUM_ENCODER_LAYERS=1
  )
  assert converter.answering == answering
  (found,) = seen(
    model, {"encoder_input_tokens": np.array([[5, 6, 7, 8, 9, 10, 0]])}
  )
  triangle = np.tri(7, dtype=bool)
  triangle = triangle if direction == "left_to_right" else triangle.T
  real = np.arange(7) < 6
  np.testing.assert_array_equal(found, triangle & real & real[:, None])
