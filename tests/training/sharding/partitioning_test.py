"""Two steps under every rule set on 8 devices against those on one device."""

import dataclasses
import functools
import math

from flax import linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from tests import rule_sets
from tests import tiny_models
from tests.golden import encoders
from transformer_zoo.corruption.ragged import Ragged
from transformer_zoo.forecast import collectives
from transformer_zoo.objectives.sequence_to_sequence import SequenceToSequence
from transformer_zoo.training import state as state_lib
from transformer_zoo.training.optimizers import schedules
from transformer_zoo.training.optimizers.adafactor import adafactor
from transformer_zoo.training.program import TrainProgram
from transformer_zoo.training.sharding import partitioning as partitioning_lib
from transformer_zoo.training.sharding.partitioning import ONE_COPY_PER_DEVICE
from transformer_zoo.training.state import TrainState

STEPS = 2
SIZES = {
  "EMBED_DIM": 16,
  "MLP_DIM": 32,
  "NUM_HEADS": 8,
  "HEAD_DIM": 4,
  "VOCAB_SIZE": 64,
  "DROPOUT_RATE": 0.3,
}


def keeping_gradients(optimizer):
  """The same optimizer; its state holds the last gradients as well."""

  def init(params):
    return optimizer.init(params), jax.tree.map(jnp.zeros_like, params)

  def update(gradients, state, params):
    updates, inner = optimizer.update(gradients, state[0], params)
    return updates, (inner, gradients)

  return optax.GradientTransformation(init, update)


@functools.cache
def build(kind):
  """A tiny model and a batch of 8 packed rows for it."""
  if kind == "decoder_only":
    model, converter = tiny_models.build(
      "prefix_lm", NUM_DECODER_LAYERS=1, **SIZES
    )
  else:
    part = () if kind == "encoder_decoder" else (f"feed_forward/{kind}.gin",)
    layers = {"NUM_ENCODER_LAYERS": 1, "NUM_DECODER_LAYERS": 1}
    # A router whose choices rounding does not change; there are too few places.
    experts = {"NUM_EXPERTS": 8, "CAPACITY_FACTOR": 1.0} if part else {}
    model, converter = tiny_models.build(
      "t5_1_1", *part, SCAN_LAYERS=True, **layers, **SIZES, **experts
    )
  rng = np.random.default_rng(0)
  rows = np.repeat(np.arange(8), 2)[:-1]

  def draw(low, high):
    return Ragged.of(
      [rng.integers(3, 64, rng.integers(low, high)) for _ in rows]
    )

  examples = {"inputs": draw(5, 13), "targets": draw(2, 7)}
  batch = converter(
    {name: examples[name] for name in converter.features},
    rows,
    num_rows=8,
    lengths={"inputs": 24, "targets": 12},
    packing=True,
    pad_id=0,
  )
  return model, batch


def make_program(kind, partitioning, devices=None, **settings):
  learning_rate = schedules.constant(0.1)
  optimizer = optax.sgd(learning_rate)
  if kind != "decoder_only":
    # Factors everything of this tiny model that has two axes.
    optimizer = adafactor(learning_rate, min_dim_size_to_factor=8)
  return TrainProgram(
    build(kind)[0],
    SequenceToSequence(),
    keeping_gradients(optimizer),
    learning_rate,
    partitioning,
    partitioning.mesh(devices),
    **settings,
  )


@dataclasses.dataclass(frozen=True)
class Run:
  """A program, its text before and after compilation, and what it made."""

  program: TrainProgram
  lowered: str
  compiled: jax.stages.Compiled
  state: object
  sums: list


def run(program, kind, initial):
  with program.partitioning.activate(program.mesh):
    program.check(8)
    state = jax.device_put(initial, program.state_shardings)
    batch = partitioning_lib.put_batch(build(kind)[1], program.mesh)
    lowered = program.step.lower(state, batch, jax.random.key(1))
    compiled = lowered.compile()
    all_sums = []
    for _ in range(STEPS):
      state, sums = compiled(state, batch, jax.random.key(1))
      all_sums.append(sums)
  return Run(program, lowered.as_text(), compiled, state, all_sums)


@functools.cache
def initial_state(kind):
  """At step 0, of random parameters."""
  program = make_program(kind, ONE_COPY_PER_DEVICE, jax.devices()[:1])
  params = tiny_models.random_parameters(program.model)
  opt_state = jax.device_get(jax.jit(program.optimizer.init)(params))
  return TrainState(np.int32(0), params, opt_state)


@functools.cache
def on_one_device(kind):
  program = make_program(kind, ONE_COPY_PER_DEVICE, jax.devices()[:1])
  return run(program, kind, initial_state(kind))


@functools.cache
def on_mesh(kind, name):
  program = make_program(kind, rule_sets.build(name))
  return run(program, kind, initial_state(kind))


# Scanned layers, a memory and Adafactor, on a mesh of every axis.
CASES = [
  ("encoder_decoder" if name == "two_dimensional" else "decoder_only", name)
  for name in rule_sets.ON_8_DEVICES
]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "name"), CASES)
def test_equals_one_device(kind, name, assert_close):
  found, expected = on_mesh(kind, name), on_one_device(kind)
  shape = found.program.mesh.shape
  assert tuple(shape.values()) == rule_sets.ON_8_DEVICES[name][2]
  assert_close(found.sums, expected.sums)
  assert_close(found.state.opt_state[1], expected.state.opt_state[1])
  assert_close(found.state.params, expected.state.params)


@pytest.mark.slow
@pytest.mark.parametrize(
  ("kind", "number", "sizes", "microbatches"),
  [
    ("switch", 2, {"expert": 2}, 1),
    ("switch", 4, {"expert": 4}, 2),
    ("mixture_of_experts", 8, {"expert": 4, "fsdp": 2}, 1),
    ("switch", 8, {"expert": 2, "num_partitions": 2}, 2),
  ],
)
def test_experts_on_several_devices_are_those_of_one(
  kind, number, sizes, microbatches, assert_close
):
  """Devices hold some of the experts, and exchange tokens by all-to-all."""
  program = make_program(
    kind,
    partitioning_lib.Partitioning(**sizes),
    jax.devices()[:number],
    num_microbatches=microbatches,
  )
  found, expected = run(program, kind, initial_state(kind)), on_one_device(kind)
  assert expected.sums[0]["load_balancing/dropped_sum"] > 0
  assert_close(found.sums, expected.sums)
  assert_close(found.state.opt_state[1], expected.state.opt_state[1])
  assert_close(found.state.params, expected.state.params)
  sent = {
    row.kind
    for row in collectives.totals(
      collectives.read(found.compiled.as_text(), dict(program.mesh.shape))
    )
    if "expert" in row.axes
  }
  assert "all-to-all" in sent
  kernel = found.state.params["encoder"]["layers"]["mlp"]["expert"]["wo"]
  (shape,) = {shard.data.shape for shard in kernel["kernel"].addressable_shards}
  assert shape[1] == 8 // sizes["expert"]


@pytest.mark.slow
@pytest.mark.parametrize(
  ("kind", "number", "sizes", "microbatches"),
  [
    ("decoder_only", 2, {"sequence": 2}, 1),
    ("encoder_decoder", 8, {"sequence": 4, "num_partitions": 2}, 2),
  ],
)
def test_lengths_on_several_devices_are_those_of_one(
  kind, number, sizes, microbatches, assert_close
):
  """Devices hold some of the tokens, and gather the keys of the others."""
  program = make_program(
    kind,
    partitioning_lib.Partitioning(**sizes),
    jax.devices()[:number],
    num_microbatches=microbatches,
  )
  found, expected = run(program, kind, initial_state(kind)), on_one_device(kind)
  assert_close(found.sums, expected.sums)
  assert_close(found.state.opt_state[1], expected.state.opt_state[1])
  assert_close(found.state.params, expected.state.params)
  length, rows = (36, 8) if kind == "decoder_only" else (24, 4)
  scores = f"tensor<{rows}x8x{length}x{length}xf32>"
  assert scores in found.lowered
  assert f"{length}x{length}" not in found.compiled.as_text()


@pytest.mark.slow
@pytest.mark.parametrize(
  "architecture", ["deberta_v3", "xlnet", "modernbert", "longt5"]
)
def test_other_attention_computes_the_same_where_lengths_are_divided(
  architecture,
):
  """Distances between tokens, windows and summaries go across devices."""
  model, converter = tiny_models.build(architecture)
  params = tiny_models.random_parameters(model)
  if model.offers.has_decoder:
    batch = tiny_models.lay_out(
      converter, tiny_models.random_examples(), packing=False, width=16
    )
  else:
    batch = {
      name: np.pad(array, ((0, 0), (0, -array.shape[1] % 2)))
      if array.ndim == 2
      else array
      for name, array in encoders.batch_for(model).items()
    }

  def logits():
    # Compiled anew: the mesh is no argument.
    apply = functools.partial(model.apply, method="all_logits")
    return jax.jit(apply)({"params": params}, batch)

  expected = logits()
  layout = partitioning_lib.Partitioning(sequence=2)
  with layout.activate(layout.mesh(jax.devices()[:2])):
    found = logits()
  for mine, right in zip(*map(jax.tree.leaves, (found, expected)), strict=True):
    scale = np.abs(right).max()
    np.testing.assert_allclose(mine, right, rtol=0, atol=2e-6 * scale)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "name"), CASES)
def test_activations_are_constrained(kind, name):
  lowered = on_mesh(kind, name).lowered
  length = 36 if kind == "decoder_only" else 24
  constraints = [
    line for line in lowered.splitlines() if "sharding_constraint" in line
  ]
  # Of the residual stream [B, L, D], of heads and of hidden features.
  for shape, layout in {
    f"8x{length}x16": '{"data", "fsdp"}, {}, {}',
    f"8x{length}x8x4": '{"data", "fsdp"}, {}, {"model"}, {}',
    f"8x{length}x32": '{"data", "fsdp"}, {}, {"model"}',
  }.items():
    if name == "sequence" and shape == "8x36x16":
      layout = '{"data", "fsdp"}, {"model"}, {}'
    laid_out = [line for line in constraints if f"tensor<{shape}xf32>" in line]
    assert any(f"[{layout}]" in line for line in laid_out), (shape, constraints)


@pytest.mark.slow
def test_initial_parameters_are_those_of_one_device(assert_close):
  program = make_program("decoder_only", rule_sets.build("two_dimensional"))
  with program.partitioning.activate(program.mesh):
    state = program.initial_state(jax.random.key(0))
  make = functools.partial(state_lib.initial_variables, program.model)
  expected = nn.unbox(jax.jit(make)(jax.random.key(0)))
  assert_close(state.params, expected, 1e-6)


def moved(name):
  """Bytes of arrays in collectives of a step, by kind and mesh axes."""
  found = on_mesh("decoder_only", name)
  shape = dict(found.program.mesh.shape)
  rows = collectives.totals(collectives.read(found.compiled.as_text(), shape))
  return {(row.kind, row.axes): row.bytes for row in rows}


def size_of(tree):
  return sum(leaf.nbytes for leaf in jax.tree.leaves(tree))


class TestCollectives:
  """What a step sends, which is what its method promises."""

  @pytest.mark.slow
  def test_data_parallel_adds_gradients_up(self):
    found = moved("data_parallel")
    assert found.keys() == {("all-reduce", ("data",))}
    params = initial_state("decoder_only").params
    # The table is looked up and makes logits; of the table of biases, those of
    # the heads' scores.
    gradients = size_of(params) + size_of(params["token_embedder"])
    gradients -= size_of(params["decoder"]["relpos_bias"])
    gradients += 4 * 8 * 36 * 36
    # And the sums.
    assert 0 < found["all-reduce", ("data",)] - gradients < 64

  @pytest.mark.slow
  @pytest.mark.parametrize(
    "name",
    ["fully_sharded", pytest.param("hybrid", marks=pytest.mark.slow)],
  )
  def test_fully_sharded_gathers_parameters_alone(self, name):
    found = moved(name)
    params = initial_state("decoder_only").params
    # Before the forward and the backward pass; of the table of embeddings only
    # what is looked up is sent, and the ids for it.
    gathered = 2 * (size_of(params) - size_of(params["token_embedder"]))
    assert found["all-gather", ("fsdp",)] < 1.1 * gathered
    assert not any("model" in axes for _, axes in found)

  @pytest.mark.slow
  def test_tensor_parallel_gathers_nothing(self):
    assert {kind for kind, _ in moved("tensor_parallel")} == {"all-reduce"}


@pytest.mark.slow
def test_the_step_takes_the_place_of_the_state():
  found = on_mesh("decoder_only", "fully_sharded")

  def on_device(tree):
    held = 0
    for leaf in jax.tree.leaves(tree):
      shape = leaf.sharding.shard_shape(leaf.shape)
      (size,) = {shard.data.nbytes for shard in leaf.addressable_shards}
      assert size == math.prod(shape) * leaf.dtype.itemsize
      held += size
    return held

  # The gradients that are kept for these tests are written and never read.
  kept = on_device(found.state.opt_state[1])
  analysis = found.compiled.memory_analysis()
  assert analysis.alias_size_in_bytes == on_device(found.state) - kept
