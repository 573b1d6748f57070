"""Checkpoints: identical, kept by rule, and damage is found."""

import contextlib
import json
import pathlib
import shutil

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec
import numpy as np
import pytest

from transformer_zoo.errors import UserError
from transformer_zoo.training.checkpoints import reading as checkpointing
from transformer_zoo.training.checkpoints.retention import Checkpointing
from transformer_zoo.training.checkpoints.retention import KEEP_NEWEST_AND_BEST
from transformer_zoo.training.checkpoints.run_checkpoints import Checkpoints
from transformer_zoo.training.checkpoints.step_folders import UNFINISHED
from transformer_zoo.training.sharding import partitioning
from transformer_zoo.training.state import TrainState


@pytest.fixture(scope="module")
def shardings():
  mesh = partitioning.Partitioning(num_partitions=2).mesh()
  everywhere = NamedSharding(mesh, PartitionSpec())
  split = NamedSharding(mesh, PartitionSpec(None, "model"))
  return TrainState(
    step=everywhere,
    params={"kernel": split, "scale": everywhere},
    opt_state=(split,),
  )


@pytest.fixture(scope="module")
def make_state(shardings):
  def make(step, width=8):
    rng = np.random.default_rng(step)

    def draw(*shape):
      return rng.standard_normal(shape).astype(np.float32)

    state = TrainState(
      step=np.int32(step),
      params={"kernel": draw(4, width), "scale": draw(5)},
      opt_state=(draw(3, 4),),
    )
    return jax.device_put(state, shardings)

  return make


@pytest.fixture(scope="module")
def abstract(make_state, shardings):
  return partitioning.abstract(make_state(0), shardings)


@pytest.fixture
def folder(tmp_path):
  return tmp_path / "run" / "checkpoints"


@pytest.fixture
def save(folder, make_state):
  """Returns a function that saves steps: {step: progress}."""

  def save_all(steps, options=KEEP_NEWEST_AND_BEST, scores=None):
    checkpoints = Checkpoints(folder, options)
    for step, progress in steps.items():
      checkpoints.save(step, make_state(step), progress)
      checkpoints.scores.by_step |= (scores or {}).get(step, {})
    checkpoints.close()

  return save_all


def restore(folder, abstract):
  """Restored state and progress, and what was reported."""
  reports = []
  checkpoints = Checkpoints(folder, report=reports.append)
  restored = checkpoints.restore_newest(abstract)
  checkpoints.close()
  return restored, reports


def assert_identical(actual, expected):
  for a, b in zip(
    jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True
  ):
    assert a.dtype == b.dtype and a.sharding.is_equivalent_to(
      b.sharding, a.ndim
    )
    assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


def steps_in(folder):
  return sorted(int(path.name) for path in folder.iterdir())


def largest_file(folder) -> pathlib.Path:
  files = [path for path in (folder / "state").rglob("*") if path.is_file()]
  return max(files, key=lambda path: path.stat().st_size)


def test_restores_what_was_saved(folder, save, make_state, abstract):
  progress = {"best_step": None, "window": {"sums": {"loss": 0.1 + 0.2}}}
  save({3: progress})
  (state, read), reports = restore(folder, abstract)
  assert_identical(state, make_state(3))
  assert read == progress and not reports


def test_a_disk_that_cannot_hold_a_checkpoint(folder, abstract, monkeypatch):
  usage = shutil.disk_usage(folder.parents[1])
  monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=9))
  with contextlib.closing(Checkpoints(folder)) as checkpoints:
    with pytest.raises(UserError, match="0.00 GB left and a checkpoint needs"):
      checkpoints.check_room(abstract)
    monkeypatch.undo()
    checkpoints.check_room(abstract)


def test_nothing_to_restore(folder, abstract):
  assert restore(folder, abstract) == (None, [])


def test_keeps_the_newest_two_and_the_best(folder, save):
  save({step: {} for step in range(1, 6)}, scores={2: {2: 0.5}, 4: {4: 0.2}})
  assert steps_in(folder) == [2, 4, 5]
  save({6: {}, 7: {}, 8: {}}, scores={6: {2: 0.5, 6: 0.9}})
  assert steps_in(folder) == [6, 7, 8]


def flip(step_folder):
  path = largest_file(step_folder)
  content = bytearray(path.read_bytes())
  content[len(content) // 2] ^= 1
  path.write_bytes(content)
  return path.relative_to(step_folder).as_posix(), "has changed since it was"


def truncate(step_folder):
  path = largest_file(step_folder)
  path.write_bytes(path.read_bytes()[:-7])
  return path.relative_to(step_folder).as_posix(), "has changed since it was"


def remove(step_folder):
  path = largest_file(step_folder)
  path.unlink()
  return path.relative_to(step_folder).as_posix(), "is missing"


def remove_progress(step_folder):
  (step_folder / "progress" / "metadata").unlink()
  return "progress/metadata", "is missing"


@pytest.mark.parametrize("damage", [flip, truncate, remove, remove_progress])
def test_a_damaged_newest_is_reported_and_put_aside(
  damage, folder, save, make_state, abstract
):
  save({2: {}, 4: {}})
  file, what = damage(folder / "4")
  (state, _), (report,) = restore(folder, abstract)
  assert_identical(state, make_state(2))
  assert report.startswith(f"checkpoint 4 is damaged ({file} {what}")
  assert report.endswith(
    f"it is put aside as {folder / '4.damaged'} and the one before is used"
  )
  # The run comes to step 4 again; a second start finds nothing wrong.
  save({4: {}, 6: {}})
  (state, _), reports = restore(folder, abstract)
  assert state.step == 6 and not reports


def test_damage_beside_what_a_kill_left(folder, save, make_state, abstract):
  save({2: {}, 4: {}})
  shutil.copytree(folder / "4", folder / "6.orbax-checkpoint-tmp")
  flip(folder / "4")
  checkpoints = Checkpoints(folder, report=lambda _: None)
  state, _ = checkpoints.restore_newest(abstract)
  assert state.step == 2
  checkpoints.save(4, make_state(4), {})
  checkpoints.save(6, make_state(6), {})
  checkpoints.close()
  names = {path.name for path in folder.iterdir()}
  assert names == {"4", "4.damaged", "6"}


def test_damage_is_found_without_checksums(folder, save, make_state, abstract):
  save({2: {}, 4: {}})
  (folder / "4" / "checksums.json").unlink()
  for path in (folder / "4" / "state" / "d").iterdir():
    path.write_bytes(path.read_bytes()[:-7])
  (state, _), (report,) = restore(folder, abstract)
  assert_identical(state, make_state(2))
  assert report.startswith("checkpoint 4 is damaged (")


def test_damaged_checksums(folder, save):
  save({2: {}})
  (folder / "2" / "checksums.json").write_text("{")
  with pytest.raises(
    checkpointing.DamagedCheckpointError,
    match=r": checksums\.json cannot be read ",
  ):
    checkpointing.verify(folder / "2")


def test_missing_checksums_are_written_when_a_run_resumes(
  folder, save, abstract
):
  save({2: {}})
  checksums = folder / "2" / "checksums.json"
  before = json.loads(checksums.read_text())
  checksums.unlink()
  restore(folder, abstract)
  assert json.loads(checksums.read_text()) == before


def test_all_damaged_is_as_none(folder, save, abstract):
  save({2: {}, 4: {}})
  flip(folder / "2")
  flip(folder / "4")
  restored, reports = restore(folder, abstract)
  assert restored is None and len(reports) == 2


def test_a_whole_checkpoint_of_another_program_is_not_put_aside(
  folder, save, make_state, shardings
):
  save({2: {}})
  other = partitioning.abstract(make_state(0, width=16), shardings)
  with pytest.raises(UserError, match="2' is whole but cannot be restored"):
    restore(folder, other)
  assert steps_in(folder) == [2]


class TestResolve:
  def test_run_folder_checkpoints_folder_and_step(self, folder, save):
    save({2: {}, 4: {}})
    run = folder.parent
    assert checkpointing.resolve(run) == folder / "4"
    assert checkpointing.resolve(folder) == folder / "4"
    assert checkpointing.resolve(folder / "2") == folder / "2"

  @pytest.mark.parametrize("best, found", [(2, "2"), (None, "4"), (3, "4")])
  def test_best_of_a_finished_run(self, folder, save, capsys, best, found):
    save({2: {}, 4: {}})
    result = folder.parent / "result.json"
    result.write_text(json.dumps({"best_step": best, "step": 4}))
    assert checkpointing.resolve(folder.parent) == folder / found
    assert checkpointing.resolve(folder) == folder / found
    told = (
      f"step 3, the best of {str(folder.parent)!r}, has no checkpoint; the "
      "newest, of step 4, is taken\n"
    )
    assert capsys.readouterr().err == told * (best == 3)

  def test_none(self, tmp_path):
    with pytest.raises(UserError) as caught:
      checkpointing.resolve(tmp_path)
    assert str(caught.value) == (
      f"no checkpoint in {str(tmp_path)!r}; give a run folder, or the folder "
      "of one step in its checkpoints/"
    )


class TestRestoreParams:
  def test_parameters_alone(self, folder, save, make_state, abstract):
    save({2: {}})
    params = checkpointing.restore_params(folder / "2", abstract.params)
    assert_identical(params, make_state(2).params)

  def test_layout(self, folder, save, abstract):
    save({2: {}})
    kernel, scale = abstract.params["kernel"], abstract.params["scale"]
    wider = jax.ShapeDtypeStruct((4, 9), jnp.float32, sharding=scale.sharding)
    assert checkpointing.has_layout(folder / "2", abstract.params)
    for other in (
      {"kernel": kernel},
      {**abstract.params, "bias": scale},
      {"kernel": wider, "scale": scale},
    ):
      assert not checkpointing.has_layout(folder / "2", other)

  def test_damage(self, folder, save, abstract):
    save({2: {}})
    checkpointing.verify(folder / "2")
    file, what = flip(folder / "2")
    sentence = f"checkpoint {str(folder / '2')!r} is damaged: "
    with pytest.raises(checkpointing.DamagedCheckpointError) as caught:
      checkpointing.verify(folder / "2")
    assert str(caught.value).startswith(f"{sentence}{file} {what}")
    for path in (folder / "2" / "state" / "d").iterdir():
      path.write_bytes(path.read_bytes()[:-7])
    with pytest.raises(checkpointing.DamagedCheckpointError) as caught:
      checkpointing.restore_params(folder / "2", abstract.params)
    assert str(caught.value).startswith(sentence)


def test_a_bound_folder_is_one_runs_own(tmp_path):
  """Another run would go on from its checkpoints, and remove them."""
  shared = Checkpointing(folder=str(tmp_path / "shared"))
  unfinished = tmp_path / "shared" / f"7{UNFINISHED}"
  Checkpoints(shared.folder, shared, run="/runs/first").close()
  unfinished.mkdir()
  with pytest.raises(UserError) as caught:
    Checkpoints(shared.folder, shared, run="/runs/second")
  assert unfinished.exists()
  assert str(caught.value) == (
    f"Checkpointing.folder={shared.folder!r} has the checkpoints of the run in "
    "'/runs/first'; choose another folder for '/runs/second', or delete "
    f"{str(tmp_path / 'shared/run')!r} if that run has moved there"
  )
  Checkpoints(shared.folder, shared, run="/runs/first").close()
  assert not unfinished.exists()
  (tmp_path / "shared/run").unlink()
  Checkpoints(shared.folder, shared, run="/runs/second").close()
