"""The compiled step: buffers, collectives, precision."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from transformer_zoo.errors import UserError
from transformer_zoo.forecast import compilation
from transformer_zoo.objectives.sequence_to_sequence import SequenceToSequence
from transformer_zoo.training.optimizers import schedules
from transformer_zoo.training.optimizers.adafactor import adafactor
from transformer_zoo.training.optimizers.adam import adamw
from transformer_zoo.training.program import TrainProgram
from transformer_zoo.training.sharding import partitioning as partitioning_lib
from transformer_zoo.training.sharding.partitioning import Partitioning

RATE = schedules.constant(0.1)
ADAFACTOR = adafactor(RATE, min_dim_size_to_factor=8)
GATHER = re.compile(r"= (\w+)\[([\d,]*)\]\S* all-gather")


def make_program(model, optimizer, partitioning, num_microbatches=1):
  return TrainProgram(
    model,
    SequenceToSequence(),
    optimizer,
    RATE,
    partitioning,
    partitioning.mesh(),
    num_microbatches=num_microbatches,
  )


@pytest.fixture(scope="module")
def compile_step(make_small, packed_batch, tmp_path_factory):
  """Returns a function: optimizer, parts -> program, memory, partitioned HLO.

  Layers are scanned, computed in bfloat16, and their parameters lie over 4 of
  8 devices; each device has 4 rows.
  """
  model = make_small(DTYPE="bfloat16", SCAN_LAYERS=True)
  rows = {key: np.tile(x, (4, 1)) for key, x in packed_batch.items()}

  def compile_step(optimizer, num_microbatches):
    program = make_program(
      model, optimizer, Partitioning(fsdp=4), num_microbatches
    )
    program.check(32)
    folder = tmp_path_factory.mktemp("hlo")
    options = {
      "xla_dump_to": str(folder),
      "xla_dump_hlo_pass_re": "spmd-partitioning",
    }
    with program.partitioning.activate(program.mesh):
      batch = partitioning_lib.put_batch(rows, program.mesh)
      lowered = program.step.lower(
        program.abstract_state, batch, jax.random.key(0)
      )
      memory = lowered.compile(options).memory_analysis()
    (dumped,) = folder.glob("*jit__step*after_spmd-partitioning*")
    return program, memory, dumped.read_text()

  # A program from the cache would not be dumped.
  least = "jax_persistent_cache_min_compile_time_secs"
  before = getattr(jax.config, least)
  jax.config.update(least, 1e9)
  yield compile_step
  jax.config.update(least, before)


@pytest.fixture(scope="module")
def whole(compile_step):
  return compile_step(ADAFACTOR, 1)


@pytest.fixture(scope="module")
def in_parts(compile_step):
  return compile_step(adamw(RATE, state_dtype="bfloat16"), 4)


@pytest.mark.slow
@pytest.mark.parametrize("made", ["whole", "in_parts"])
def test_there_is_no_second_copy_of_the_state(made, request):
  program, memory, _ = request.getfixturevalue(made)
  state = compilation.tree_bytes(program.abstract_state)
  assert memory.alias_size_in_bytes == state
  # What is returned besides is the sums, and a table of all arrays.
  assert memory.output_size_in_bytes < 1.1 * state


@pytest.mark.slow
def test_parts_need_less_memory(whole, in_parts):
  _, at_once, _ = whole
  _, one_by_one, _ = in_parts
  assert one_by_one.temp_size_in_bytes < 0.6 * at_once.temp_size_in_bytes


@pytest.mark.slow
@pytest.mark.parametrize(
  "made", [pytest.param("whole", marks=pytest.mark.slow), "in_parts"]
)
def test_matrices_are_gathered_in_the_compute_dtype(made, request):
  _, _, text = request.getfixturevalue(made)
  gathered = set(GATHER.findall(text))
  assert ("bf16", "16,32") in gathered
  # Kernels are [16, 32] and [32, 16]; the table and float32 logits are apart.
  assert not {("f32", "16,32"), ("f32", "32,16")} & gathered


@pytest.mark.slow
def test_devices_keep_their_rows(in_parts):
  _, _, text = in_parts
  moved = re.findall(
    r"= \(?(s32\[[\d,]*\])\S* (all-to-all|collective-permute)", text
  )
  assert not moved


def test_state_and_gradients_are_float32(in_parts):
  program, _, _ = in_parts
  params = program.abstract_state.params
  assert {leaf.dtype for leaf in jax.tree.leaves(params)} == {
    jnp.dtype("float32")
  }
  moments = program.abstract_state.opt_state.inner
  assert {leaf.dtype for leaf in jax.tree.leaves(moments) if leaf.ndim} == {
    jnp.dtype("bfloat16")
  }


@pytest.mark.slow
def test_costs_do_not_depend_on_the_parts(whole, in_parts, packed_batch):
  costs = []
  for program in (whole[0], in_parts[0]):
    with program.partitioning.activate(program.mesh):
      costs.append(
        (program.cost(packed_batch), program.model_flops(packed_batch))
      )
  (cost, flops), (cost_in_parts, flops_in_parts) = costs
  assert flops == flops_in_parts == cost.matmul_flops
  assert cost_in_parts.matmul_flops == cost.matmul_flops


def test_parts_that_do_not_divide_are_refused(make_small):
  program = make_program(make_small(), ADAFACTOR, Partitioning(fsdp=4), 3)
  with pytest.raises(UserError) as caught:
    program.check(64)
  assert str(caught.value) == (
    "NUM_MICROBATCHES=3 does not divide BATCH_SIZE=64 on 8 devices, 8 rows "
    "each; choose one of 1, 2, 4, 8"
  )
