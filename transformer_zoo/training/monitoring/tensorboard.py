"""TensorBoard's event files, by its own record writer: no TensorFlow."""

from collections.abc import Mapping
import os
import pathlib
import socket
import time

from tensorboard.compat.proto import event_pb2
from tensorboard.compat.proto import summary_pb2
from tensorboard.summary.writer import record_writer


class EventFile:
  """One event file, made when the first event is written."""

  def __init__(self, folder: pathlib.Path):
    """Names the folder; nothing is made yet."""
    self._folder = folder
    self._writer = None

  def scalars(self, step: int, values: Mapping[str, float]) -> None:
    """Writes numbers of a step."""
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
    """Closes the file; closing twice does nothing."""
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
