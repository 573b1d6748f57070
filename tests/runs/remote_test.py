"""Runs at URLs, of one process and of several."""

import json
import pathlib
import shutil
import sys

import fsspec
from fsspec.implementations.memory import MemoryFileSystem
import pytest

from tests import object_stores
from tests.object_stores import a_run
from tests.object_stores import GoogleStorage
from tests.object_stores import RUN
from tests.object_stores import there
from tests.object_stores import Unreliable
from tests.object_stores import write
from transformer_zoo.checkpoints import checkpoint_sources
from transformer_zoo.checkpoints import remote
from transformer_zoo.checkpoints import run_layout
from transformer_zoo.errors import UserError
from transformer_zoo.runs import run_folder
from transformer_zoo.training.checkpoints.retention import Checkpointing

URL = "unreliable://run"


@pytest.fixture(autouse=True)
def anew(monkeypatch, tmp_path):
  monkeypatch.chdir(tmp_path)
  object_stores.forget()
  yield
  object_stores.forget()


@pytest.fixture
def another_machine(monkeypatch, tmp_path):
  """Returns a function that changes to a folder where nothing ran yet."""

  def change(name="elsewhere"):
    (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / name)

  return change


def fail(monkeypatch, fails):
  monkeypatch.setattr(Unreliable, "fails", staticmethod(fails))


def test_the_context_uploads_whatever_ends_the_run(tmp_path):
  url = "memory://run"
  with pytest.raises(KeyboardInterrupt), remote.opened(url) as folder:
    a_run(folder)
    raise KeyboardInterrupt
  assert there() == RUN
  with remote.opened(str(tmp_path / "plain")) as folder:
    assert folder == tmp_path / "plain"


def test_a_file_url_is_the_folder(tmp_path):
  url = f"file://{tmp_path}/there"
  with remote.opened(url) as folder:
    assert folder == tmp_path / "there"
  assert remote.fetched(url) == tmp_path / "there"


def test_a_checkpoint_counts_once_its_checksums_are_there(another_machine):
  with remote.opened(URL) as folder:
    a_run(folder)
  order = [path for _, path in Unreliable.log]
  assert order[0] == "/run/checkpoints/2/state/d/numbers"
  assert order[-1] == "/run/checkpoints/2/checksums.json"
  assert there() == RUN
  another_machine()
  with remote.opened(URL) as folder:
    for name in RUN:
      assert (folder / name).exists()
  MemoryFileSystem().rm_file("/run/checkpoints/2/checksums.json")
  another_machine("third")
  with remote.opened(URL) as folder:
    assert not (folder / "checkpoints").exists()


def test_an_unfinished_or_damaged_checkpoint_is_not_uploaded():
  with remote.opened(URL) as folder:
    a_run(folder)
    checkpoints = folder / "checkpoints"
    write(checkpoints / "4", state__d__numbers="4")
    write(checkpoints / "6.orbax-checkpoint-tmp", checksums_json="{}")
    write(checkpoints / "8.damaged", checksums_json="{}")
  assert there() == RUN


def test_only_changes_are_uploaded_and_removed_checkpoints_removed():
  with remote.opened(URL) as folder:
    a_run(folder, 1)
    a_run(folder, 2)
    write(folder, predictions__2__task="texts")
    remote.upload(folder)
    Unreliable.log.clear()
    (folder / "metrics.jsonl").write_text("lines and more")
    shutil.rmtree(folder / "checkpoints" / "1")
    remote.upload(folder)
    removed = "/run/checkpoints/1"
    assert Unreliable.log[:2] == [
      ("remove", f"{removed}/checksums.json"),
      ("remove", f"{removed}/state/d/numbers"),
    ]
    assert set(Unreliable.log[2:]) == {
      ("put", "/run/config"),
      ("put", "/run/metrics.jsonl"),
    }
  assert there() == RUN | {"predictions/2/task"}
  assert MemoryFileSystem().cat("/run/metrics.jsonl") == b"lines and more"


def test_the_newer_of_url_and_folder_counts(another_machine, tmp_path):
  with remote.opened(URL) as folder:
    a_run(folder, 2)
  another_machine()
  with remote.opened(URL) as folder:
    a_run(folder, 4)
    (folder / "metrics.jsonl").write_text("lines of step 4")
  ahead = tmp_path / folder
  with pytest.MonkeyPatch.context() as patch:
    patch.chdir(tmp_path)
    with remote.opened(URL):
      assert (ahead / "metrics.jsonl").read_text() == "lines of step 4"
  # A folder that is ahead of the URL stays as it is.
  a_run(folder, 6)
  (folder / "metrics.jsonl").write_text("lines of step 6")
  with remote.opened(URL) as folder:
    assert (folder / "metrics.jsonl").read_text() == "lines of step 6"
  assert "checkpoints/6/checksums.json" in there()


def test_an_interrupted_download_is_repeated(another_machine, monkeypatch):
  with remote.opened(URL) as folder:
    a_run(folder)
  for number, broken in enumerate(RUN):
    another_machine(str(number))
    with monkeypatch.context() as patch:
      fail(patch, lambda _, path, broken=broken: path.endswith(broken))
      with pytest.raises(UserError), remote.opened(URL):
        pass
    with remote.opened(URL) as folder:
      assert all((folder / name).exists() for name in RUN), broken


def test_a_store_that_fails(monkeypatch, capsys):
  with pytest.raises(UserError) as caught, remote.opened(URL) as folder:
    a_run(folder)
    fail(monkeypatch, lambda _, path: "metrics.jsonl" in path)
    remote.upload(folder)  # After a save.
    assert capsys.readouterr().out == (
      "unreliable://run cannot be written (the network is away); the next "
      "save tries again\n"
    )
  assert str(caught.value) == (
    "'unreliable://run' cannot be written (the network is away); the complete "
    f"run is in {str(folder)!r}, and the same command uploads it"
  )
  assert "checkpoints/2/checksums.json" not in there()
  monkeypatch.undo()


def test_the_same_command_uploads_what_was_left(monkeypatch, tmp_path):
  with pytest.raises(UserError), remote.opened(URL) as folder:
    a_run(folder)
    fail(monkeypatch, lambda *_: True)
  monkeypatch.undo()
  monkeypatch.chdir(tmp_path)
  with remote.opened(URL):
    assert there() == RUN


def test_a_store_that_cannot_be_read(monkeypatch):
  with remote.opened(URL) as folder:
    a_run(folder)
  shutil.rmtree(folder)
  fail(monkeypatch, lambda *_: True)
  with pytest.raises(UserError) as caught, remote.opened(URL):
    pass
  assert str(caught.value) == (
    "'unreliable://run' cannot be read (the network is away); check the name, "
    "the permissions and the network"
  )


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


@pytest.mark.parametrize("url", ["memory://run", "s3://bucket/run"])
def test_several_processes_need_a_place_that_all_write_to(url, monkeypatch):
  monkeypatch.setattr(remote.jax, "process_count", lambda: 2)
  with pytest.raises(UserError) as caught, remote.opened(url):
    pass
  assert str(caught.value) == (
    f"2 processes cannot write checkpoints to {url!r}: give a gs:// URL, or a "
    "folder that all of them share"
  )


def test_several_processes_write_checkpoints_to_the_bucket(monkeypatch):
  object_stores.use_bucket(monkeypatch)
  monkeypatch.setattr(remote.jax, "process_count", lambda: 2)
  monkeypatch.setattr(remote.agreement, "wait", lambda _: None)
  places = []

  @run_folder.at_any_place
  def save(*, model_dir, checkpointing):
    a_run(pathlib.Path(model_dir))
    places.append(checkpointing.folder_of(model_dir))

  url = "gs://bucket/run"
  save(model_dir=url, checkpointing=Checkpointing(newest=3))
  save(model_dir=url, checkpointing=Checkpointing(folder="gs://b/other"))
  assert places == ["gs://bucket/run/checkpoints", "gs://b/other"]
  # The other process has the same files, in a folder of its own.
  monkeypatch.setattr(remote.jax, "process_index", lambda: 1)
  with remote.opened(url) as folder:
    assert {path.name for path in folder.iterdir()} == {
      "config",
      "metrics.jsonl",
    }
    write(folder, other="of process 1")
  found = there(GoogleStorage, "/bucket/run/")
  assert found == {"config", "metrics.jsonl"}


def test_a_checkpoint_at_a_url():
  with remote.opened("memory://run") as folder:
    a_run(folder)
  # As a run that has resumed here, and not uploaded what it did since.
  (folder / "metrics.jsonl").write_text("")
  found = checkpoint_sources.locate("memory://run")
  place = remote.FETCHED / folder.name / "checkpoints" / "2"
  assert found == place.absolute()
  assert (folder / "metrics.jsonl").read_text() == ""


def test_every_machine_has_one_name_for_a_run(tmp_path, another_machine):
  """By which its checkpoints at a place of their own are known again."""
  url = "memory://there/a run"
  names = set()
  for machine in ("one", "two"):
    another_machine(machine)
    with remote.opened(url) as folder:
      names.add(run_layout.name_of(folder))
  assert names == {url}
  assert run_layout.name_of(pathlib.Path("run")) == str(tmp_path / "two/run")


def test_training_refuses_an_unknown_scheme(train):
  """Before anything is compiled."""
  code, _, error = train("nowhere://run")
  assert code == 2
  assert error.startswith("zoo: error: 'nowhere://run' is no place")


@pytest.mark.slow
def test_a_run_resumes_on_another_machine(
  train, another_machine, monkeypatch, tmp_path, capsys
):
  """The numbers are those of a run in a folder that nothing interrupts."""
  assert train(tmp_path / "whole")[0] == 0
  expected = (tmp_path / "whole" / "metrics.jsonl").read_bytes()
  object_stores.use_bucket(monkeypatch)
  for number, (url, store, root) in enumerate(
    (
      ("memory://run", MemoryFileSystem, "/run/"),
      ("gs://bucket/run", GoogleStorage, "/bucket/run/"),
    )
  ):
    another_machine(f"first {number}")
    code, _, error = train(url)
    assert code == 0, error
    mirrored = pathlib.Path("runs", "mirrored")
    in_bucket = store is GoogleStorage
    assert bool(list(mirrored.glob("*/checkpoints/*"))) != in_bucket
    files = store()
    assert files.cat(f"{root}metrics.jsonl") == expected
    steps = {n.split("/")[1] for n in there(store, root) if "/state/" in n}
    assert {"10", "12"} <= steps
    # As if the machine had been lost after the save of step 10.
    files.rm(f"{root}checkpoints/12", recursive=True)
    files.rm_file(f"{root}result.json")
    lines = [
      line
      for line in expected.splitlines(keepends=True)
      if json.loads(line)["step"] <= 10
    ]
    files.pipe_file(f"{root}metrics.jsonl", b"".join(lines))
    another_machine(f"second {number}")
    code, output, error = train(url)
    assert code == 0, error
    assert f"{url} is downloaded to " in output
    assert "training 2 steps, 10 to 12, " in output
    assert files.cat(f"{root}metrics.jsonl") == expected
    assert f"{root}result.json" in files.find(root)
    # And any command reads the checkpoints from there.
    found = checkpoint_sources.locate(url)
    assert found.name in steps and (found / "state").is_dir()
