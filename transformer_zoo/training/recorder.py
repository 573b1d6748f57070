"""What a run measured, on disk: JSON Lines files and TensorBoard events.

`metrics.jsonl` holds what the seed decides (losses, scores) and nothing else,
so that two equal runs write equal bytes; `timing.jsonl` holds what the machine
decides (seconds, tokens per second). TensorBoard shows both. Event files are
written with TensorBoard's own record writer, which needs no TensorFlow.
"""

from collections.abc import Mapping
import json
import os
import pathlib
import socket
import time

from tensorboard.compat.proto import event_pb2
from tensorboard.compat.proto import summary_pb2
from tensorboard.summary.writer import record_writer

from transformer_zoo.errors import UserError

METRICS_FILE = "metrics.jsonl"
TIMING_FILE = "timing.jsonl"
TENSORBOARD_FOLDER = "tensorboard"


def read_lines(path: str | os.PathLike[str]) -> list[dict[str, float]]:
  """Reads a file that `Recorder` wrote.

  Args:
    path: a `metrics.jsonl` or `timing.jsonl`; a file that is not there counts
      as empty.

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
  process loses at most the line it was writing.

  Names are paths, as TensorBoard groups them: `train/loss`,
  `validation/loss`, `validation/<task>/<metric>`.
  """

  def __init__(self, folder: str | os.PathLike[str]):
    """Opens the files of a run for appending; they are made when missing.

    Args:
      folder: the run folder; it is made when missing.

    Raises:
      UserError: a file that is already there is damaged before its last line.
    """
    self._folder = pathlib.Path(folder)
    self._folder.mkdir(parents=True, exist_ok=True)
    self._events = _EventFile(self._folder / TENSORBOARD_FOLDER)
    self._files = {}
    for name in (METRICS_FILE, TIMING_FILE):
      _drop_torn_line(self._folder / name)
      self._open(name)

  def record(self, step: int, values: Mapping[str, float]) -> None:
    """Records values that are the same whenever the run is repeated.

    Args:
      step: the training step that the values belong to.
      values: numbers by name; each is written with all its digits.
    """
    self._write(METRICS_FILE, step, values)

  def timing(self, step: int, values: Mapping[str, float]) -> None:
    """Records values that depend on the machine (seconds, tokens per second).

    Args:
      step: the training step that the values belong to.
      values: numbers by name.
    """
    self._write(TIMING_FILE, step, values)

  def truncate_after(self, step: int) -> None:
    """Forgets everything recorded after `step`, as a resumed run must.

    The files are replaced atomically; TensorBoard is told to hide the steps
    that the resumed run will write again.

    Args:
      step: the last step to keep; -1 forgets everything.
    """
    for name in (METRICS_FILE, TIMING_FILE):
      self._files.pop(name).close()
      path = self._folder / name
      kept = [line for line in read_lines(path) if line["step"] <= step]
      _replace(path, "".join(json.dumps(line) + "\n" for line in kept))
      self._open(name)
    self._events.restart(step + 1)

  def close(self) -> None:
    """Closes the files; closing twice does nothing."""
    for file in self._files.values():
      file.close()
    self._events.close()

  def __enter__(self) -> "Recorder":
    return self

  def __exit__(self, *exception) -> None:
    self.close()

  def _open(self, name: str) -> None:
    self._files[name] = open(self._folder / name, "a", encoding="utf-8")

  def _write(self, name, step, values) -> None:
    values = {key: float(value) for key, value in values.items()}
    line = json.dumps({"step": int(step), **values})
    self._files[name].write(line + "\n")
    self._files[name].flush()
    self._events.scalars(int(step), values)


class _EventFile:
  """One TensorBoard event file, made when the first event is written."""

  def __init__(self, folder: pathlib.Path):
    self._folder = folder
    self._writer = None

  def scalars(self, step: int, values: Mapping[str, float]) -> None:
    summary = summary_pb2.Summary(
      value=[
        summary_pb2.Summary.Value(tag=name, simple_value=value)
        for name, value in values.items()
      ]
    )
    self._write(event_pb2.Event(step=step, summary=summary))

  def restart(self, step: int) -> None:
    """Tells readers to drop what earlier files hold from `step` on."""
    start = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
    self._write(event_pb2.Event(step=step, session_log=start))

  def close(self) -> None:
    if self._writer is not None and not self._writer.closed:
      self._writer.close()

  def _write(self, event) -> None:
    if self._writer is None:
      self._folder.mkdir(parents=True, exist_ok=True)
      # TensorBoard reads the files of a folder in the order of their names.
      seconds, nanoseconds = divmod(time.time_ns(), 10**9)
      name = (
        f"events.out.tfevents.{seconds:010d}.{nanoseconds:09d}"
        f".{socket.gethostname()}.{os.getpid()}"
      )
      file = open(self._folder / name, "wb")
      self._writer = record_writer.RecordWriter(file)
      # Version 2 is what makes readers honour a session that starts again.
      self._write(event_pb2.Event(file_version="brain.Event:2"))
    event.wall_time = time.time()
    self._writer.write(event.SerializeToString())
    self._writer.flush()


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
