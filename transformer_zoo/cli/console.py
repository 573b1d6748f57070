"""The command `zoo`: settings of its process, then `transformer_zoo.cli.main`.

XLA allocates the temporaries of a step anew each time. Touched for the first
time in pages of 4 KiB they are a quarter of a step, or more. glibc decides as a
process starts what pages it asks for, so this process starts itself again,
before anything heavy is imported. It stays the same process: its number, its
files, its signals, its exit code. What it starts inherits the setting.

Programs that XLA has compiled are kept in a folder between runs. It is JAX's
persistent compilation cache, which JAX's own variables move
(`JAX_COMPILATION_CACHE_DIR`), limit (`JAX_COMPILATION_CACHE_MAX_SIZE`) and
switch off (`JAX_ENABLE_COMPILATION_CACHE=0`).
"""

import contextlib
import gc
import hashlib
import os
import pathlib
import platform
import sys

# "0" leaves all as it is.
VARIABLE = "ZOO_HUGE_PAGES"
_TUNABLES = "GLIBC_TUNABLES"
_TUNABLE = "glibc.malloc.hugetlb"
# Where something takes the tunables away again, this must not be a circle.
_ASKED = "asked"
_FIRST_GLIBC = (2, 35)  # That has the tunable.
_CACHE = "JAX_COMPILATION_CACHE_DIR"
_PROCESSORS = pathlib.Path("/proc/cpuinfo")
_KERNEL = pathlib.Path("/sys/kernel/mm/transparent_hugepage/enabled")


def main() -> int:
  """Runs `zoo`; returns its exit code."""
  if not reason_not_to_ask() and sys.executable:
    _start_again()
  keep_programs()
  from transformer_zoo.cli import main as commands

  code = commands.main()
  if code == commands.INTERRUPTED:
    _leave_at_once(code)
  # Searching all that was imported for garbage takes a second as Python ends.
  gc.freeze()
  return code


def keep_programs() -> None:
  """Lets JAX keep compiled programs in a folder of this user and processor."""
  if _CACHE in os.environ:
    return
  root = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
  folder = pathlib.Path(root, "transformer_zoo", "programs", _processor())
  try:
    folder.mkdir(parents=True, exist_ok=True)
  except OSError:  # Without the folder every run compiles its programs.
    return
  os.environ[_CACHE] = str(folder)
  # By default JAX keeps only what took a second to compile.
  os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")


def _processor() -> str:
  """A name of the processor and its instructions.

  The keys of the cache do not contain them, and a home may be shared by several
  machines: a program for another processor would end in an illegal instruction.
  """
  described = [platform.machine(), platform.processor()]
  with contextlib.suppress(OSError):
    lines = _PROCESSORS.read_text().splitlines()
    described += sorted(
      {line for line in lines if line.startswith(("flags", "Features"))}
    )
  return hashlib.sha256("\n".join(described).encode()).hexdigest()[:12]


def reason_not_to_ask() -> str:
  """Returns why malloc may not ask for huge pages; empty if it may."""
  given = os.environ.get(_TUNABLES, "")
  if _TUNABLE in given:
    return f"{_TUNABLES}={given}"
  if os.environ.get(VARIABLE) in ("0", _ASKED):
    return f"{VARIABLE}={os.environ[VARIABLE]}"
  if _glibc() < _FIRST_GLIBC:
    return "this system has no glibc 2.35 or newer"
  try:
    # With "always" they come unasked, with "never" not at all.
    if "[madvise]" not in _KERNEL.read_text():
      return f"{_KERNEL} is {_KERNEL.read_text().strip()}"
  except OSError:
    return f"this system has no {_KERNEL}"
  return ""


def _start_again() -> None:
  """Replaces this process; returns only where that is not possible."""
  given = os.environ.get(_TUNABLES)
  asked = ":".join(filter(None, [given, f"{_TUNABLE}=1"]))
  environment = {**os.environ, _TUNABLES: asked, VARIABLE: _ASKED}
  command = [sys.executable, *sys.orig_argv[1:]]
  with contextlib.suppress(OSError):  # Too long; `zoo` works without it.
    os.execve(sys.executable, command, environment)


def _leave_at_once(code: int) -> None:
  """Ends this process as it is.

  A thread of XLA goes on compiling after Ctrl-C, and ends in a segmentation
  fault as Python takes away what it reads.
  """
  import multiprocessing  # Every start of `zoo` would pay for it.

  for child in multiprocessing.active_children():
    child.terminate()  # Or it waits for more work from here.
  for stream in (sys.stdout, sys.stderr):
    with contextlib.suppress(OSError):
      stream.flush()
  os._exit(code)


def _glibc() -> tuple[int, ...]:
  """Its version; (0,) where there is none."""
  try:
    name, version = os.confstr("CS_GNU_LIBC_VERSION").split()
    return tuple(map(int, version.split("."))) if name == "glibc" else (0,)
  except (AttributeError, OSError, ValueError):
    return (0,)
