"""The writer of a task's shards, in processes here or on a Beam runner."""

from collections.abc import Callable, Sequence
import dataclasses
import functools
import json
import os
import pathlib
import shutil
import time
from typing import Any, TYPE_CHECKING

from transformer_zoo.data import user_modules
from transformer_zoo.data.prepare import reading
from transformer_zoo.data.prepare import registration
from transformer_zoo.data.prepare import shard_jobs
from transformer_zoo.data.prepare import shards
from transformer_zoo.data.prepare import workers
from transformer_zoo.data.storage import folders
from transformer_zoo.data.storage import manifest
from transformer_zoo.data.storage.manifest import SplitInfo
from transformer_zoo.errors import UserError

if TYPE_CHECKING:
  import seqio

_STATE = "state.json"


@dataclasses.dataclass(frozen=True)
class Writer:
  """The settings of writing tasks, named as the arguments of `prepare`."""

  processes: int
  beam_runner: str | None
  beam_options: tuple[str, ...]
  first: int | None
  report: Callable[[str], None]

  def write(
    self,
    task: "seqio.Task",
    template: manifest.PreparedTask,
    splits: Sequence[str],
  ) -> manifest.PreparedTask:
    """Writes splits aside, shard by shard, and renames the whole folder.

    Shards that a `prepare` has finished which was then interrupted are kept.
    The training split comes last: it is the largest, and a bad row of another
    split is found before the time for it is spent.

    Args:
      task: a registered task.
      template: The manifest of the task without splits.
      splits: The splits to write.
    """
    folder = pathlib.Path(template.folder)
    partial = folder.with_name(f".{task.name}.partial")
    jobs = {}
    for split in splits:
      plan = functools.partial(
        shard_jobs.plan, task, template, split, partial, self.first
      )
      jobs[split] = reading.explain(plan, task, f"split {split!r}")
    _enter(partial, template.definition, {k: len(v) for k, v in jobs.items()})
    infos = {}
    for split in sorted(splits, key=lambda split: split == "train"):
      infos[split] = self._write_split(task, template, split, jobs[split])
    infos = {split: infos[split] for split in splits}
    new = dataclasses.replace(template, splits=infos)
    shards.remove_notes(partial)
    (partial / _STATE).unlink()
    manifest.save_task(new, partial)
    folders.move(partial, folder)
    return new

  def _write_split(
    self,
    task: "seqio.Task",
    template: manifest.PreparedTask,
    split: str,
    jobs: Sequence[shard_jobs.Job],
  ) -> SplitInfo:
    start = time.monotonic()
    what = f"{task.name} {split}"
    todo = [job for job in jobs if not job.finished]
    if len(todo) < len(jobs):
      self.report(f"{what}: {len(jobs) - len(todo)} of {len(jobs)} shards kept")
    if self.beam_runner is not None:
      _write_with_beam(todo, self.beam_runner, self.beam_options)
    elif todo:
      direct = shard_jobs.reads_documents(task)
      workers.run(
        functools.partial(_do, todo),
        len(todo),
        processes=self.processes,
        fresh=not direct,
        tell=functools.partial(self._tell, what, todo, start),
      )
    count, folder = len(jobs), pathlib.Path(jobs[0].folder)
    skipped = shards.skipped_rows(split, count, folder)
    if skipped.number:
      self.report(
        f"skipped {skipped.number:,} bad rows of {what}, first: {skipped.first}"
      )
    info = shards.join_shards(split, count, template, folder)
    seconds = time.monotonic() - start
    self.report(f"prepared {what}: {info.summary()} in {seconds:.1f} s")
    return info

  def _tell(
    self,
    what: str,
    jobs: Sequence[shard_jobs.Job],
    start: float,
    board: workers.Board,
  ) -> None:
    line = f"preparing {what}: {board.number:,} examples"
    sizes = [job.size for job in jobs]
    done = sum(s * size for s, size in zip(board.shares, sizes, strict=True))
    if done:
      share = done / sum(sizes)
      left = (time.monotonic() - start) * (1 - share) / share
      line += f", {share:.0%}, about {_duration(left)} left"
    self.report(line)


def _enter(
  partial: pathlib.Path, definition: str, counts: dict[str, int]
) -> None:
  """Makes the folder, or keeps it where the same was prepared in it before."""
  state = json.dumps([definition, counts])
  try:
    if (partial / _STATE).read_text(encoding="utf-8") == state:
      return
  except OSError:  # none, or not even begun
    pass
  shutil.rmtree(partial, ignore_errors=True)
  partial.mkdir()
  (partial / _STATE).write_text(state, encoding="utf-8")


def _do(
  jobs: Sequence[shard_jobs.Job], index: int, board: workers.Board
) -> None:
  """Does a job here or in another process."""
  _find_task(jobs[index].task.name)
  number = 0

  def note(share: float, so_far: int) -> None:
    nonlocal number
    number = so_far
    board.note(index, share, so_far)

  shard_jobs.write(jobs[index], threads=board.threads, note=note)
  board.note(index, 1.0, number)


def _find_task(name: str) -> None:
  """Registers the tasks in a process that has begun with nothing.

  Raises:
    UserError: the task is not among them.
  """
  import seqio  # pylint: disable=g-import-not-at-top

  if name in seqio.TaskRegistry.names():
    return
  registration.register_tasks(os.environ.get("ZOO_DATA_DIR") or None)
  if name not in seqio.TaskRegistry.names():
    raise UserError(
      f"Task {name!r} is not known to the processes that shall prepare it: it "
      "is registered in no module of the project or of --module; name its "
      "module, or use --processes 1."
    )


def _write_with_beam(
  jobs: Sequence[shard_jobs.Job], runner: str, options: Sequence[str]
) -> None:
  """Writes shards on a Beam runner.

  Raises:
    UserError: there is no such runner or option, or a job raised one.
  """
  import apache_beam as beam  # pylint: disable=g-import-not-at-top

  from transformer_zoo.cleaning import jobs as beam_jobs  # pylint: disable=g-import-not-at-top

  names = ("ZOO_DATA_DIR", user_modules.VARIABLE, "ZOO_SKIP_BAD_ROWS")
  environment = {k: os.environ[k] for k in names if k in os.environ}
  pipeline = beam.Pipeline(
    runner=beam_jobs.make_runner(runner),
    options=beam_jobs.make_options(options, runner),
  )
  _ = (
    pipeline
    | "shards" >> beam.Create(list(jobs))
    | "spread" >> beam.Reshuffle()
    | "write" >> beam.Map(_do_on_beam, environment)
  )
  beam_jobs.run(pipeline)


def _do_on_beam(job: shard_jobs.Job, environment: dict[str, Any]) -> None:
  os.environ.update(environment)
  _find_task(job.task.name)
  shard_jobs.write(job)


def _duration(seconds: float) -> str:
  if seconds < 90:
    return f"{seconds:.0f} s"
  if seconds < 5400:
    return f"{seconds / 60:.0f} min"
  return f"{seconds / 3600:.1f} h"
