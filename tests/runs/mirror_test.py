"""A folder and its copy at a URL: whole at any moment."""

from fsspec.implementations.memory import MemoryFileSystem
import pytest

from tests import unreliable_place
from tests.unreliable_place import a_run
from tests.unreliable_place import RUN
from tests.unreliable_place import there
from tests.unreliable_place import Unreliable
from tests.unreliable_place import write
from transformer_zoo.errors import UserError
from transformer_zoo.runs.mirror import Mirror


@pytest.fixture(autouse=True)
def anew(monkeypatch, tmp_path):
  monkeypatch.chdir(tmp_path)
  unreliable_place.forget()
  yield
  unreliable_place.forget()


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
