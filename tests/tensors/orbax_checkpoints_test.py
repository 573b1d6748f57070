"""Checkpoints of runs: what is written is restored, what is saved is read."""

import contextlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from transformer_zoo.errors import UserError
from transformer_zoo.tensors import orbax_checkpoints
from transformer_zoo.tensors.lazy_tensors import Tensor
from transformer_zoo.training.checkpoints import checksums
from transformer_zoo.training.checkpoints import reading
from transformer_zoo.training.checkpoints import run_checkpoints
from transformer_zoo.training.optimizers.adafactor import AdafactorState
from transformer_zoo.training.optimizers.adafactor import FullMoment
from transformer_zoo.training.state import TrainState

KERNEL = np.arange(12, dtype=np.float32).reshape(4, 3)


def state(**params) -> TrainState:
  moments = jax.tree.map(lambda p: FullMoment(v=2 * p), params)
  count = jnp.int32(5)
  return TrainState(count, params, AdafactorState(count, moments))


def save(folder, saved: TrainState):
  with contextlib.closing(run_checkpoints.Checkpoints(folder)) as made:
    made.save(5, saved, {})
  return folder / "5"


@pytest.mark.parametrize("chunk_bytes", [1, 24, 1 << 20])
def test_what_is_written_is_restored(tmp_path, monkeypatch, chunk_bytes):
  monkeypatch.setattr(orbax_checkpoints, "_CHUNK_BYTES", chunk_bytes)
  step = tmp_path / "checkpoints" / "0"
  leaves = {
    "params/encoder/kernel": Tensor.of(KERNEL),
    "params/encoder/turned": Tensor.of(KERNEL.T),
    "params/scale": Tensor.of(KERNEL[:, 0]),
  }
  written = orbax_checkpoints.write(step, leaves)
  checksums.write(step, written)
  assert checksums.verify(step)
  expected = {
    "encoder": {"kernel": KERNEL, "turned": KERNEL.T},
    "scale": KERNEL[:, 0],
  }
  restored = reading.restore_params(
    step, jax.tree.map(jnp.zeros_like, expected)
  )
  jax.tree.map(np.testing.assert_array_equal, restored, expected)


def test_a_whole_state_is_restored_by_a_run(tmp_path):
  saved = state(kernel=KERNEL, scale=np.ones(3, np.float32))
  # Where a run at a URL is copied to.
  place = tmp_path / "gs%3A%2F%2Fbucket"
  leaves = orbax_checkpoints.open_checkpoint(save(place, saved))
  assert set(leaves) == {
    "step",
    "params/kernel",
    "params/scale",
    "opt_state/count",
    "opt_state/moments/kernel/v",
    "opt_state/moments/scale/v",
  }
  orbax_checkpoints.write(tmp_path / "b" / "5", leaves)
  with contextlib.closing(run_checkpoints.Checkpoints(tmp_path / "b")) as made:
    restored, _ = made.restore_newest(jax.tree.map(jnp.zeros_like, saved))
  jax.tree.map(np.testing.assert_array_equal, restored, saved)


def test_layers_of_a_scanned_model_are_taken_apart(tmp_path):
  saved = state(encoder={"layers": {"kernel": KERNEL}, "norm": KERNEL[0]})
  leaves = orbax_checkpoints.open_checkpoint(save(tmp_path, saved))
  found = orbax_checkpoints.parameters(leaves)
  names = [f"encoder/layers_{i}/kernel" for i in range(4)]
  assert set(found) == {*names, "encoder/norm"}
  for row, name in zip(KERNEL, names, strict=True):
    assert found[name].shape == (3,)
    np.testing.assert_array_equal(found[name].read(), row)
  # They are compressed together, and so taken apart once for all of them.
  first, second = (found[name].read().base for name in names[:2])
  assert first is second is not None


def test_a_checkpoint_without_a_part_is_refused(tmp_path):
  step = save(tmp_path, state(kernel=KERNEL))
  (step / "state" / "_METADATA").write_text("{")
  with pytest.raises(UserError, match="is damaged or not of a run"):
    orbax_checkpoints.open_checkpoint(step)


@pytest.mark.parametrize("chunk_bytes", [24, 1 << 20])
def test_a_file_that_has_changed_is_found_when_it_is_read(
  tmp_path, monkeypatch, chunk_bytes
):
  monkeypatch.setattr(orbax_checkpoints, "_CHUNK_BYTES", chunk_bytes)
  leaves = {"params/kernel": Tensor.of(KERNEL)}
  written = orbax_checkpoints.write(tmp_path / "0", leaves)
  opened = orbax_checkpoints.open_checkpoint(tmp_path / "0", written)
  np.testing.assert_array_equal(opened["params/kernel"].read(), KERNEL)
  file = tmp_path / "0" / "state" / "params.kernel" / "0.0"
  content = file.read_bytes()
  file.write_bytes(b"\1" + content[1:])
  with pytest.raises(UserError, match="has changed since it was written"):
    opened["params/kernel"].read()
  file.write_bytes(content[:-1])
  with pytest.raises(UserError, match="is missing or cut off"):
    opened["params/kernel"].read()
