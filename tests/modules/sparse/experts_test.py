"""Experts against loops over tokens, their costs, and what refuses them."""

import functools

from flax import linen as nn
from flax import traverse_util
import jax
import numpy as np
import pytest

from tests import programs
from tests import tiny_models
from transformer_zoo import parameter_names
from transformer_zoo.decoding.generate import generate
from transformer_zoo.errors import UserError
from transformer_zoo.modules import costs
from transformer_zoo.modules.feed_forward import Mlp
from transformer_zoo.modules.sparse.experts import Experts
from transformer_zoo.modules.sparse.experts import SwitchRouter
from transformer_zoo.modules.sparse.experts import TopTwoRouter
from transformer_zoo.modules.stacks.other_layers import StackWithOtherLayers
from transformer_zoo.modules.stacks.other_layers import with_other_mlp
from transformer_zoo.objectives import terms as terms_lib
from transformer_zoo.objectives.sequence_to_sequence import SequenceToSequence
from transformer_zoo.training import state
from transformer_zoo.training import step as step_lib
from transformer_zoo.training.monitoring import norms

RANDOM = np.random.RandomState(0)
ROWS, LENGTH, WIDTH, EXPERTS, PLACES = 3, 11, 6, 4, 2
X = RANDOM.standard_normal((ROWS, LENGTH, WIDTH)).astype(np.float32)
VALID = np.arange(LENGTH) < np.array([[11], [7], [0]])
ROUTERS = {
  "switch": functools.partial(SwitchRouter, jitter=0.0),
  "top_two": functools.partial(TopTwoRouter, second_threshold=0.3),
}


def build(kind, **settings):
  router = ROUTERS[kind](
    num_experts=EXPERTS,
    evaluation_capacity_factor=0.0,
    min_capacity=PLACES,
    load_balancing=1.0,
    z_loss=1.0,
    **settings,
  )
  return Experts(Mlp(d_ff=5), router)


def softmax(logits):
  gates = np.exp(logits - logits.max(-1, keepdims=True))
  return gates / gates.sum(-1, keepdims=True)


def by_loops(kind, params):
  """(output, costs by name) of tokens that take places one after the other."""
  router = params["router"]["logits"]["kernel"]
  wi, wo = (params["expert"][name]["kernel"] for name in ("wi", "wo"))
  y = np.zeros_like(X)
  found = {"load_balancing": [], "dropped": [], "router_z": []}
  for row in range(ROWS):
    tokens = np.flatnonzero(VALID[row])
    gates = softmax(X[row] @ router)
    order = np.argsort(-gates, axis=-1)
    taken, served = np.zeros(EXPERTS, int), set()
    choices = [(token, order[token, 0], 0) for token in tokens]
    if kind == "top_two":
      choices += [(token, order[token, 1], 1) for token in tokens]
    for token, expert, rank in choices:
      weight = gates[token, expert]
      if kind == "top_two":
        weight /= gates[token, order[token, :2]].sum()
        if rank == 1 and weight <= 0.3:
          continue
      if taken[expert] == PLACES:
        continue
      taken[expert] += 1
      served.add(token)
      hidden = np.maximum(X[row, token] @ wi[expert], 0)
      y[row, token] += weight * (hidden @ wo[expert])
    number = max(len(tokens), 1)
    share = np.bincount(order[tokens, 0], minlength=EXPERTS) / number
    mean = gates[tokens].sum(axis=0) / number
    found["load_balancing"].append(EXPERTS * (share @ mean))
    found["dropped"].append((len(tokens) - len(served)) / number)
    z = np.log(np.exp(X[row, tokens] @ router).sum(-1)) ** 2
    found["router_z"].append(z.sum() / number)
  return y, found


@pytest.mark.parametrize("kind", ROUTERS)
def test_tokens_take_places_in_their_order(kind):
  """Padding takes none and costs nothing; those that find none are dropped."""
  module = build(kind)
  variables = nn.unbox(
    programs.init(module, jax.random.key(0), X, deterministic=True)
  )
  y, found = programs.apply(
    module,
    variables,
    X,
    valid_BL=VALID,
    deterministic=True,
    mutable=(costs.COLLECTION,),
  )
  expected, numbers = by_loops(kind, jax.device_get(variables["params"]))
  np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-6)
  router = found[costs.COLLECTION]["router"]
  (balance,), (z,) = router["load_balancing"], router["router_z"]
  assert max(numbers["dropped"]) > 0
  for name, value in (
    ("load_balancing", balance.cost_B),
    ("dropped", balance.shares_B["dropped"]),
    ("router_z", z.cost_B),
  ):
    np.testing.assert_allclose(value, numbers[name], rtol=1e-5, err_msg=name)


def loss_of(model, batch, dropout_key=None):
  """(parameters -> the terms of a batch), compiled nowhere."""
  return lambda params: SequenceToSequence()(model, params, batch, dropout_key)


@functools.cache
def model_and_batch(part, **settings):
  model, converter = tiny_models.build("t5_1_0", part, **settings)
  batch = tiny_models.lay_out(
    converter, tiny_models.random_examples(), packing=False
  )
  return model, batch


@pytest.mark.slow
@pytest.mark.parametrize("part", tiny_models.WITH_EXPERTS)
def test_costs_and_draws_are_those_of_the_whole_batch_in_microbatches(part):
  """With jitter, drawn second experts, dropout and dropped tokens."""
  model, batch = model_and_batch(
    part,
    CAPACITY_FACTOR=0.0,
    DROPOUT_RATE=0.2,
    ROUTER_Z_LOSS=0.1,
    NUM_ENCODER_LAYERS=1,
    NUM_DECODER_LAYERS=1,
  )
  params = tiny_models.random_parameters(model)

  @functools.partial(jax.jit, static_argnames="number")
  def gradients(params, number):
    return step_lib.gradients_of(
      functools.partial(SequenceToSequence(), model),
      params,
      batch,
      jax.random.key(0),
      num_microbatches=number,
    )

  (whole, sums), (parts, sums_of_parts) = (gradients(params, n) for n in (1, 2))
  assert sums["load_balancing/dropped_sum"] > 0
  assert sums["router_z/loss_sum"] > 0
  for each, expected in zip(
    jax.tree.leaves((parts, sums_of_parts)),
    jax.tree.leaves((whole, sums)),
    strict=True,
  ):
    scale = np.abs(expected).max()
    np.testing.assert_allclose(each, expected, atol=2e-5 * scale + 1e-9)
  for path, leaf in jax.tree_util.tree_leaves_with_path(whole):
    assert np.abs(leaf).max() > 0, jax.tree_util.keystr(path)


def stacked_as(model, looped):
  """The parameters of a looped model as a scanned one has them."""
  looped = traverse_util.flatten_dict(looped, sep="/")
  stacked = {
    name: np.stack([looped[each] for each in names])
    if parameter_names.is_stacked(name)
    else looped[name]
    for name, leaf in traverse_util.flatten_dict(
      nn.unbox(state.abstract_params(model)), sep="/"
    ).items()
    if (names := parameter_names.names_in(name, leaf.shape))
  }
  return traverse_util.unflatten_dict(stacked, sep="/")


@pytest.mark.slow
@pytest.mark.parametrize(("every", "layers"), [(1, 2), (2, 4)])
def test_scanned_layers_give_the_costs_of_looped_ones(every, layers):
  sizes = dict.fromkeys(("NUM_ENCODER_LAYERS", "NUM_DECODER_LAYERS"), layers)
  sizes["EXPERTS_EVERY"] = every
  looped, batch = model_and_batch("feed_forward/switch.gin", **sizes)
  scanned, _ = model_and_batch(
    "feed_forward/switch.gin", SCAN_LAYERS=True, **sizes
  )
  params = tiny_models.random_parameters(looped)
  stacked = stacked_as(scanned, params)
  mlps = stacked["encoder"]["layers"]
  if every == 2:
    assert mlps["every_2_from_1"]["mlp"].keys() == {"expert", "router"}
    assert mlps["every_2_from_0"]["mlp"].keys() == {"wi", "wo"}
  of_both = [
    terms_lib.sums(jax.jit(loss_of(model, batch))(of))
    for model, of in ((looped, params), (scanned, stacked))
  ]
  assert of_both[0].keys() == of_both[1].keys()
  for name, value in of_both[0].items():
    np.testing.assert_allclose(of_both[1][name], value, rtol=1e-5, err_msg=name)
  names = [norms.names(each, by_layer=True) for each in (params, stacked)]
  assert names[0] == names[1]
  np.testing.assert_allclose(
    *(norms.norms(each, by_layer=True) for each in (params, stacked)), rtol=1e-5
  )


@pytest.mark.slow
def test_alternating_layers_decode_scanned_as_they_do_looped():
  sizes = {"NUM_DECODER_LAYERS": 4, "EXPERTS_EVERY": 2}
  part = "feed_forward/switch.gin"
  looped, batch = model_and_batch(part, **sizes)
  scanned, _ = model_and_batch(part, SCAN_LAYERS=True, **sizes)
  params = tiny_models.random_parameters(looped)
  inputs = batch["encoder_input_tokens"]
  found = [
    jax.jit(functools.partial(generate, model, max_length=6))(
      of, inputs_BM=inputs
    ).tokens
    for model, of in (
      (looped, params),
      (scanned, stacked_as(scanned, params)),
    )
  ]
  np.testing.assert_array_equal(*found)


def test_a_cost_that_nothing_collects_is_refused():
  model, batch = model_and_batch("feed_forward/switch.gin")
  with pytest.raises(UserError, match="'load_balancing' of .* would be lost"):
    jax.eval_shape(
      lambda params: model.apply(
        {"params": params},
        batch,
        deterministic=False,
        rngs={"dropout": jax.random.key(0)},
        method="hidden",
      ),
      tiny_models.random_parameters(model),
    )


def test_the_last_of_each_so_many_layers_has_experts():
  for every, expected in ((4, (3, 7, 11)), (2, (1, 3, 5, 7, 9, 11))):
    model, _ = model_and_batch(
      "feed_forward/switch.gin",
      EXPERTS_EVERY=every,
      NUM_ENCODER_LAYERS=12,
    )
    assert model.encoder.layer_stack.places == expected
  stack = model_and_batch("feed_forward/switch.gin")[0].encoder.layer_stack
  assert not isinstance(stack, StackWithOtherLayers)
  mlp = Mlp(d_ff=3)
  assert with_other_mlp(stack, mlp, places=(-1,)).places == (1,)
  for wrong in ({}, {"every": 0}, {"every": 1, "places": (0,)}):
    with pytest.raises(UserError, match="give one of the two"):
      with_other_mlp(stack, mlp, **wrong)
  with pytest.raises(UserError, match="choose from -2 to 1"):
    with_other_mlp(stack, mlp, places=(2,))
