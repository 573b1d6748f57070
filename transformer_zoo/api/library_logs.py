"""Output of libraries to stderr while they load, kept back."""

from collections.abc import Callable, Iterator
import contextlib
import os
import re
import sys
import tempfile

from transformer_zoo.errors import UserError

# A line of absl's C++ logging, as in `I0000 00:00:1764 2142 port.cc:153] ...`.
_LOGGED = re.compile(
  rb"[IWEF]\d{4} [\d:.]+ +\d+ [\w./]+:\d+\] |"
  rb"\d{4}-\d\d-\d\d [\d:.]+: [IWEF] |"
  rb"WARNING: All log messages before absl::InitializeLog\(\) is called"
)


def not_logged_by_libraries(line: bytes) -> bool:
  """Whether a line of stderr is of the project or its user."""
  return _LOGGED.match(line) is None


@contextlib.contextmanager
def quiet_stderr(
  keep: Callable[[bytes], bool] = lambda line: False,
) -> Iterator[None]:
  """Keeps back what is written to stderr, unless it ends in a crash.

  TensorFlow's libraries write a page about drivers and instruction sets while
  they load, before any setting of theirs is read.

  Args:
    keep: The function that chooses lines that are written nevertheless, at the
      end.
  """
  with tempfile.TemporaryFile() as kept:
    sys.stderr.flush()
    stderr = os.dup(2)
    os.dup2(kept.fileno(), 2)
    try:
      yield
      sys.stderr.flush()
      kept.seek(0)
      os.write(stderr, b"".join(filter(keep, kept)))
    except UserError:
      raise
    except BaseException:
      kept.seek(0)
      os.write(stderr, kept.read())
      raise
    finally:
      os.dup2(stderr, 2)
      os.close(stderr)
