"""Trained parameters alone have gradients and moments, and move."""

import contextlib
import functools
import re

from flax import traverse_util
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from tests import tiny_models
from tests import tiny_t5
from transformer_zoo.errors import UserError
from transformer_zoo.modules.feed_forward import Mlp
from transformer_zoo.objectives.sequence_to_sequence import SequenceToSequence
from transformer_zoo.objectives.terms import Term
from transformer_zoo.peft import substitution
from transformer_zoo.peft.adapters import adapters
from transformer_zoo.peft.trainable import ALL
from transformer_zoo.peft.trainable import GradualUnfreezing
from transformer_zoo.peft.trainable import Trainable
from transformer_zoo.training import layout_report
from transformer_zoo.training import state as state_lib
from transformer_zoo.training.checkpoints.retention import Checkpointing
from transformer_zoo.training.checkpoints.run_checkpoints import Checkpoints
from transformer_zoo.training.optimizers import schedules
from transformer_zoo.training.optimizers.adafactor import adafactor
from transformer_zoo.training.program import TrainProgram
from transformer_zoo.training.sharding import partitioning as partitioning_lib
from transformer_zoo.training.sharding.partitioning import ONE_COPY_PER_DEVICE
from transformer_zoo.training.sharding.partitioning import Partitioning
from transformer_zoo.training.state import TrainState
from transformer_zoo.training.step import train_step

ADAPTERS = Trainable((".*/adapter/.*", ".*norm/.*"))
RATE = schedules.constant(0.1)
# Products with an axis of d_model; activations of `BATCH` have 56 tokens.
KERNEL_GRADIENT = re.compile(r"= f32\[(24,\d+|(?!56)\d+,24)\]\S* dot\(")


def flat(tree):
  return traverse_util.flatten_dict(tree, sep="/")


def toy(*names, layers=3):
  """Parameters of a scanned stack and some others."""
  stacked = {f"decoder/layers/{name}": jnp.ones((layers, 2)) for name in names}
  others = {"token_embedder/embedding": jnp.ones((4, 2))}
  return traverse_util.unflatten_dict(stacked | others, sep="/")


def test_what_is_trained_is_taken_out_and_put_back():
  params = toy("mlp/kernel", "norm/scale")
  trained = Trainable((".*norm/.*",)).select(params)
  assert [*flat(trained)] == ["decoder/layers/norm/scale"]
  doubled = jax.tree.map(lambda x: 2 * x, trained)
  after = flat(ALL.replace(params, doubled))
  assert after.keys() == flat(params).keys()
  assert {float(x.max()) for x in after.values()} == {1.0, 2.0}
  assert ALL.select(params).keys() == params.keys()


def test_layers_are_chosen_inside_of_a_stack():
  params = toy("mlp/kernel")
  trainable = Trainable(("decoder/layers_2/.*",))
  updates = trainable.select(params)
  assert [*flat(updates)] == ["decoder/layers/mlp/kernel"]
  due = trainable.updates_at(updates, params, jnp.int32(10**6))
  np.testing.assert_array_equal(*flat(due).values(), [[0, 0], [0, 0], [1, 1]])


def sum_of_all(params, batch, key):
  """An objective whose gradients are all `x`."""
  del key
  total = sum(jnp.sum(x) for x in jax.tree.leaves(params))
  return {"x": Term(total * batch["x"], jnp.float32(1), {})}


def test_norms_are_of_layers_that_are_trained():
  params = toy("mlp/kernel")
  optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(1.0))
  trainable = Trainable(("decoder/layers_2/.*",))
  step = jax.jit(
    functools.partial(
      train_step,
      objective=sum_of_all,
      optimizer=optimizer,
      trainable=trainable,
    )
  )
  state, sums = step(
    TrainState(jnp.int32(0), params, optimizer.init(trainable.select(params))),
    {"x": jnp.float32(3)},
    jax.random.key(0),
  )
  np.testing.assert_allclose(sums["gradient_norm"], 3 * 2**0.5, rtol=1e-6)
  moved = 1 - flat(state.params)["decoder/layers/mlp/kernel"]
  np.testing.assert_allclose(moved, [[0, 0], [0, 0], [0.5**0.5] * 2], 1e-6)


def test_layers_that_are_not_trained_count_nowhere():
  """As where they are looped, and have no gradients at all."""
  params = toy("mlp/kernel")
  trainable = Trainable(("decoder/layers_(0|2)/.*",))
  gradients = jax.tree.map(lambda leaf: 3 * leaf, trainable.select(params))
  found = trainable.without_others(gradients, params)
  np.testing.assert_array_equal(*flat(found).values(), [[3, 3], [0, 0], [3, 3]])
  assert trainable.count(params) == 4
  whole = Trainable().without_others(params, params)
  jax.tree.map(np.testing.assert_array_equal, whole, params)
  assert Trainable().count(params) == 14


def test_a_stack_is_unfrozen_from_the_top_by_its_own_rows():
  params = toy("mlp/kernel")
  trainable = Trainable(unfreezing=GradualUnfreezing(9))
  due = jax.jit(lambda step: trainable.updates_at(params, params, step))
  for step, expected in ((0, [0, 0, 1]), (2, [0, 0, 1]), (3, [0, 1, 1])):
    found = flat(due(step))
    np.testing.assert_array_equal(
      found["decoder/layers/mlp/kernel"][:, 0], expected
    )
    assert np.all(found["token_embedder/embedding"] == 1)
  assert np.all(flat(due(6))["decoder/layers/mlp/kernel"] == 1)
  assert due._cache_size() == 1


@pytest.mark.parametrize(
  ("expressions", "sentence"),
  [
    (
      (".*norm/.*", "decoder/layers_0/mpl/kernel"),
      "Trainable.parameters: 'decoder/layers_0/mpl/kernel' matches (as a "
      "whole) no parameter; did you mean 'decoder/layers_0/mlp/kernel', "
      "'decoder/layers_2/mlp/kernel', 'decoder/layers_1/mlp/kernel'?",
    ),
    ((), "Trainable.parameters is empty: nothing would be trained"),
  ],
)
def test_expressions_that_train_nothing(expressions, sentence):
  with pytest.raises(UserError) as error:
    Trainable(expressions).check(toy("mlp/kernel", "norm/scale"))
  assert str(error.value) == sentence


def test_no_expression():
  with pytest.raises(UserError) as error:
    Trainable(("(",))
  assert str(error.value).startswith(
    "Trainable.parameters: '(' is no regular expression: missing )"
  )


def make_program(
  trainable, partitioning=ONE_COPY_PER_DEVICE, microbatches=1, scan=True
):
  base, _ = tiny_models.build("lm", SCAN_LAYERS=scan, DROPOUT_RATE=0.0)
  model = substitution.substitute(base, [adapters(Mlp(d_ff=6))])
  devices = 8 if partitioning.num_partitions > 1 else 1
  return TrainProgram(
    model,
    SequenceToSequence(),
    adafactor(RATE),
    RATE,
    partitioning,
    partitioning.mesh(jax.devices()[:devices]),
    num_microbatches=microbatches,
    trainable=trainable,
  )


BATCH = tiny_t5.random_batch(rows=8, vocab_size=48)


@functools.cache
def initial_state():
  program = make_program(ADAPTERS)
  make = functools.partial(
    state_lib.initial_state,
    program.model,
    program.optimizer,
    trainable=ADAPTERS,
  )
  shapes = jax.eval_shape(make, jax.random.key(0))
  random = np.random.RandomState(0)
  state = jax.tree.map(
    lambda x: np.asarray(random.random_sample(x.shape), x.dtype), shapes
  )
  return state.replace(params=tiny_models.random_parameters(program.model))


def run(program):
  """Two steps: parameters after them, and the compiled program."""
  with program.partitioning.activate(program.mesh):
    program.check(8)
    state = jax.device_put(initial_state(), program.state_shardings)
    batch = partitioning_lib.put_batch(BATCH, program.mesh)
    lowered = program.step.lower(state, batch, jax.random.key(1))
    compiled = lowered.compile()
    for _ in range(2):
      state, _ = compiled(state, batch, jax.random.key(1))
  return flat(jax.device_get(state.params)), compiled


@pytest.fixture(scope="module")
def adapted():
  program = make_program(ADAPTERS)
  return program, *run(program)


@pytest.mark.slow
def test_frozen_parameters_have_no_gradients_and_no_moments(adapted):
  program, after, compiled = adapted
  before = flat(initial_state().params)
  trained = set(flat(program.trained_params))
  assert trained == {n for n in before if "/adapter/" in n or "norm/" in n}
  # One full moment for each of them, and the count: no slot for another.
  slots = {
    jax.tree_util.keystr(path[1:-1], simple=True, separator="/")
    for path, leaf in jax.tree_util.tree_leaves_with_path(
      program.abstract_state.opt_state
    )
    if leaf.ndim
  }
  assert slots == trained
  gradients = set(KERNEL_GRADIENT.findall(compiled.as_text()))
  assert gradients == {"24,6", "6,24"}
  assert moved(before, after) == trained
  numbers = sum(leaf.size for leaf in jax.tree.leaves(program.trained_params))
  whole = sum(x.size for x in before.values())
  lines = [*layout_report.layout(program)]
  assert f"trained: {numbers:,} of {whole:,} parameters" in lines


@pytest.mark.slow
def test_devices_and_microbatches_change_nothing(adapted):
  _, expected, _ = adapted
  found, _ = run(make_program(ADAPTERS, Partitioning(num_partitions=2), 2))
  for name, value in expected.items():
    np.testing.assert_allclose(
      found[name], value, rtol=2e-4, atol=2e-5, err_msg=name
    )


@pytest.mark.parametrize("scan", [True, False])
def test_saved_and_resumed(scan, tmp_path):
  """The state of some parameters alone, scanned or looped."""
  state = initial_state()
  with contextlib.closing(Checkpoints(tmp_path, Checkpointing())) as saved:
    saved.save(2, jax.device_put(state), {})
    saved.finish(2, state, {})
  program = make_program(ADAPTERS, scan=scan)
  with program.partitioning.activate(program.mesh):
    with contextlib.closing(Checkpoints(tmp_path, Checkpointing())) as saved:
      restored, _ = saved.restore_newest(program.abstract_state)
  found = flat(restored.params)
  if scan:
    jax.tree.map(np.testing.assert_array_equal, restored, state)
  kernels = flat(state.params)["decoder/layers/adapter/wi/kernel"]
  for i, kernel in enumerate(kernels):
    name = "layers" if scan else f"layers_{i}"
    kernel_i = found[f"decoder/{name}/adapter/wi/kernel"]
    np.testing.assert_array_equal(kernel_i[i] if scan else kernel_i, kernel)


@pytest.mark.slow
def test_flops_leave_out_gradients_that_are_not_computed():
  program, whole = make_program(ADAPTERS), make_program(ALL)
  found = program.model_flops(BATCH)
  assert found == program.cost(BATCH).matmul_flops
  # Two thirds of what training it all takes, and the adapters' own gradients.
  assert 2 / 3 < found / whole.model_flops(BATCH) < 0.75


def moved(before, after):
  return {name for name in before if np.any(before[name] != after[name])}


def test_unfreezing_follows_the_steps_in_one_program():
  """Three layers in the decoder, two in the encoder, three steps."""
  names = [f"encoder/layers_{i}/kernel" for i in range(2)]
  names += [f"decoder/layers_{i}/kernel" for i in range(3)]
  outside = ["token_embedder/embedding", "decoder/decoder_norm/scale"]
  params = {name: jnp.ones(2) for name in [*names, *outside]}
  params["decoder/relpos_bias/rel_embedding"] = jnp.ones(2)

  optimizer = optax.sgd(0.1)
  step = jax.jit(
    functools.partial(
      train_step,
      objective=sum_of_all,
      optimizer=optimizer,
      trainable=Trainable(unfreezing=GradualUnfreezing(3)),
    )
  )
  params = traverse_util.unflatten_dict(params, sep="/")
  state = TrainState(jnp.int32(0), params, optimizer.init(params))
  late = []
  for _ in range(3):
    before = state
    state, _ = step(before, {"x": jnp.float32(1)}, jax.random.key(0))
    still = set(names) - moved(flat(before.params), flat(state.params))
    assert set(outside) <= moved(flat(before.params), flat(state.params))
    late.append(still)
  encoder, decoder = names[:2], names[2:]
  assert late == [{encoder[0], *decoder[:2]}, {decoder[0]}, set()]
  bias = flat(state.params)["decoder/relpos_bias/rel_embedding"]
  np.testing.assert_allclose(bias, 0.9)  # One step of three.
  assert step._cache_size() == 1


OUTSIDE = (
  "token_embedder/embedding",
  "encoder/encoder_norm/scale",
  "decoder/logits_dense/kernel",
)


def names(encoder, decoder):
  of_layers = [
    f"{stack}/layers_{i}/mlp/wi/kernel"
    for stack, depth in (("encoder", encoder), ("decoder", decoder))
    for i in range(depth)
  ]
  biases = [
    f"{stack}/relpos_bias/rel_embedding"
    for stack, depth in (("encoder", encoder), ("decoder", decoder))
    if depth
  ]
  return [*of_layers, *biases, *OUTSIDE]


def starts(encoder, decoder, steps, **options):
  found = GradualUnfreezing(steps, **options).starts(names(encoder, decoder))
  assert {found[name] for name in OUTSIDE} == {0}
  return {
    stack: [found[f"{stack}/layers_{i}/mlp/wi/kernel"] for i in range(depth)]
    for stack, depth in (("encoder", encoder), ("decoder", decoder))
    if depth
  }, found


def test_twelve_layers_in_twelve_episodes_of_the_paper():
  """Section 3.5.1: 2^18 steps; layers 12 - n to 12 in episode n."""
  by_stack, found = starts(12, 12, 2**18)
  for stack in ("encoder", "decoder"):
    for n in range(12):
      begun = n * 2**18 / 12
      trained = [i + 1 for i, at in enumerate(by_stack[stack]) if at <= begun]
      assert trained == list(range(12 - n, 13))
    # Shared by all layers, and the first one's in T5's code.
    assert found[f"{stack}/relpos_bias/rel_embedding"] == 11 * 2**18 // 12


def test_other_depths():
  assert starts(3, 3, 300)[0]["encoder"] == [200, 100, 0]
  by_stack, found = starts(6, 2, 600)
  assert by_stack["encoder"] == [500, 400, 300, 200, 100, 0]
  assert by_stack["decoder"] == [100, 0]  # In parallel, from the top.
  assert found["decoder/relpos_bias/rel_embedding"] == 100
  assert starts(0, 4, 8)[0]["decoder"] == [6, 4, 2, 0]
  assert starts(1, 1, 100)[0]["encoder"] == [0]
  assert starts(12, 12, 6)[0]["encoder"][::-1] == [n // 2 for n in range(12)]


def test_fewer_episodes_add_several_layers_at_once():
  by_stack, _ = starts(4, 4, 100, episodes=2)
  assert by_stack["decoder"] == [50, 50, 0, 0]
  assert starts(4, 4, 100, episodes=1)[0]["decoder"] == [0, 0, 0, 0]


def test_what_is_trained_with_the_first_layer_is_a_choice():
  found = GradualUnfreezing(8, with_first_layer=(r".*embedd.*",)).starts(
    ["decoder/layers_0/x", "decoder/layers_1/x", "decoder/embedder/table"]
  )
  assert [*found.values()] == [4, 0, 4]


def test_refusals():
  with pytest.raises(UserError) as error:
    GradualUnfreezing(8, episodes=0)
  assert str(error.value) == "GradualUnfreezing.episodes=0 must be at least 1"
  with pytest.raises(UserError) as error:
    GradualUnfreezing(8).starts(OUTSIDE)
  assert str(error.value) == (
    "GradualUnfreezing: the model has no layers to unfreeze"
  )
