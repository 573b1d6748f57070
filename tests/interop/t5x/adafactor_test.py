"""Adafactor's moments of T5X are those that ours would keep, and go on so."""

import re

import jax
import numpy as np
import pytest

from tests.interop import t5x_format
from transformer_zoo.errors import UserError
from transformer_zoo.interop.t5x import checkpoints
from transformer_zoo.tensors.lazy_tensors import Tensor
from transformer_zoo.training.optimizers import schedules
from transformer_zoo.training.optimizers.adafactor import adafactor

D, F, H, K, N = 128, 136, 2, 64, 2
# name -> logical axes and shape, as T5X's networks have them.
LOOPED = {
  "encoder/layers_0/mlp/wi/kernel": (("embed", "mlp"), (D, F)),
  "encoder/layers_0/mlp/wo/kernel": (("mlp", "embed"), (F, D)),
  "encoder/layers_0/attention/query/kernel": (("embed", "joined_kv"), (D, D)),
  "encoder/layers_0/attention/out/kernel": (("joined_kv", "embed"), (D, D)),
  "encoder/layers_0/attention/key/kernel": (("embed", "joined_kv"), (D, 20)),
  "encoder/relpos_bias/rel_embedding": (("heads", "relpos_buckets"), (H, 32)),
  "encoder/encoder_norm/scale": (("embed",), (D,)),
}
SCANNED = {
  "encoder/encoder/mlp/wi/kernel": (("embed", "layers", "mlp"), (D, N, F)),
  "encoder/encoder/mlp/wo/kernel": (("mlp", "layers", "embed"), (F, N, D)),
  "encoder/encoder/attention/query/kernel": (
    ("embed", "layers", "heads", "kv"),
    (D, N, H, K),
  ),
  "encoder/encoder/attention/out/kernel": (
    ("heads", "layers", "kv", "embed"),
    (H, N, K, D),
  ),
  "encoder/encoder/relpos_bias/rel_embedding": (
    ("heads", "layers", "relpos_buckets"),
    (H, N, 32),
  ),
  "encoder/encoder/pre_mlp_layer_norm/scale": (("embed", "layers"), (D, N)),
}
WITH_HEADS = {
  "encoder/layers_7/attention/query/kernel": (
    ("embed", "heads", "kv"),
    (D, H, K),
  ),
  "encoder/layers_7/attention/out/kernel": (
    ("heads", "kv", "embed"),
    (H, K, D),
  ),
}
NETWORKS = {"looped": LOOPED, "scanned": SCANNED, "with heads": WITH_HEADS}


def write(folder, network, **changes):
  """A checkpoint whose parameters are the squares that its moments are of."""
  random = np.random.RandomState(0)
  arrays, values = {}, {"state/step": np.int32(1)}
  for name, (axes, shape) in network.items():
    squared = random.random_sample(shape).astype(np.float32) + 0.1
    arrays[f"target/{name}"] = squared
    moments = {**t5x_format.moments_of(squared, axes), **changes}
    for moment, array in moments.items():
      if array is not None:
        values[f"state/param_states/{name}/{moment}"] = array
  t5x_format.write(folder / "checkpoint_1", arrays, values)
  return checkpoints.open_checkpoint(folder)


@pytest.mark.parametrize("network", NETWORKS)
def test_moments_are_means_over_the_axes_of_our_matrices(tmp_path, network):
  checkpoint = write(tmp_path, NETWORKS[network])
  moments = checkpoint.moments()
  for name, tensor in checkpoint.parameters().items():
    squared = tensor.read()
    if f"{name}/v" in moments:
      np.testing.assert_array_equal(moments[f"{name}/v"].read(), squared)
      continue
    for moment, axis in (("v_row", -1), ("v_col", -2)):
      np.testing.assert_allclose(
        moments[f"{name}/{moment}"].read(),
        squared.mean(axis=axis),
        rtol=1e-6,
        err_msg=f"{name}/{moment}",
      )


@pytest.mark.parametrize("scanned", [False, True])
def test_moments_that_are_written_are_t5xs(tmp_path, scanned):
  network = SCANNED if scanned else LOOPED
  there = write(tmp_path / "there", network)
  checkpoints.write_checkpoint(
    tmp_path / "here",
    there.parameters(),
    step=1,
    moments=there.moments(),
    scanned=scanned,
  )
  here = checkpoints.open_checkpoint(tmp_path / "here")
  assert here.tensors.keys() == there.tensors.keys()
  for name, tensor in there.tensors.items():
    np.testing.assert_array_equal(
      here.tensors[name].read(), tensor.read(), err_msg=name
    )


def test_the_next_update_is_t5xs(tmp_path):
  """With its formula (Shazeer and Stern 2018, algorithm 4), by hand."""
  checkpoint = write(tmp_path, LOOPED)
  tensors = {**checkpoint.parameters()}
  params = {name: t.read() for name, t in tensors.items()}
  moments = {name: t.read() for name, t in checkpoint.moments().items()}
  random = np.random.RandomState(1)
  gradients = {
    name: random.standard_normal(p.shape).astype(np.float32)
    for name, p in params.items()
  }
  optimizer = adafactor(schedules.constant(0.01))
  state = optimizer.init(params)
  state = state._replace(
    count=state.count + checkpoint.step,
    moments={
      name: type(moment)(*(moments[f"{name}/{m}"] for m in moment._fields))
      for name, moment in state.moments.items()
    },
  )
  updates, _ = jax.jit(optimizer.update)(gradients, state, params)
  for name, update in updates.items():
    expected = expected_update(
      params[name], gradients[name], tensors, checkpoint, name
    )
    np.testing.assert_allclose(
      update, expected, rtol=2e-5, atol=1e-9, err_msg=name
    )


def expected_update(parameter, gradient, tensors, checkpoint, name):
  """One step from T5X's own arrays, in their orientation."""
  state = {
    moment: checkpoint.tensors[f"state/param_states/{name}/{moment}"].read()
    for moment in ("v_row", "v_col", "v")
  }
  beta = 1 - 2**-0.8
  squared = np.square(gradient, dtype=np.float64) + 1e-30
  if state["v"].shape != (1,):
    u = gradient / np.sqrt(beta * state["v"] + (1 - beta) * squared)
  else:
    rows, columns = np.argsort(parameter.shape, kind="stable")
    v_row = beta * state["v_row"] + (1 - beta) * squared.mean(axis=columns)
    v_col = beta * state["v_col"] + (1 - beta) * squared.mean(axis=rows)
    v_row, v_col = (
      np.expand_dims(v, axis) for v, axis in ((v_row, columns), (v_col, rows))
    )
    u = gradient / np.sqrt(v_row * v_col / v_row.mean())
  u /= max(1.0, np.sqrt(np.mean(np.square(u))))
  return -0.01 * max(1e-3, np.sqrt(np.mean(np.square(parameter)))) * u


class TestRefusals:
  def test_momentum(self, tmp_path):
    momentum = {"m": np.ones((D,), np.float32)}
    with pytest.raises(UserError, match="has momentum .*scale/m"):
      write(tmp_path, LOOPED, **momentum).moments()

  def test_another_optimizer(self, tmp_path):
    checkpoint = write(tmp_path, LOOPED, v_row=None, v_col=None)
    assert checkpoint.has_optimizer_state
    with pytest.raises(UserError, match="scale/v_row: its optimizer was not"):
      checkpoint.moments()

  def test_other_rules_of_factoring(self, tmp_path):
    rows = np.ones((7,), np.float32)
    with pytest.raises(UserError, match=r"shape \(7,\) instead of \(128,\)"):
      write(tmp_path, LOOPED, v_row=rows).moments()

  @pytest.mark.parametrize(
    ("shape", "moment", "sentence"),
    [
      ((128, 256), "v", r"of shape \(128, 256\) factored, and these are whole"),
      ((64, 256), "v_row", r"of shape \(64, 256\) whole, and these are factor"),
    ],
  )
  def test_another_size_to_factor_from(self, tmp_path, shape, moment, sentence):
    kernel = "encoder/layers_0/mlp/wi/kernel"
    parameters = {kernel: Tensor.of(np.ones(shape, np.float32))}
    moments = {f"{kernel}/{moment}": parameters[kernel]}
    with pytest.raises(UserError, match=sentence):
      checkpoints.write_checkpoint(tmp_path, parameters, moments=moments)
    told = checkpoints.misfit(parameters, moments)
    assert re.search(sentence, told)

  @pytest.mark.parametrize(
    ("parameter", "moment", "sentence"),
    [
      ("mlp/wi/kernel", "v", "factored, and these are whole: it factors all"),
      (
        "attention/relpos_bias/rel_embedding",
        "v_row",
        "whole, and these are factored: it factors all",
      ),
    ],
  )
  def test_scanned_layers_that_are_factored_otherwise(
    self, tmp_path, parameter, moment, sentence
  ):
    checkpoint = write(tmp_path, SCANNED)
    parameters, moments = checkpoint.parameters(), checkpoint.moments()
    assert not checkpoints.misfit(parameters, moments, scanned=True)
    for i in range(N):
      name = f"encoder/layers_{i}/{parameter}"
      for theirs in ("v", "v_row", "v_col"):
        moments.pop(f"{name}/{theirs}", None)
      moments[f"{name}/{moment}"] = parameters[name]
    told = checkpoints.misfit(parameters, moments, scanned=True)
    assert parameter in told and sentence in told

  @pytest.mark.parametrize("scanned", [False, True])
  def test_a_parameter_that_was_not_trained(self, tmp_path, scanned):
    checkpoint = write(tmp_path, SCANNED if scanned else LOOPED)
    parameters, moments = checkpoint.parameters(), checkpoint.moments()
    name = list(parameters)[-1]
    del moments[f"{name}/v"]
    told = checkpoints.misfit(parameters, moments, scanned=scanned)
    assert told.startswith(f"there are no moments of {name!r}")
