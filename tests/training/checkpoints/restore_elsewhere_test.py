"""A state saved on one mesh, scanned or looped, restored on others bit for bit.

Other numbers of processes: tests/runs/.
"""

import contextlib

from etils import epath
import jax
import numpy as np
import pytest

from tests import object_stores
from transformer_zoo import parameter_names
from transformer_zoo.errors import UserError
from transformer_zoo.objectives.sequence_to_sequence import SequenceToSequence
from transformer_zoo.peft.trainable import ALL
from transformer_zoo.peft.trainable import Trainable
from transformer_zoo.training.checkpoints.run_checkpoints import Checkpoints
from transformer_zoo.training.optimizers import schedules
from transformer_zoo.training.optimizers.adafactor import adafactor
from transformer_zoo.training.optimizers.lamb import lamb
from transformer_zoo.training.program import TrainProgram
from transformer_zoo.training.sharding.partitioning import Partitioning

SIZES = {"NUM_ENCODER_LAYERS": 2, "NUM_DECODER_LAYERS": 3}
OPTIMIZERS = {
  "adafactor": lambda rate: adafactor(rate, min_dim_size_to_factor=16),
  "lamb": lambda rate: lamb(rate, clip_norm=1.0, state_dtype="bfloat16"),
}


@pytest.fixture
def abstract(make_model):
  """Returns a function that gives a state's shapes and shardings."""

  def make(optimizer, scan, trainable=ALL, **mesh):
    partitioning = Partitioning(**mesh)
    rate = schedules.constant(0.1)
    program = TrainProgram(
      make_model(SCAN_LAYERS=scan, **SIZES),
      SequenceToSequence(),
      OPTIMIZERS[optimizer](rate),
      rate,
      partitioning,
      partitioning.mesh(),
      trainable=trainable,
    )
    with partitioning.activate(program.mesh):
      return program.abstract_state

  return make


def draw(abstract_state):
  rng = np.random.default_rng(0)
  return jax.tree.map(
    lambda leaf: jax.device_put(
      rng.integers(0, 1 << 20, leaf.shape).astype(leaf.dtype), leaf.sharding
    ),
    abstract_state,
  )


def by_name(state) -> dict[str, bytes]:
  """Every array, layers by themselves."""
  found = {}
  for path, leaf in jax.tree_util.tree_leaves_with_path(state):
    name = jax.tree_util.keystr(path, simple=True, separator="/")
    stacked, array = parameter_names.is_stacked(name), np.asarray(leaf)
    for i, layer in enumerate(parameter_names.names_in(name, leaf.shape)):
      found[layer] = (array[i] if stacked else array).tobytes()
  return found


def save(folder, state):
  with contextlib.closing(Checkpoints(folder)) as checkpoints:
    checkpoints.finish(7, state, {"tokens": 5.0})


def restore(folder, abstract_state):
  with contextlib.closing(Checkpoints(folder)) as checkpoints:
    state, progress = checkpoints.restore_newest(abstract_state)
  assert progress == {"tokens": 5.0}
  for leaf, wanted in zip(
    jax.tree.leaves(state), jax.tree.leaves(abstract_state), strict=True
  ):
    assert leaf.sharding.is_equivalent_to(wanted.sharding, leaf.ndim)
    assert leaf.dtype == wanted.dtype
  return state


@pytest.mark.slow
@pytest.mark.parametrize(
  "optimizer, place",
  [("adafactor", "folder"), ("lamb", "folder"), ("lamb", "gs://bucket")],
)
def test_other_meshes_and_layers(
  abstract, tmp_path, monkeypatch, optimizer, place
):
  """Scanned on one mesh, looped on a second, and back."""
  if place == "folder":
    place = tmp_path
  else:
    object_stores.use_bucket(monkeypatch)
    object_stores.forget()
    place = epath.Path(place)
  saved = draw(abstract(optimizer, scan=True, num_partitions=2, fsdp=4))
  save(place / "scanned", saved)
  elsewhere = abstract(optimizer, scan=True, num_partitions=4)
  assert by_name(restore(place / "scanned", elsewhere)) == by_name(saved)
  looped = restore(
    place / "scanned", abstract(optimizer, scan=False, num_partitions=8)
  )
  assert by_name(looped) == by_name(saved)
  save(place / "looped", looped)
  back = restore(
    place / "looped",
    abstract(optimizer, scan=True, num_partitions=2, fsdp=4),
  )
  assert jax.tree.structure(back) == jax.tree.structure(saved)
  jax.tree.map(np.testing.assert_array_equal, back, saved)


@pytest.mark.slow
@pytest.mark.parametrize("scan", [False, True])
def test_stacks_that_are_trained_in_part_keep_their_layout(
  abstract, tmp_path, scan
):
  upper = Trainable((r"decoder/layers_2/.*",))
  save(tmp_path, draw(abstract("lamb", scan, upper)))
  with pytest.raises(
    UserError,
    match=r"cannot be restored \(the moments of a stack that is trained in "
    "part lie as SCAN_LAYERS was, so bind it as it was; opt_state/.* differs",
  ):
    restore(tmp_path, abstract("lamb", not scan, upper))
  assert restore(tmp_path, abstract("lamb", scan, upper))
