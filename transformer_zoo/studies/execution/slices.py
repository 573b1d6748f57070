"""Studies in slices of time, on machines that are at hand for minutes.

Such a machine starts bare, without SeqIO and without a network, and takes and
gives back few bytes. What the next slice needs lies in one folder:

    data.000, data.001, ...     the prepared data of the runs that are left
    state.000, state.001, ...   all runs, with the checkpoints that go on

Each series is one tar archive, compressed by LZMA and cut into parts. A slice
unpacks both, trains until its time is over, stops at a step as at SIGTERM, and
writes the state anew; the data stays as it is. Runs are resumed bit by bit, so
slices give what one uninterrupted command gives.

Of an unfinished run the newest checkpoint travels, of a finished one the
checkpoint that an unfinished run starts from. If that is too much, the runs
that start from others begin again: they are the short ones.
"""

from collections.abc import Iterable, Iterator, Sequence
import contextlib
import io
import os
import pathlib
import re
import shutil
import signal
import tarfile
import threading

from transformer_zoo.data.storage import manifest
from transformer_zoo.errors import UserError
from transformer_zoo.studies.design import plan
from transformer_zoo.studies.design.planned_run import Run
from transformer_zoo.studies.design.request import Request
from transformer_zoo.studies.execution import result_file
from transformer_zoo.studies.execution import run_progress
from transformer_zoo.studies.execution import runner
from transformer_zoo.studies.execution import single_run
from transformer_zoo.training import loop

# The most that a folder holds, and a part of it.
LARGEST = 64 << 20
PART = 15 << 20
_DATA, _STATE = "data", "state"
_CHECKPOINTS = "checkpoints"
_LEFT_OUT = ("tensorboard",)  # It is written from the metrics.
_PRESET = 1  # Of LZMA: records shrink by a third at 20 MB/s.


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
      what is left does not fit `LARGEST`.
  """
  folder.mkdir(parents=True, exist_ok=True)
  pool = request.root / plan.POOL
  _unpack(folder, pool)
  planned = request.planned()
  runs = list(
    {r.folder: r for one in planned for r in plan.distinct(one.runs)}.values()
  )
  outcomes = []
  if minutes:
    try:
      with _stopping_after(minutes):
        outcomes = runner.run_studies(request, planned=planned)
    except loop.Preempted:
      print("the time is over; the same command goes on", flush=True)
  pack(folder, pool, runs)
  return outcomes


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
    runs: The distinct runs of the studies.

  Raises:
    UserError: They do not fit `LARGEST`, or prepared data lies outside of the
      current folder.
  """
  left = [run for run in runs if not _is_finished(run.folder)]
  wanted = _data_files(left)
  if not wanted <= _names(folder, _DATA):
    files = ((pathlib.Path(name), name) for name in sorted(wanted))
    _write(folder, _DATA, _archive(files))
  room = LARGEST - sum(part.stat().st_size for part in _parts(folder, _DATA))
  for begin_again in (False, True):
    state = _archive(_state_files(pool, runs, left, begin_again))
    if len(state) <= room:
      break
  else:
    raise UserError(
      f"the state of the runs takes {len(state):,} bytes and their data "
      f"{LARGEST - room:,}, together more than the {LARGEST:,} that travel; "
      "take a smaller model, vocabulary or corpus"
    )
  _write(folder, _STATE, state)
  done = len(runs) - len(left)
  print(
    f"{folder}: {done} of {len(runs)} runs are finished; data "
    f"{(LARGEST - room) / 1e6:.1f} MB, state {len(state) / 1e6:.1f} MB"
    + ("; a run that starts from another begins again" * begin_again),
    flush=True,
  )


def _unpack(folder: pathlib.Path, pool: pathlib.Path) -> None:
  """Puts data where it was, and runs that are further than those here."""
  for name, to in ((_DATA, pathlib.Path()), (_STATE, pool / ".unpacked")):
    if parts := _parts(folder, name):
      text = b"".join(part.read_bytes() for part in parts)
      with tarfile.open(fileobj=io.BytesIO(text), mode="r:xz") as archive:
        archive.extractall(to, filter="data")
  unpacked = pool / ".unpacked"
  for path in unpacked.glob("*"):
    here = pool / path.name
    if not _is_finished(here) and _newest(here) <= _newest(path):
      shutil.rmtree(here, ignore_errors=True)
      path.rename(here)
  shutil.rmtree(unpacked, ignore_errors=True)


def _data_files(runs: Iterable[Run]) -> set[str]:
  """Returns the files of prepared data that runs read, as posix paths."""
  found = set()
  for name, prepared_dir in {(run.mixture, run.prepared_dir) for run in runs}:
    place = pathlib.Path(prepared_dir)
    if place.is_absolute() or ".." in place.parts:
      raise UserError(
        f"PREPARED_DIR is {prepared_dir!r}; data that travels lies below the "
        "current folder, as in runs/prepared"
      )
    for task in manifest.load(name, prepared_dir).tasks:
      found |= {path for path in (place / task.name).rglob("*")}
    found |= {*(place / "vocabularies").glob("*")}
    found |= {*place.glob(f"{name}.mixture.json")}
  return {path.as_posix() for path in found if path.is_file()}


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
      archive.add(path, name)
  return result.getvalue()


def _parts(folder: pathlib.Path, series: str) -> list[pathlib.Path]:
  return sorted(folder.glob(f"{series}.[0-9][0-9][0-9]"))


def _names(folder: pathlib.Path, series: str) -> set[str]:
  """Returns the names in an archive, none if there is none."""
  parts = _parts(folder, series)
  if not parts:
    return set()
  text = b"".join(part.read_bytes() for part in parts)
  with tarfile.open(fileobj=io.BytesIO(text), mode="r:xz") as archive:
    return set(archive.getnames())


def _write(folder: pathlib.Path, series: str, content: bytes) -> None:
  """Writes an archive in parts; those of an older one are removed."""
  before = set(_parts(folder, series))
  for number, start in enumerate(range(0, len(content), PART)):
    path = folder / f"{series}.{number:03d}"
    path.write_bytes(content[start : start + PART])
    before.discard(path)
  for path in before:
    path.unlink()
