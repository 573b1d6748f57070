"""A run goes on from a T5X checkpoint as if it had never been away."""

import json
import pathlib
import types

import numpy as np
import optax
import pytest

from transformer_zoo.checkpoints import checkpoint_sources
from transformer_zoo.errors import UserError
from transformer_zoo.interop.t5x import adafactor as t5x_adafactor
from transformer_zoo.interop.t5x import checkpoints
from transformer_zoo.peft import trainable
from transformer_zoo.peft.trainable import GradualUnfreezing
from transformer_zoo.runs.loading import restoration
from transformer_zoo.runs.loading.initial_checkpoint import InitialCheckpoint
from transformer_zoo.tensors import orbax_checkpoints
from transformer_zoo.tensors.lazy_tensors import Tensor
from transformer_zoo.training.optimizers import schedules
from transformer_zoo.training.optimizers.adafactor import adafactor
from transformer_zoo.training.state import TrainState

# The tiny model has matrices that are factored, and others that are not.
SETTINGS = (
  *("adafactor.min_dim_size_to_factor=16", "TRAIN_STEPS=4"),
  "DROPOUT_RATE=0.0",  # Scanned layers draw otherwise than looped ones.
)


def leaves_of(folder, step):
  leaves = orbax_checkpoints.open_checkpoint(folder / "checkpoints" / str(step))
  return {name: leaf.read() for name, leaf in leaves.items()}


@pytest.mark.slow
@pytest.mark.parametrize("loss_scale", [1, 300])
def test_the_steps_after_a_t5x_checkpoint_are_those_of_the_run(
  train, tmp_path, monkeypatch, loss_scale
):
  """Looped layers went there, scanned ones go on.

  T5X's losses are sums, and its moments those of as many times the gradients.
  """
  # As if the tiny model had matrices that T5X factors.
  monkeypatch.setattr(t5x_adafactor, "MIN_DIM_SIZE_TO_FACTOR", 16)
  whole, resumed = tmp_path / "whole", tmp_path / "resumed"
  assert train(whole, *SETTINGS)[0] == 0
  leaves = orbax_checkpoints.open_checkpoint(whole / "checkpoints" / "2")
  checkpoints.write_checkpoint(
    tmp_path / "t5x",
    orbax_checkpoints.parameters(leaves),
    step=int(leaves["step"].read()),
    moments={
      name: Tensor.of(moment.read() * np.float32(loss_scale**2))
      for name, moment in orbax_checkpoints.moments(leaves).items()
    },
  )
  code, out, _ = train(
    resumed,
    *SETTINGS,
    f"INITIAL_CHECKPOINT_PATH={str(tmp_path / 't5x')!r}",
    "InitialCheckpoint.resume=True",
    f"InitialCheckpoint.loss_scale={loss_scale}",
    "SCAN_LAYERS=True",
  )
  assert code == 0
  assert "training 2 steps, 2 to 4" in out
  found, expected = leaves_of(resumed, 4), leaves_of(whole, 4)
  assert found.keys() == expected.keys()
  for name, value in expected.items():
    np.testing.assert_allclose(
      found[name], value, rtol=1e-5, atol=1e-6, err_msg=name
    )
  assert json.loads((resumed / "result.json").read_text())["step"] == 4


class TestRefusals:
  def check(
    self, *, steps=2, moments=("v_row", "v_col"), minimum=16, **options
  ):
    """Of a run with one matrix [16, 32]."""
    shapes = {"v_row": (16,), "v_col": (32,), "v": (16, 32)}
    found = {
      f"kernel/{name}": Tensor.of(np.ones(shapes[name], np.float32))
      for name in moments
    }
    source = checkpoint_sources.Source(
      pathlib.Path("there"),
      "the T5X checkpoint 'there'",
      {},
      steps=steps,
      find_moments=lambda: found or None,
    )
    optimizer = options.get("optimizer") or adafactor(
      schedules.constant(0.1), min_dim_size_to_factor=minimum
    )
    params = {"kernel": np.ones((16, 32), np.float32)}
    state = TrainState(np.int32(0), params, optimizer.init(params))
    program = types.SimpleNamespace(
      abstract_state=state, trainable=options.get("trainable", trainable.ALL)
    )
    opened = restoration.Restoration(source, assignment=None)
    return opened.check_resumption(program, 4)

  def test_what_fits_is_not_refused(self):
    assert self.check() == 2

  def test_layers_that_are_unfrozen_one_by_one(self):
    by_layer = trainable.Trainable(unfreezing=GradualUnfreezing(train_steps=4))
    with pytest.raises(UserError, match="counts the steps of the checkpoint, "):
      self.check(trainable=by_layer)

  def test_all_steps_made(self):
    with pytest.raises(
      UserError, match="has made 4 steps already; TRAIN_STEPS=4 counts them too"
    ):
      self.check(steps=4)

  def test_other_factoring(self):
    with pytest.raises(
      UserError, match="factored otherwise: kernel/v is not th"
    ):
      self.check(minimum=17)

  def test_no_state(self):
    with pytest.raises(UserError, match="has no state of Adafactor to resume"):
      self.check(moments=())

  def test_another_optimizer(self):
    with pytest.raises(UserError, match="this run has another optimizer"):
      self.check(optimizer=optax.sgd(0.1))

  @pytest.mark.parametrize("loss_scale", [0, -1.0, float("nan"), float("inf")])
  def test_a_scale_of_losses_that_is_none(self, loss_scale):
    with pytest.raises(
      UserError, match="loss_scale is .*; it has to be a positive number"
    ):
      InitialCheckpoint("there", resume=True, loss_scale=loss_scale)
