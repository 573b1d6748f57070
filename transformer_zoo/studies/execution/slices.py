"""Studies in slices of time, on machines that are at hand for minutes.

Such a machine starts bare, without SeqIO and without a network, and takes and
gives back few bytes. What the next slice needs lies in one folder:

    state.000, ...             all runs, with the checkpoints that go on
    plan.000, ...              the manifests and vocabularies of all data
    MIXTURE-CHECKSUM.000, ...  the data of the runs that come next

Each series is one tar archive, compressed by LZMA and cut into parts. A slice
unpacks all, trains the runs whose data is there until its time is over, stops
at a step as at SIGTERM, and writes the state anew. On the machine that has the
data, packing adds what the runs need that come next. Runs are resumed bit by
bit, so slices give what one uninterrupted command gives.

Of an unfinished run the newest checkpoint travels, of a finished one the
checkpoint that an unfinished run starts from. If that is too much, the runs
that start from others begin again: they are the short ones.
"""

from collections.abc import Iterable, Iterator, Sequence
import contextlib
import dataclasses
import io
import os
import pathlib
import re
import shutil
import signal
import tarfile
import threading

from transformer_zoo.data.storage import compact
from transformer_zoo.data.storage import manifest
from transformer_zoo.errors import UserError
from transformer_zoo.studies.design import plan
from transformer_zoo.studies.design.planned_run import Run
from transformer_zoo.studies.design.request import PlannedStudy
from transformer_zoo.studies.design.request import Request
from transformer_zoo.studies.execution import result_file
from transformer_zoo.studies.execution import run_progress
from transformer_zoo.studies.execution import runner
from transformer_zoo.studies.execution import single_run
from transformer_zoo.training import loop

# The most that a folder holds, and a part of it.
LARGEST = 64 << 20
PART = 15 << 20
_STATE, _PLAN = "state", "plan"
_CHECKPOINTS = "checkpoints"
_LEFT_OUT = ("tensorboard",)  # It is written from the metrics.
_RECORDS = ".array_record"
_SORTED = ".sorted"  # Ends the name of a record file that is packed.
_PRESET = 1  # Of LZMA: 10 to 20 MB/s.


def run(
  request: Request, folder: pathlib.Path, minutes: float
) -> list[runner.Outcome]:
  """Goes on with studies for some minutes.

  Args:
    request: The studies. Folders of the pool and of prepared data have to be
      below the current folder.
    folder: The folder that travels.
    minutes: The time after which training stops; saving and packing follow. 0
      prepares and packs the data and trains nothing.

  Returns:
    The outcomes of the studies; empty if the time was over before their end.

  Raises:
    UserError: A study cannot be run as it is written, a folder is elsewhere, or
      what the next run needs does not fit `LARGEST`.
  """
  folder.mkdir(parents=True, exist_ok=True)
  pool = request.root / plan.POOL
  _unpack(folder, pool)
  planned = request.planned()
  runs = list(
    {r.folder: r for one in planned for r in plan.distinct(one.runs)}.values()
  )
  outcomes = []
  if not minutes:
    runner.describe(planned, request)
  else:
    try:
      with _stopping_after(minutes):
        outcomes = runner.run_studies(request, planned=_ready(planned))
    except loop.Preempted:
      print("the time is over; the same command goes on", flush=True)
  pack(folder, pool, runs)
  return outcomes


def _ready(planned: Sequence[PlannedStudy]) -> list[PlannedStudy]:
  """Returns studies without the runs whose data did not travel."""
  missing = {
    run.folder
    for one in planned
    for run in one.runs
    if not _is_finished(run.folder) and not _has_data(run)
  }
  if missing:
    print(
      f"{len(missing)} runs wait for data that is not here; pack it with "
      "--minutes 0 where it is",
      flush=True,
    )
  return [
    dataclasses.replace(
      one, runs=[run for run in one.runs if run.folder not in missing]
    )
    for one in planned
  ]


@contextlib.contextmanager
def _stopping_after(minutes: float) -> Iterator[None]:
  """Sends this process SIGTERM after some minutes."""
  before = signal.getsignal(signal.SIGTERM)
  single_run.stop_on_sigterm()
  timer = threading.Timer(60 * minutes, _stop)
  timer.daemon = True
  timer.start()
  try:
    yield
  finally:
    timer.cancel()
    signal.signal(signal.SIGTERM, before)


def _stop() -> None:
  os.kill(os.getpid(), signal.SIGTERM)


def pack(folder: pathlib.Path, pool: pathlib.Path, runs: Sequence[Run]) -> None:
  """Writes the archives of what is left.

  Args:
    folder: The folder that travels.
    pool: The folder of all runs.
    runs: The distinct runs of the studies, in their order.

  Raises:
    UserError: The state and the data of the next run do not fit `LARGEST`, or
      prepared data lies outside of the current folder.
  """
  left = [run for run in runs if not _is_finished(run.folder)]
  archives = {_PLAN: _archive(_plan_files(runs))}
  for begin_again in (False, True):
    state = _archive(_state_files(pool, runs, left, begin_again))
    room = LARGEST - len(archives[_PLAN]) - len(state)
    kept, fits = _fill(folder, left, room)
    if room >= 0 and fits:
      break
  else:
    raise UserError(
      f"the state of the runs takes {len(state):,} bytes, and with the data of "
      f"{left[0].mixture!r} more than the {LARGEST:,} that travel; take a "
      "smaller model, vocabulary or corpus"
    )
  archives[_STATE] = state
  for series, content in archives.items():
    _write(folder, series, content)
  for path in folder.glob("*.[0-9][0-9][0-9]"):
    if path.stem not in {*kept, *archives}:
      path.unlink()
  size = sum(path.stat().st_size for path in folder.iterdir())
  print(
    f"{folder}: {len(runs) - len(left)} of {len(runs)} runs are finished; "
    f"{size / 1e6:.1f} MB, the state {len(state) / 1e6:.1f} MB"
    + "; a run that starts from another begins again"
    * begin_again,
    flush=True,
  )


def _fill(
  folder: pathlib.Path, left: Sequence[Run], room: int
) -> tuple[list[str], bool]:
  """Packs data in the order of the runs while there is room.

  Returns:
    The series of the data that travels, and False if not even that of the
    first run has room.
  """
  kept = []
  for mixture, prepared_dir in dict.fromkeys(
    (run.mixture, run.prepared_dir) for run in left
  ):
    mark = plan.mark_of_found_data(mixture, prepared_dir)
    series = f"{mixture}-{mark[:8]}"
    if not _parts(folder, series):
      files = _data_files(mixture, prepared_dir)
      if not all(path.exists() for path in files):
        break
      _write(folder, series, _archive((path, str(path)) for path in files))
    size = sum(path.stat().st_size for path in _parts(folder, series))
    if size > room:
      return kept, bool(kept)
    kept.append(series)
    room -= size
  return kept, True


def _unpack(folder: pathlib.Path, pool: pathlib.Path) -> None:
  """Puts data where it was, and runs that are further than those here."""
  unpacked = pool / ".unpacked"
  for series in {path.stem for path in folder.glob("*.[0-9][0-9][0-9]")}:
    to = unpacked if series == _STATE else pathlib.Path()
    text = b"".join(path.read_bytes() for path in _parts(folder, series))
    with tarfile.open(fileobj=io.BytesIO(text), mode="r:xz") as archive:
      for member in archive:
        name = member.name.removesuffix(_SORTED)
        if series == _STATE or not (to / name).exists():
          archive.extract(member, to, filter="data")
          if name != member.name:
            packed = pathlib.Path(member.name)
            compact.unpack(packed.read_bytes(), name)
            packed.unlink()
  for path in unpacked.glob("*"):
    here = pool / path.name
    if not _is_finished(here) and _newest(here) <= _newest(path):
      shutil.rmtree(here, ignore_errors=True)
      path.rename(here)
  shutil.rmtree(unpacked, ignore_errors=True)


def _place(prepared_dir: str) -> pathlib.Path:
  place = pathlib.Path(prepared_dir)
  if place.is_absolute() or ".." in place.parts:
    raise UserError(
      f"PREPARED_DIR is {prepared_dir!r}; data that travels lies below the "
      "current folder, as in runs/prepared"
    )
  return place


def _plan_files(runs: Iterable[Run]) -> Iterator[tuple[pathlib.Path, str]]:
  """Yields what planning reads of the data of all runs."""
  found = set()
  for name, prepared_dir in {(run.mixture, run.prepared_dir) for run in runs}:
    place = _place(prepared_dir)
    found |= {*place.glob(f"{name}.mixture.json")}
    found |= {*(place / "vocabularies").glob("*")}
    for task in manifest.load(name, prepared_dir).tasks:
      found.add(pathlib.Path(task.folder) / "manifest.json")
  return ((path, path.as_posix()) for path in sorted(found))


def _data_files(mixture: str, prepared_dir: str) -> list[pathlib.Path]:
  """Returns the files of the splits that runs read: all but those of tests."""
  return [
    pathlib.Path(task.folder) / stored.name
    for task in manifest.load(mixture, prepared_dir).tasks
    for name, split in task.splits.items()
    if not name.startswith("test")
    for stored in (*split.shards, *split.tables.values())
  ]


def _has_data(run: Run) -> bool:
  files = _data_files(run.mixture, run.prepared_dir)
  return all(path.exists() for path in files)


def _state_files(
  pool: pathlib.Path,
  runs: Iterable[Run],
  left: Sequence[Run],
  begin_again: bool,
) -> Iterator[tuple[pathlib.Path, str]]:
  """Yields the files of runs that travel, with their names in the archive."""
  needed = {start for run in left for start in run.starts}
  for one in runs:
    home, kept = one.folder, None
    if _is_finished(home):
      if home in needed:
        kept = pathlib.PurePath(result_file.checkpoint_of(home)).name
    elif begin_again and one.starts:
      continue
    elif (newest := _newest(home)) >= 0:
      kept = str(newest)
    for path in sorted(home.rglob("*")):
      first, *others = path.relative_to(home).parts
      if first in _LEFT_OUT or not path.is_file():
        continue
      if first != _CHECKPOINTS or others[0] == kept:
        yield path, path.relative_to(pool).as_posix()


def _is_finished(folder: pathlib.Path) -> bool:
  return (folder / run_progress.RESULT_FILE).exists()


def _newest(folder: pathlib.Path) -> int:
  """Returns the step of a run's newest checkpoint; -1 without any.

  A finished run is further than any step.
  """
  if _is_finished(folder):
    return 1 << 62
  steps = (path.name for path in (folder / _CHECKPOINTS).glob("*"))
  return max(map(int, filter(re.compile(r"\d+$").match, steps)), default=-1)


def _archive(files: Iterable[tuple[pathlib.Path, str]]) -> bytes:
  """Returns a compressed tar archive of files under their names."""
  result = io.BytesIO()
  with tarfile.open(fileobj=result, mode="w:xz", preset=_PRESET) as archive:
    for path, name in files:
      if path.suffix == _RECORDS:
        packed = compact.pack(path)
        member = tarfile.TarInfo(name + _SORTED)
        member.size = len(packed)
        archive.addfile(member, io.BytesIO(packed))
      else:
        archive.add(path, name)
  return result.getvalue()


def _parts(folder: pathlib.Path, series: str) -> list[pathlib.Path]:
  return sorted(folder.glob(f"{series}.[0-9][0-9][0-9]"))


def _write(folder: pathlib.Path, series: str, content: bytes) -> None:
  """Writes an archive in parts; those of an older one are removed."""
  before = set(_parts(folder, series))
  for number, start in enumerate(range(0, len(content), PART)):
    path = folder / f"{series}.{number:03d}"
    path.write_bytes(content[start : start + PART])
    before.discard(path)
  for path in before:
    path.unlink()
