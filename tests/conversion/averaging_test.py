"""The mean of a run's last checkpoints, written, and laid out on devices."""

from flax import traverse_util
import jax
import numpy as np
import pytest

from tests.golden import families
from transformer_zoo import config
from transformer_zoo.checkpoints import averaging
from transformer_zoo.checkpoints import converted_run
from transformer_zoo.cli import main as cli
from transformer_zoo.interop.huggingface import directory
from transformer_zoo.interop.huggingface import family_of
from transformer_zoo.runs.loading import restoration
from transformer_zoo.tensors import orbax_checkpoints
from transformer_zoo.tensors.lazy_tensors import Tensor
from transformer_zoo.training.checkpoints import checksums
from transformer_zoo.training.sharding.partitioning import Partitioning


@pytest.fixture(scope="module")
def run(tmp_path_factory):
  """A run of three checkpoints, of 1, 2 and 4 times the same parameters."""
  described, _, params, _ = families.setting("t5_1_0")
  flat = {
    f"params/{name}": np.asarray(leaf)
    for name, leaf in traverse_util.flatten_dict(params, sep="/").items()
  }
  folder = tmp_path_factory.mktemp("average") / "run"
  architecture = family_of(described).architecture(described)
  for step, factor in ((1, 1), (2, 2), (3, 4)):
    leaves = {name: Tensor.of(leaf * factor) for name, leaf in flat.items()}
    if step == 1:
      converted_run.write_run(
        folder,
        architecture.gin_files,
        architecture.as_overrides(),
        leaves,
        step=step,
      )
      continue
    checkpoint = folder / "checkpoints" / str(step)
    checksums.write(checkpoint, orbax_checkpoints.write(checkpoint, leaves))
  return folder, params


@pytest.mark.parametrize(("number", "factor"), [(1, 4), (2, 3), (3, 7 / 3)])
def test_the_mean_is_written(run, number, factor, tmp_path):
  folder, params = run
  target = tmp_path / "mean"
  words = ["convert", str(folder), str(target), f"--average={number}"]
  assert cli.main(words) == 0
  found = directory.open_directory(target).parameters()
  for name, leaf in traverse_util.flatten_dict(params, sep="/").items():
    np.testing.assert_allclose(
      found[name].read(), np.asarray(leaf) * factor, rtol=1e-6
    )


def test_a_run_of_ours_from_a_run_of_ours(run, tmp_path):
  folder, _ = run
  target = tmp_path / "mean"
  words = ["convert", str(folder), str(target), "--average=2", "--to=zoo"]
  assert cli.main(words) == 0
  assert converted_run.open_run(target).step == 3


@pytest.mark.parametrize(("number", "factor"), [(1, 4), (2, 3), (3, 7 / 3)])
def test_the_mean_is_laid_out(run, number, factor):
  """As `zoo evaluate --average` and the studies of averages read it."""
  folder, params = run
  model = config.build("MODEL", [str(folder / "config.gin")])
  partitioning = Partitioning()
  mesh = partitioning.mesh()
  with partitioning.activate(mesh):
    found = restoration.restore(
      *(model, partitioning, mesh, mesh.size),
      *map(str, averaging.last_steps(folder, number)),
    )
  jax.tree.map(
    lambda leaf, mean: np.testing.assert_allclose(
      mean, np.asarray(leaf) * factor, rtol=1e-6
    ),
    params,
    found,
  )


@pytest.mark.parametrize("number", [0, 4])
def test_what_a_run_has_not_is_refused(run, number, tmp_path, capsys):
  folder, _ = run
  words = ["convert", str(folder), str(tmp_path / "x"), f"--average={number}"]
  assert cli.main(words) == 2
  assert f"--average {number}" in capsys.readouterr().err.replace(" is ", " ")
