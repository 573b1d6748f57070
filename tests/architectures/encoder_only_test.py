"""Encoders and their heads: what they promise, and two losses at once."""

import functools
import re

from flax import linen as nn
from flax import traverse_util
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

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
SHORT, LONG = 5, 8
# Every architecture and every kind of position: other parts look at one token.
VARIANTS = [
  *((name, None) for name in tiny_models.ENCODERS),
  *(("bert", part) for part in tiny_models.PARTS if "positions/" in part),
]
# Layers of every kind: the other architectures have BERT's or DeBERTa v2's.
STACKS = [
  *((name, None) for name in ("bert", "deberta", "deberta_v2", "mpnet")),
  ("xlnet", None),
  *(("albert", part) for part in tiny_models.SHARING if "none" not in part),
]


def texts(pad_id):
  random = np.random.RandomState(0)
  return [random.randint(3, 48, size) for size in (SHORT, LONG)], pad_id


def in_rows(pad_id, width=LONG):
  """A text in each row."""
  (short, long), _ = texts(pad_id)
  rows = np.full((2, width), pad_id)
  rows[0, :SHORT], rows[1, :LONG] = short, long
  return {"encoder_input_tokens": rows}


def packed(pad_id):
  """Both texts in one row, and padding behind them."""
  (short, long), _ = texts(pad_id)
  segments = np.repeat([1, 2, 0], [SHORT, LONG, 3])
  places = np.concatenate([np.arange(n) for n in (SHORT, LONG, 3)])
  tokens = np.concatenate([short, long, [pad_id] * 3])
  return {
    "encoder_input_tokens": tokens[None],
    "encoder_segment_ids": segments[None],
    "encoder_positions": places[None],
  }


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
  model, params = build(architecture, part)
  alone = logits_of(model, params, in_rows(model.pad_id))
  together = logits_of(model, params, packed(model.pad_id))[0]
  assert_close(together[:SHORT], alone[0, :SHORT])
  assert_close(together[SHORT : SHORT + LONG], alone[1])


@pytest.mark.parametrize(("architecture", "part"), STACKS)
def test_scanned_layers_are_looped_ones(architecture, part):
  """In what they compute and in its gradient."""
  layers = {"NUM_ENCODER_LAYERS": 4 if part else 2}  # Two groups of two.
  model, params = build(architecture, part, **layers)
  scanned, stacked = build(
    architecture, part, **layers, SCAN_LAYERS=True, REMAT="minimal"
  )
  assert jax.tree.structure(stacked) == jax.tree.structure(
    tiny_models.stack_layers(params)
  )
  batch = in_rows(model.pad_id)

  def value_and_gradient(model, params):
    def total(params):
      logits = model.apply({"params": params}, batch, method="all_logits")
      return jnp.mean(logits["tokens"] ** 2), logits["tokens"]

    (_, logits), gradient = jax.value_and_grad(total, has_aux=True)(params)
    return logits, gradient

  logits, gradient = value_and_gradient(model, params)
  found, found_gradient = value_and_gradient(
    scanned, tiny_models.stack_layers(params)
  )
  assert_close(found, logits)
  jax.tree.map(
    lambda found, expected: assert_close(found, expected, 1e-4),
    _without_rounding(found_gradient),
    _without_rounding(tiny_models.stack_layers(gradient)),
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


def gradient_of(part, layers, **macros):
  """A gradient and its parameters."""
  model, params = build("albert", part, NUM_ENCODER_LAYERS=layers, **macros)

  def total(params):
    batch = in_rows(model.pad_id)
    logits = model.apply({"params": params}, batch, method="all_logits")
    return jnp.mean(logits["tokens"] ** 2)

  return jax.grad(total), params


def test_what_is_compiled_does_not_grow_with_scanned_shared_layers():
  few, many = (
    jax.jit(gradient).lower(params).as_text().count("\n")
    for gradient, params in (
      gradient_of("sharing/all.gin", layers, SCAN_LAYERS=True)
      for layers in (3, 24)
    )
  )
  assert few == many


@pytest.mark.parametrize("scan", [False, True])
@pytest.mark.parametrize("part", tiny_models.SHARING)
def test_shared_layers_take_the_flops_of_layers_of_their_own(part, scan):
  found = cost.count(*gradient_of(part, 4, SCAN_LAYERS=scan))
  apart = cost.count(*gradient_of("sharing/none.gin", 4))
  assert found.matmul_flops == apart.matmul_flops


def test_sharing_that_a_stack_cannot_have():
  with pytest.raises(UserError) as caught:
    build("albert", "sharing/groups.gin", NUM_ENCODER_LAYERS=3)
  assert str(caught.value) == (
    "Stack.num_groups is 2; it must divide num_layers, 3: all groups have "
    "equally many layers"
  )
  model, _ = build("albert")
  with pytest.raises(UserError) as caught:
    model.encoder.clone(shared=("self_attention",))
  assert str(caught.value) == (
    "Stack.shared has 'self_attention', but EncoderLayer has no such part; "
    "name fields of it, like 'attention' and 'mlp'"
  )


def test_every_token_sees_every_token_of_its_text():
  model, params = build("bert")
  batch = in_rows(model.pad_id)

  def logit(table):
    moved = {**params, "token_embedder": {"embedding": table}}
    logits = model.apply({"params": moved}, batch, method="all_logits")
    return logits["tokens"][0, 0, 0]

  # The row of token 0, padding, is the softmax's alone.
  gradient = jax.grad(logit)(params["token_embedder"]["embedding"])
  moved = np.abs(np.asarray(gradient)).max(axis=1) > 0
  tokens = batch["encoder_input_tokens"]
  assert set(np.flatnonzero(moved)) == {0, *tokens[0, :SHORT]}


@pytest.mark.parametrize("kind", range(4))
def test_unified_kinds_of_attention(kind):
  """As a mask of who sees whom, one place at a time."""
  model, params = build("bert", None)
  model = model.clone(
    token_type_embedder=model.token_type_embedder.clone(num_types=6)
  )
  params = tiny_models.random_parameters(model)
  batch = {
    **in_rows(model.pad_id),
    "encoder_token_types": np.array([[0, 0, 0, 1, 1, 1, 1, 1]] * 2),
    "attention_kind": np.array([kind, kind]),
  }

  def vector(x_BLD, place):
    embed = lambda *_: x_BLD  # noqa: E731
    with nn.intercept_methods(
      lambda call, arguments, keywords, context: (
        embed()
        if context.module.name == "token_embedder"
        and context.method_name == "__call__"
        else call(*arguments, **keywords)
      )
    ):
      hidden = model.apply({"params": params}, batch, method="hidden")
    return hidden[1, place]

  x_BLD = jnp.asarray(
    params["token_embedder"]["embedding"][batch["encoder_input_tokens"]]
  )
  seen = np.stack(
    [
      np.abs(jax.jacobian(vector)(x_BLD, place)[:, 1]).max(axis=(0, 2)) > 0
      for place in range(LONG)
    ]
  )
  second = batch["encoder_token_types"] == 1
  once = np.array(
    masks.attention_kind_mask(batch["attention_kind"], second)[1, 0]
  )
  # Two layers reach what is seen by what is seen.
  np.testing.assert_array_equal(seen, once @ once)


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
  difference = jax.tree.map(lambda a, b: np.asarray(a) - b, gradients, expected)
  assert optax.tree.norm(difference) < 1e-6 * optax.tree.norm(expected)


def test_two_terms_in_parts_have_the_gradient_of_the_whole():
  model = with_two_heads(DROPOUT_RATE=0.3)
  params = tiny_models.random_parameters(model)
  batch = pair_batch(model)

  def of(**parts):
    objective = functools.partial(TWO_TERMS, model)
    function = functools.partial(step_lib.gradients_of, objective, **parts)
    return jax.jit(function)(params, batch, KEY)

  whole, in_parts = of(), of(num_microbatches=2)
  assert_same(in_parts, whole)


def test_two_terms_on_a_mesh_are_those_of_one_device():
  model = with_two_heads()
  params = tiny_models.random_parameters(model)
  batch = pair_batch(model)
  objective = functools.partial(TWO_TERMS, model)

  def of(params, batch, **parts):
    function = functools.partial(step_lib.gradients_of, objective, **parts)
    return jax.jit(function)(params, batch, KEY)

  layout = Partitioning(fsdp=2, num_partitions=2)
  mesh = layout.mesh(jax.devices()[:4])
  shardings = layout.shardings(
    mesh, state_lib.abstract_variables(model), params
  )
  with layout.activate(mesh):
    gradients, sums = of(
      jax.device_put(params, shardings),
      partitioning_lib.put_batch(batch, mesh),
      num_microbatches=2,
      lay_out=lambda g: jax.lax.with_sharding_constraint(g, shardings),
    )
  assert_same((gradients, sums), of(params, batch))


def test_terms_by_hand():
  model = with_two_heads()
  params = tiny_models.random_parameters(model)
  batch = pair_batch(model)
  terms = jax.jit(functools.partial(TWO_TERMS, model))(params, batch)
  logits = logits_of(model, params, batch)
  nll = optax.softmax_cross_entropy_with_integer_labels(
    logits, batch["encoder_target_tokens"]
  )
  weights = batch["encoder_loss_weights"]
  np.testing.assert_allclose(
    terms["tokens"].total, np.sum(nll * weights), rtol=1e-5
  )
  assert terms["tokens"].weight == weights.sum()
  hidden = model.apply({"params": params}, batch, method="hidden")
  pooler, out = (
    params["pooler"]["dense"],
    params["heads"]["next_sentence"]["out"],
  )
  pooled = np.tanh(np.asarray(hidden)[:, 0] @ pooler["kernel"] + pooler["bias"])
  labels = batch["next_sentence"]
  nll = optax.softmax_cross_entropy_with_integer_labels(
    pooled @ out["kernel"] + out["bias"], np.maximum(labels, 0)
  )
  found = terms["next_sentence"]
  np.testing.assert_allclose(found.total, np.sum(nll * (labels >= 0)), 1e-5)
  assert (found.weight, found.scale) == (5, 0.5)


def fixed_logits(values):
  return lambda head, places_BP: (
    values
    if places_BP is None
    else jnp.take_along_axis(values, places_BP[..., None], axis=1)
  )


def test_choices_of_a_row_share_a_softmax():
  """Three choices in the first row, two in the second, none in the third."""
  scores = jnp.asarray(np.random.RandomState(0).randn(3, 6, 1), jnp.float32)
  weights = jnp.array([[1, 0, 1, 0, 1, 0], [1, 0, 0, 1, 0, 0], [0] * 6])
  targets = jnp.array([[0, 9, 1, 9, 0, 9], [1, 9, 9, 0, 9, 9], [9] * 6])
  batch = {
    "encoder_target_tokens": targets,
    "encoder_loss_weights": weights,
    "encoder_predicted_places": jnp.argsort(weights == 0, axis=1)[:, :4],
  }
  term = objectives.ChoiceLoss()(fixed_logits(scores), batch)
  first = jax.nn.log_softmax(scores[0, jnp.array([0, 2, 4]), 0])
  second = jax.nn.log_softmax(scores[1, jnp.array([0, 3]), 0])
  np.testing.assert_allclose(term.total, -first[1] - second[0], rtol=1e-6)
  assert term.weight == 2


def test_numbers_are_bits():
  numbers = np.array([[3.25, 0], [0.1, 0]], np.float32)
  batch = {
    "encoder_target_tokens": jnp.asarray(numbers.view(np.int32)),
    "encoder_loss_weights": jnp.array([[1, 0], [1, 0]]),
    "encoder_predicted_places": jnp.array([[0], [0]]),
  }
  logits = jnp.array([[[3.0], [7.0]], [[0.1], [7.0]]])
  term = objectives.NumberLoss()(fixed_logits(logits), batch)
  np.testing.assert_allclose((term.total, term.weight), (0.0625, 2))


def test_answers_are_among_the_tokens_of_their_row():
  logits = jnp.asarray(np.random.RandomState(0).randn(3, 4, 2), jnp.float32)
  batch = {
    "encoder_real": jnp.array([[1, 1, 1, 0], [1, 1, 1, 1], [1, 1, 0, 0]]) > 0,
    "answer_starts": jnp.array([1, 0, -1]),
    "answer_ends": jnp.array([2, 0, -1]),
  }
  term = objectives.SpanLoss()(fixed_logits(logits), batch)
  first = jax.nn.log_softmax(logits[0, :3], axis=0)
  second = jax.nn.log_softmax(logits[1], axis=0)
  expected = -(first[1, 0] + first[2, 1] + second[0, 0] + second[0, 1]) / 2
  np.testing.assert_allclose(term.total, expected, rtol=1e-6)
  assert term.weight == 2


def test_heads_that_a_model_lacks():
  model, _ = build("bert")
  with pytest.raises(UserError) as caught:
    TWO_TERMS.check(model)
  assert str(caught.value) == (
    "the model has no head 'next_sentence'; it has 'tokens': choose heads and "
    "objective by one file of gin_configs/heads/, after that of the run"
  )
  other, _ = tiny_models.build("lm")
  with pytest.raises(UserError, match="DecoderOnly has no heads that it could"):
    TWO_TERMS.check(other)
  with pytest.raises(UserError, match="the model has no head 'spans'; it has "):
    model.apply({}, jnp.zeros((1, 1, 24)), "spans", method="logits")


def test_a_text_read_from_left_to_right_sees_nothing_behind_a_token():
  model, converter = tiny_models.build("bert", "left_to_right.gin")
  assert converter.answering == "last"
  params = tiny_models.random_parameters(model)
  tokens = np.array([[5, 6, 7, 8, 9, 10]])
  other = tokens.copy()
  other[0, 3] = 20

  def hidden(tokens):
    batch = {"encoder_input_tokens": tokens}
    return np.asarray(model.apply({"params": params}, batch, method="hidden"))

  changed = np.abs(hidden(other) - hidden(tokens)).max(axis=(0, 2))
  np.testing.assert_allclose(changed[:3], 0, atol=1e-6)
  assert (changed[3:] > 1e-4).all()


def test_a_text_read_from_right_to_left_has_no_gradient_from_the_left():
  model, converter = tiny_models.build("bert", "right_to_left.gin")
  assert converter.answering == "first"
  params = tiny_models.random_parameters(model)
  tokens = jnp.array([[5, 6, 7, 8, 9, 10, 0]])
  signs = np.random.RandomState(0).randn(24)

  def output_at(x_BLD, place):
    hidden_BLD = model.apply(
      {"params": params},
      x_BLD,
      {"encoder_input_tokens": tokens},
      method="encoded",
    )
    return hidden_BLD[0, place] @ signs

  x = jnp.asarray(np.random.RandomState(1).randn(1, 7, 24), jnp.float32)
  gradient = np.abs(jax.grad(output_at)(x, 2)).max(axis=(0, 2))
  assert (gradient[:2] == 0).all() and gradient[6] == 0
  assert (gradient[2:6] > 1e-4).all()
