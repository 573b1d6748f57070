"""The records of a run: JSON Lines files and TensorBoard events.

`metrics.jsonl` holds only values that the seed determines (losses, scores), so
that two equal runs write equal bytes; `timing.jsonl` holds measurements that
vary between machines (seconds, tokens per second); `anomalies.jsonl` lists the
steps with NaN, infinities or spikes. TensorBoard and the bound writers receive
the numbers too.
"""

from collections.abc import Iterable, Mapping
import contextlib
import json
import os
import pathlib
import typing
from typing import Any

from transformer_zoo.errors import UserError

if typing.TYPE_CHECKING:
  from transformer_zoo.training.monitoring.writers import Session
  from transformer_zoo.training.monitoring.writers import Writer

METRICS_FILE = "metrics.jsonl"
TIMING_FILE = "timing.jsonl"
ANOMALIES_FILE = "anomalies.jsonl"
TENSORBOARD_FOLDER = "tensorboard"


def read_lines(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
  """Reads a file that `Recorder` wrote.

  Args:
    path: a `metrics.jsonl`, `timing.jsonl` or `anomalies.jsonl`; a file that is
      not there counts as empty.

  Returns:
    One dictionary per line, each with `step` and the values recorded there. A
    last line that a killed process left unfinished is ignored.

  Raises:
    UserError: a line before the last one is not a JSON object with a step.
  """
  path = pathlib.Path(path)
  if not path.exists():
    return []
  *whole, torn = path.read_text(encoding="utf-8").split("\n")
  del torn  # Empty after a finished line; else what a killed process wrote.
  lines = []
  for number, text in enumerate(whole, start=1):
    try:
      line = json.loads(text)
      line["step"] = int(line["step"])
    except (ValueError, KeyError, TypeError):
      raise UserError(
        f"{path}, line {number} is not a JSON object with a step: "
        f"{text[:60]!r}; mend or remove the line"
      ) from None
    lines.append(line)
  return lines


class Recorder:
  """Appends what a run measures to its folder.

  A line reaches the operating system before the call returns, so a killed
  process loses at most the line it was writing. A file that cannot be written,
  on a full disk, is a UserError.

  Names are paths, as TensorBoard groups them: `train/loss`,
  `validation/loss`, `validation/<task>/<metric>`.
  """

  def __init__(
    self, folder: str | os.PathLike[str], writers: "Iterable[Writer]" = ()
  ):
    """Opens the files of a run for appending; they are made when missing.

    Args:
      folder: the run folder; it is made when missing.
      writers: The writers that receive the numbers besides TensorBoard.

    Raises:
      UserError: a file that is already there is damaged before its last line,
        or a writer cannot be opened.
    """
    self._folder = pathlib.Path(folder)
    self._folder.mkdir(parents=True, exist_ok=True)
    self._files = {}
    for name in (METRICS_FILE, TIMING_FILE):
      _drop_torn_line(self._folder / name)
      self._open(name)
    # Imported late: who only reads lines waits for no protocol buffers.
    from transformer_zoo.training.monitoring import tensorboard

    events = tensorboard.EventFile(self._folder / TENSORBOARD_FOLDER)
    self._sessions: list[Session] = [events]
    self._sessions += [writer.open(self._folder) for writer in writers]

  def record(self, step: int, values: Mapping[str, float]) -> None:
    """Records values that are the same whenever the run is repeated.

    Args:
      step: the training step that the values belong to.
      values: numbers by name; each is written with all its digits.
    """
    self._scalars(METRICS_FILE, step, values)

  def timing(self, step: int, values: Mapping[str, float]) -> None:
    """Records values that depend on the machine (seconds, tokens per second).

    Args:
      step: the training step that the values belong to.
      values: numbers by name.
    """
    self._scalars(TIMING_FILE, step, values)

  def anomaly(self, step: int, description: Mapping[str, Any]) -> None:
    """Records a step with NaN, infinities or a spike.

    Args:
      step: the training step.
      description: The description of the anomaly, values of JSON by name.
    """
    if ANOMALIES_FILE not in self._files:
      _drop_torn_line(self._folder / ANOMALIES_FILE)
      self._open(ANOMALIES_FILE)
    self._write(ANOMALIES_FILE, {"step": int(step), **description})

  def truncate_after(self, step: int) -> None:
    """Forgets everything recorded after `step`, as a resumed run must.

    The files are replaced atomically; the writers learn which steps the
    resumed run will write again.

    Args:
      step: the last step to keep; -1 forgets everything.
    """
    for name in (METRICS_FILE, TIMING_FILE, ANOMALIES_FILE):
      path = self._folder / name
      if not path.exists():
        continue
      kept = [line for line in read_lines(path) if line["step"] <= step]
      _replace(path, "".join(json.dumps(line) + "\n" for line in kept))
      if name in self._files:
        self._files.pop(name).close()
        self._open(name)
    for session in self._sessions:
      session.restart(step + 1)

  def close(self) -> None:
    """Closes the files and the writers; closing twice does nothing."""
    for file in self._files.values():
      with contextlib.suppress(OSError):  # of a full disk, reported before
        file.close()
    while self._sessions:
      session = self._sessions.pop()
      _attempt(session, session.close)

  def __enter__(self) -> "Recorder":
    return self

  def __exit__(self, *exception) -> None:
    self.close()

  def _open(self, name: str) -> None:
    self._files[name] = open(self._folder / name, "a", encoding="utf-8")

  def _scalars(self, name, step, values) -> None:
    values = {key: float(value) for key, value in values.items()}
    self._write(name, {"step": int(step), **values})
    for session in list(self._sessions):
      if not _attempt(session, session.scalars, int(step), values):
        self._sessions.remove(session)

  def _write(self, name, line) -> None:
    try:
      self._files[name].write(json.dumps(line) + "\n")
      self._files[name].flush()
    except OSError as error:
      raise UserError(
        f"{self._folder / name} cannot be written ({error.strerror}); the same "
        "command goes on from the last checkpoint when it can"
      ) from error


class NoRecorder(Recorder):
  """Writes nothing: the recorder of all processes but the first."""

  def __init__(self):
    self._files, self._sessions = {}, []

  def _write(self, name, line) -> None:
    pass

  def anomaly(self, step, description) -> None:
    pass

  def truncate_after(self, step) -> None:
    pass


def _attempt(session: "Session", call, *arguments) -> bool:
  """Calls a writer; a service that fails is reported once and ends no run."""
  try:
    call(*arguments)
  except Exception as error:  # Of any kind, for services are many.
    print(
      f"{type(session).__module__}: writing failed ({error}); the run goes on "
      "without it, its own files have everything",
      flush=True,
    )
    return False
  return True


def _drop_torn_line(path: pathlib.Path) -> None:
  if not path.exists():
    return
  content = path.read_bytes()
  whole = content[: content.rfind(b"\n") + 1]
  if whole != content:
    _replace(path, whole.decode("utf-8"))
  read_lines(path)  # Damage elsewhere is reported before training starts.


def _replace(path: pathlib.Path, text: str) -> None:
  """Writes `text` so that a kill leaves either the old file or the new."""
  temporary = path.with_name(path.name + ".new")
  with open(temporary, "w", encoding="utf-8") as file:
    file.write(text)
    file.flush()
    os.fsync(file.fileno())
  os.replace(temporary, path)
