"""How Linux shares the cores of processes that wait for one another."""

import os


def take_turns() -> None:
  """Makes the threads of this process wait their turn where cores are few.

  Gloo has a thread that listens. Woken by a message, it takes the core from the
  thread that is about to ask for it, and looks again and again until Linux
  takes the core back, at the next tick: on one core 4 ms for each array of a
  collective, and a step adds a hundred gradients. Threads of the class
  SCHED_BATCH (sched(7)) do not interrupt one another. Threads started later
  inherit it. Where that is not allowed, or not Linux, nothing changes.
  """
  if not hasattr(os, "SCHED_BATCH"):
    return
  for thread in os.listdir("/proc/self/task"):
    try:
      os.sched_setscheduler(int(thread), os.SCHED_BATCH, os.sched_param(0))
    except OSError:  # It has ended, or a container forbids it.
      continue
