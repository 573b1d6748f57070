"""Run folders at URLs: copied, fetched, whole at any moment."""

import pathlib

import fsspec
from fsspec.implementations.memory import MemoryFileSystem
import pytest

from transformer_zoo.errors import UserError
from transformer_zoo.experiment import checkpoint_sources
from transformer_zoo.experiment import remote
from transformer_zoo.experiment.mirror import Mirror


class Unreliable(MemoryFileSystem):
  """Fails whenever `fails` says so of (operation, path)."""

  protocol = "unreliable"
  cachable = False
  log = []

  @classmethod
  def _strip_protocol(cls, path):
    return super()._strip_protocol(path.removeprefix("unreliable://"))

  @staticmethod
  def fails(operation, path):
    return False

  def _attempt(self, operation, path):
    Unreliable.log.append((operation, path))
    if Unreliable.fails(operation, path):
      raise OSError("the network is away")

  def put_file(self, lpath, rpath, **kwargs):
    self._attempt("put", rpath)
    return super().put_file(lpath, rpath, **kwargs)

  def get_file(self, rpath, lpath, **kwargs):
    self._attempt("get", rpath)
    return super().get_file(rpath, lpath, **kwargs)


fsspec.register_implementation("unreliable", Unreliable, clobber=True)


@pytest.fixture(autouse=True)
def anew(monkeypatch, tmp_path):
  monkeypatch.chdir(tmp_path)
  MemoryFileSystem.store.clear()
  Unreliable.log.clear()
  yield
  MemoryFileSystem.store.clear()


def write(folder: pathlib.Path, **files):
  for name, text in files.items():
    path = folder / name.replace("__", "/").replace("_json", ".json")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def a_run(folder, step=2):
  write(folder, metrics_jsonl="lines", config="gin")
  write(
    folder / "checkpoints" / str(step),
    state__d__numbers="123",
    checksums_json="{}",
  )


def there() -> set[str]:
  return {
    path.removeprefix("/run/")
    for path in MemoryFileSystem().find("/run", detail=False)
  }


RUN = {
  "config",
  "metrics.jsonl",
  "checkpoints/2/state/d/numbers",
  "checkpoints/2/checksums.json",
}


@pytest.fixture
def told():
  return []


@pytest.fixture
def make(told, tmp_path):
  """Returns a function that makes a mirror of `here`, or another folder."""

  def make_mirror(folder="here", url="unreliable://run"):
    made = Mirror(
      url, tmp_path / folder, report=told.append, pause=lambda _: None
    )
    made.fetch()
    return made

  return make_mirror


def test_a_checkpoint_counts_from_its_checksums_on(make, tmp_path):
  one = make()
  a_run(one.folder)
  one.copy()
  order = [path for _, path in Unreliable.log]
  assert order[0] == "/run/checkpoints/2/state/d/numbers"
  assert order[-1] == "/run/checkpoints/2/checksums.json"
  assert there() == RUN
  # The same on a machine that is new.
  two = make("elsewhere")
  for name in RUN:
    assert (two.folder / name).read_text() == (one.folder / name).read_text()
  (two.folder / "checkpoints" / "2" / "checksums.json").unlink()
  MemoryFileSystem().rm_file("/run/checkpoints/2/checksums.json")
  assert not (make("third").folder / "checkpoints").exists()


def test_what_is_not_whole_is_not_copied(make):
  one = make()
  a_run(one.folder)
  write(one.folder / "checkpoints" / "4", state__d__numbers="4")
  write(
    one.folder / "checkpoints" / "6.orbax-checkpoint-tmp", checksums_json="{}"
  )
  one.copy()
  assert there() == RUN


def test_only_changes_are_copied_and_what_is_gone_is_removed(make):
  one = make()
  a_run(one.folder, 1)
  a_run(one.folder, 2)
  one.copy()
  Unreliable.log.clear()
  (one.folder / "metrics.jsonl").write_text("lines and more")
  for path in sorted((one.folder / "checkpoints" / "1").rglob("*"))[::-1]:
    path.unlink() if path.is_file() else path.rmdir()
  one.copy()
  assert Unreliable.log == [("put", "/run/metrics.jsonl")]
  assert there() == RUN
  # Started again on the same machine: checkpoints are not copied again.
  again = make()
  Unreliable.log.clear()
  again.copy()
  assert {path for _, path in Unreliable.log} == {
    "/run/metrics.jsonl",
    "/run/config",
  }


def test_the_one_that_is_further_counts(make):
  one = make()
  a_run(one.folder, 2)
  one.copy()
  two = make("elsewhere")
  a_run(two.folder, 4)
  (two.folder / "metrics.jsonl").write_text("lines of step 4")
  two.copy()
  assert (make().folder / "metrics.jsonl").read_text() == "lines of step 4"
  # And a folder that is further than the URL stays as it is.
  (two.folder / "metrics.jsonl").write_text("lines of step 6")
  a_run(two.folder, 6)
  (two.folder / "metrics.jsonl").write_text("lines of step 6")
  assert (
    make("elsewhere").folder / "metrics.jsonl"
  ).read_text() == "lines of step 6"


def test_a_place_that_fails_now_and_then(make, monkeypatch):
  calls = []

  def fails(operation, path):
    calls.append(path)
    return calls.count(path) % 3 != 0  # Every third try succeeds.

  monkeypatch.setattr(Unreliable, "fails", staticmethod(fails))
  one = make()
  a_run(one.folder)
  one.copy()
  assert there() == RUN
  assert (make("elsewhere").folder / "metrics.jsonl").read_text() == "lines"


def test_a_place_that_fails(make, monkeypatch, told, tmp_path):
  one = make()
  a_run(one.folder)
  one.start()
  monkeypatch.setattr(
    Unreliable, "fails", staticmethod(lambda _, path: "metrics.jsonl" in path)
  )
  with pytest.raises(UserError) as caught:
    one.stop()
  assert str(caught.value) == (
    "'unreliable://run' could not be written (the network is away); all of it "
    f"is in {str(tmp_path / 'here')!r}, and the same command copies it"
  )
  assert not told and "checkpoints/2/checksums.json" not in there()
  monkeypatch.undo()
  again = make()
  again.copy()
  assert there() == RUN
  monkeypatch.setattr(Unreliable, "fails", staticmethod(lambda *_: True))
  with pytest.raises(UserError, match="'unreliable://run' cannot be read"):
    make("elsewhere")


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


def test_a_checkpoint_at_a_url(tmp_path):
  with remote.opened("memory://run") as folder:
    a_run(folder)
  remote.FOLDER.rename(tmp_path / "lost")
  found = checkpoint_sources.locate("memory://run")
  assert found == (folder / "checkpoints" / "2").absolute()


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
