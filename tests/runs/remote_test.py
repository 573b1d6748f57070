"""Runs at URLs, of one process and of several."""

import pathlib
import sys

import fsspec
import pytest

from tests import unreliable_place
from tests.unreliable_place import a_run
from tests.unreliable_place import RUN
from tests.unreliable_place import there
from tests.unreliable_place import write
from transformer_zoo.errors import UserError
from transformer_zoo.runs import checkpoint_sources
from transformer_zoo.runs import remote
from transformer_zoo.training.checkpoints.retention import Checkpointing


@pytest.fixture(autouse=True)
def anew(monkeypatch, tmp_path):
  monkeypatch.chdir(tmp_path)
  unreliable_place.forget()
  yield
  unreliable_place.forget()


def test_the_context_copies_whatever_ends_the_run(tmp_path):
  url = "memory://run"
  with pytest.raises(KeyboardInterrupt), remote.opened(url) as folder:
    a_run(folder)
    raise KeyboardInterrupt
  assert there() == RUN
  with remote.opened(str(tmp_path / "plain")) as folder:
    assert folder == tmp_path / "plain"


def test_a_file_url(tmp_path):
  with remote.opened(f"file://{tmp_path}/there") as folder:
    a_run(folder)
  copied = tmp_path / "there"
  assert {
    p.relative_to(copied).as_posix() for p in copied.rglob("*") if p.is_file()
  } == RUN


def test_places_that_are_refused():
  fsspec.register_implementation(
    "absent", "no_such_package.Files", errtxt="Install no_such_package"
  )
  for url, part in (
    ("nowhere://run", "is no place that fsspec knows (Protocol not known: "),
    ("absent://run", "needs a package that is not installed (Install no_such"),
  ):
    with pytest.raises(UserError) as caught, remote.opened(url):
      pass
    assert str(caught.value).startswith(f"{url!r} {part}")


def test_google_storage_without_its_package(monkeypatch):
  monkeypatch.setitem(sys.modules, "gcsfs", None)
  with pytest.raises(UserError) as caught, remote.opened("gs://bucket/run"):
    pass
  assert str(caught.value).startswith(
    "'gs://bucket/run' needs a package that is not installed ("
  )


def test_several_processes_need_a_place_that_all_write_to(monkeypatch):
  monkeypatch.setattr(remote.jax, "process_count", lambda: 2)
  with pytest.raises(UserError) as caught, remote.opened("memory://run"):
    pass
  assert str(caught.value) == (
    "2 processes cannot write to 'memory://run' together: give one of gs://, "
    "s3:// or a folder that all of them see"
  )


def test_several_processes_write_checkpoints_themselves(monkeypatch):
  monkeypatch.setattr(remote.jax, "process_count", lambda: 2)
  monkeypatch.setattr(remote.agreement, "wait", lambda _: None)
  monkeypatch.setattr(remote, "_DIRECT", ("memory://",))
  places = []

  @remote.at_any_place
  def save(*, model_dir, checkpointing):
    a_run(pathlib.Path(model_dir))
    places.append(checkpointing.folder_of(model_dir))

  save(model_dir="memory://run", checkpointing=Checkpointing(newest=3))
  assert places == ["memory://run/checkpoints"]
  # The other one has the same files, in a folder of its own.
  monkeypatch.setattr(remote.jax, "process_index", lambda: 1)
  with remote.opened("memory://run") as folder:
    assert {path.name for path in folder.iterdir()} == {
      "config",
      "metrics.jsonl",
    }
    write(folder, other="of process 1")
  assert there() == {"config", "metrics.jsonl"}


def test_a_checkpoint_at_a_url(tmp_path):
  with remote.opened("memory://run") as folder:
    a_run(folder)
  # As a run that has resumed here, and not copied what it did since.
  (folder / "metrics.jsonl").write_text("")
  found = checkpoint_sources.locate("memory://run")
  place = remote.FETCHED / folder.name / "checkpoints" / "2"
  assert found == place.absolute()
  assert (folder / "metrics.jsonl").read_text() == ""


def test_every_machine_has_one_name_for_a_run(tmp_path, monkeypatch):
  """By which its checkpoints at a place of their own are known again."""
  url = f"file://{tmp_path}/there/a run"
  names = set()
  for machine in ("one", "two"):
    (tmp_path / machine).mkdir()
    monkeypatch.chdir(tmp_path / machine)
    with remote.opened(url) as folder:
      names.add(remote.name_of(folder))
  assert names == {url}
  assert remote.name_of(pathlib.Path("run")) == str(tmp_path / "two/run")


def test_training_takes_a_url(train, tmp_path):
  """What no machine can mend is told before anything is compiled."""
  code, _, error = train("nowhere://run")
  assert code == 2
  assert error.startswith("zoo: error: 'nowhere://run' is no place")


def test_a_run_goes_on_on_a_machine_that_is_new(tmp_path, capsys):
  @remote.at_any_place
  def count(*, model_dir, step):
    folder = pathlib.Path(model_dir)
    before = sorted(path.name for path in folder.glob("checkpoints/*"))
    a_run(folder, step)
    return before

  assert count(model_dir="memory://run", step=2) == []
  remote.FOLDER.rename(tmp_path / "lost")
  assert count(model_dir="memory://run", step=4) == ["2"]
  assert "memory://run is fetched to " in capsys.readouterr().out
  assert count(model_dir="memory://run", step=6) == ["2", "4"]
