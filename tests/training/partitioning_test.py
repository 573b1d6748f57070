"""One step on every mesh of 8 devices against the step on one device."""

import functools

from flax import linen as nn
import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec
import numpy as np
import optax
import pytest

from transformer_zoo.errors import UserError
from transformer_zoo.objectives.sequence_to_sequence import sequence_to_sequence
from transformer_zoo.training import partitioning as partitioning_lib
from transformer_zoo.training import schedules
from transformer_zoo.training import state as state_lib
from transformer_zoo.training.adafactor import adafactor
from transformer_zoo.training.partitioning import Partitioning
from transformer_zoo.training.step import train_step

STEPS = 2
# These programs run twice: compiling them is what takes time.
QUICKLY = {"xla_backend_optimization_level": 0}


def keeping_gradients(optimizer):
  """The same optimizer; its state holds the last gradients as well."""

  def init(params):
    return optimizer.init(params), jax.tree.map(jnp.zeros_like, params)

  def update(gradients, state, params):
    updates, inner = optimizer.update(gradients, state[0], params)
    return updates, (inner, gradients)

  return optax.GradientTransformation(init, update)


@pytest.fixture(scope="module")
def model(make_model):
  return make_model(DROPOUT_RATE=0.3)


@pytest.fixture(scope="module")
def optimizer():
  # Factors everything of this tiny model that has two axes.
  return keeping_gradients(
    adafactor(schedules.constant(0.1), min_dim_size_to_factor=8)
  )


@pytest.fixture(scope="module")
def step(model, optimizer):
  return functools.partial(
    train_step,
    objective=functools.partial(sequence_to_sequence, model),
    optimizer=optimizer,
  )


@pytest.fixture(scope="module")
def initial_state(model, optimizer):
  return state_lib.initial_state(model, optimizer, jax.random.key(0))


@pytest.fixture(scope="module")
def on_one_device(initial_state, step, packed_batch):
  with jax.default_device(jax.devices()[0]):
    state = initial_state
    jitted, all_sums = jax.jit(step, compiler_options=QUICKLY), []
    for _ in range(STEPS):
      state, sums = jitted(state, packed_batch, jax.random.key(1))
      all_sums.append(sums)
  return state, all_sums


@pytest.fixture(scope="module", params=[1, 2, 4, 8], ids="model={}".format)
def on_mesh(request, model, initial_state, step, packed_batch):
  """Mesh, lowered text, final state and sums with so many partitions."""
  partitioning = Partitioning(num_partitions=request.param)
  mesh = partitioning.mesh()
  boxed = state_lib.abstract_variables(model)
  partitioning.check(mesh, boxed, 8)
  with partitioning.activate(mesh):
    shardings = partitioning.shardings(mesh, boxed, initial_state)
    state = jax.device_put(initial_state, shardings)
    jitted = jax.jit(
      step, out_shardings=(shardings, None), compiler_options=QUICKLY
    )
    batch = partitioning_lib.put_batch(packed_batch, mesh)
    lowered = jitted.lower(state, batch, jax.random.key(1)).as_text()
    all_sums = []
    for _ in range(STEPS):
      state, sums = jitted(state, batch, jax.random.key(1))
      all_sums.append(sums)
  return mesh, lowered, state, all_sums


def test_equals_one_device(on_mesh, on_one_device, assert_close):
  _, _, state, sums = on_mesh
  expected_state, expected_sums = on_one_device
  assert_close(sums, expected_sums)
  assert_close(state.opt_state[1], expected_state.opt_state[1])
  assert_close(state.params, expected_state.params)


def test_activations_are_constrained(on_mesh):
  _, lowered, _, _ = on_mesh
  assert lowered.count("sharding_constraint") >= 10


def test_parameters_lie_as_the_rules_say(on_mesh):
  mesh, _, state, _ = on_mesh
  decoder = state.params["decoder"]
  layer = decoder["layers_0"]
  for kernel, spec, axis in (
    (state.params["token_embedder"]["embedding"], ("model", None), 0),
    (layer["mlp"]["wi_0"]["kernel"], (None, "model"), 1),
    (layer["mlp"]["wo"]["kernel"], ("model", None), 0),
    (layer["self_attention"]["query"]["kernel"], (None, "model"), 1),
    (layer["self_attention"]["out"]["kernel"], ("model", None), 0),
    (decoder["logits_dense"]["kernel"], (None, "model"), 1),
    (decoder["relpos_bias"]["rel_embedding"], ("model", None), 0),
  ):
    parts = kernel.sharding.spec
    assert (*parts, *[None] * (kernel.ndim - len(parts))) == spec
    held = kernel.addressable_shards[0].data.shape
    assert held[axis] * mesh.shape["model"] == kernel.shape[axis]
  scale = layer["pre_mlp_layer_norm"]["scale"]
  assert scale.sharding.is_fully_replicated


def test_moments_lie_with_their_parameters(on_mesh):
  mesh, _, state, _ = on_mesh
  moments = state.opt_state[0].moments
  layer = moments["decoder"]["layers_0"]["mlp"]

  def parts(x):
    return x.shape[0] // x.addressable_shards[0].data.shape[0]

  width = mesh.shape["model"]
  # wi_0 is [embed, mlp]: v_row runs over embed, v_col over mlp.
  assert parts(layer["wi_0"]["kernel"].v_row) == 1
  assert parts(layer["wi_0"]["kernel"].v_col) == width
  assert parts(layer["wo"]["kernel"].v_row) == width
  assert parts(layer["wo"]["kernel"].v_col) == 1
  assert parts(moments["token_embedder"]["embedding"].v_row) == width
  assert state.opt_state[0].count.sharding.is_fully_replicated


def test_stacked_layers_keep_their_own_axis(make_model):
  model = make_model(SCAN_LAYERS=True)
  optimizer = adafactor(schedules.constant(), min_dim_size_to_factor=8)
  partitioning = Partitioning(num_partitions=4)
  mesh = partitioning.mesh()
  shapes = jax.eval_shape(
    functools.partial(state_lib.initial_state, model, optimizer),
    jax.random.key(0),
  )
  shardings = partitioning.shardings(
    mesh, state_lib.abstract_variables(model), shapes
  )
  kernel = shardings.params["decoder"]["layers"]["mlp"]["wi_0"]["kernel"]
  assert kernel.spec == PartitionSpec(None, None, "model")
  moment = shardings.opt_state.moments["decoder"]["layers"]["mlp"]["wi_0"]
  assert moment["kernel"].v_row.spec == PartitionSpec(None, None)
  assert moment["kernel"].v_col.spec == PartitionSpec(None, "model")


def test_batches_lie_along_data(packed_batch):
  mesh = Partitioning(num_partitions=2).mesh()
  batch = partitioning_lib.put_batch(packed_batch, mesh)
  tokens = batch["encoder_input_tokens"]
  assert tokens.addressable_shards[0].data.shape == (2, 24)
  np.testing.assert_array_equal(tokens, packed_batch["encoder_input_tokens"])


class TestRefusals:
  def test_mesh_that_does_not_fit(self):
    with pytest.raises(UserError) as caught:
      Partitioning(num_partitions=3).mesh()
    assert str(caught.value) == (
      "num_slices=1, fsdp=1, num_partitions=3 do not fit 8 devices; meshes "
      "that do, as data x fsdp x num_partitions: 8x1x1, 4x1x2, 2x1x4, 1x1x8, "
      "4x2x1, 2x2x2, 1x2x4, 2x4x1, 1x4x2, 1x8x1"
    )

  def test_heads_that_do_not_divide(self, make_model):
    boxed = state_lib.abstract_variables(make_model(NUM_HEADS=6))
    partitioning = Partitioning(num_partitions=4)
    with pytest.raises(UserError) as caught:
      partitioning.check(partitioning.mesh(), boxed, 8)
    assert str(caught.value) == (
      "axis 'heads' of decoder/relpos_bias/rel_embedding has size 6, which "
      "does not divide over 4 partitions; choose num_partitions from 1, 2, 3, 6"
    )

  def test_batch_that_does_not_divide(self, model):
    partitioning = Partitioning(num_partitions=2)
    with pytest.raises(UserError) as caught:
      partitioning.check(
        partitioning.mesh(), state_lib.abstract_variables(model), 6
      )
    assert str(caught.value) == (
      "BATCH_SIZE=6 does not divide over the mesh's data and fsdp axes of 4 "
      "devices; choose a multiple of 4"
    )

  def test_rule_with_an_unknown_mesh_axis(self):
    with pytest.raises(UserError) as caught:
      Partitioning(rules=(("mlp", "modl"),))
    assert str(caught.value) == (
      "partitioning rule for 'mlp' names mesh axis 'modl'; allowed: 'data', "
      "'fsdp', 'model', several of them or None"
    )

  def test_rule_with_an_unknown_logical_axis(self):
    with pytest.raises(UserError, match="unknown logical axis 'mpl'; allowed:"):
      Partitioning(rules=(("mpl", "model"),))


def test_every_logical_axis_has_a_rule():
  from transformer_zoo import axes

  ruled = [logical for logical, _ in partitioning_lib.STANDARD_RULES]
  assert sorted(ruled) == sorted(axes.LOGICAL_AXES)
  assert nn.logical_to_mesh_axes(
    ("batch", "length", "heads", "kv"), partitioning_lib.STANDARD_RULES
  ) == PartitionSpec(("data", "fsdp"), None, "model", None)
