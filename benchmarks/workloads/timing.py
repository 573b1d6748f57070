"""The seconds and the memory of repeated work, and the machine that does it."""

from collections.abc import Callable
import os
import pathlib
import platform
import re
import time

from workloads import resident

# What of a processor's flags decides how fast its matrix products are.
_FLAGS = ("avx2", "avx512f", "avx512_bf16", "amx_tile")


def timed(run: Callable[[], None], warmup: int, repeats: int) -> dict:
  """Runs the work and returns the figures of the runs after the first ones.

  Args:
    run: The work. It returns once it is done, not once it is dispatched.
    warmup: The number of runs that are not measured.
    repeats: The number of runs that are measured.

  Returns:
    `seconds` and `processor_seconds` of each run, the latter of all threads of
    this process, and `peak_bytes`, the peak of the resident memory in them.
  """
  seconds, processor_seconds = [], []
  for i in range(warmup + repeats):
    if i == warmup:
      resident.restart()
    start, processor = time.perf_counter(), time.process_time()
    run()
    if i >= warmup:
      seconds.append(time.perf_counter() - start)
      processor_seconds.append(time.process_time() - processor)
  return {
    "seconds": seconds,
    "processor_seconds": processor_seconds,
    "peak_bytes": resident.peak_bytes(),
  }


def machine() -> dict:
  """Returns the processor's name and flags, the cores, and the load average."""
  path = pathlib.Path("/proc/cpuinfo")
  text = path.read_text() if path.exists() else ""
  name = re.search(r"model name\s*: (.*)", text)
  flags = re.search(r"flags\s*: (.*)", text)
  there = flags[1].split() if flags else ()
  return {
    "processor": name[1] if name else platform.processor(),
    "flags": " ".join(flag for flag in _FLAGS if flag in there),
    "cores": len(os.sched_getaffinity(0)),
    "load": os.getloadavg()[0],
  }
