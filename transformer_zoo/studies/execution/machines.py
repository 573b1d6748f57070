"""What tells a machine from others that are differently fast.

A machine is a line of text, which `speeds.json` has as a key.
"""

from collections.abc import Mapping
import pathlib
import re

from transformer_zoo import environment
from transformer_zoo.errors import UserError
from transformer_zoo.runs import run_folder
from transformer_zoo.studies.execution import json_files

_CORES = re.compile(r"(\d+) cores")


def here() -> str:
  """This machine, with the cores that this process may use."""
  return _name(environment.describe_environment())


def of_run(folder: pathlib.Path) -> str | None:
  """The machine that computed a run; None where its folder does not tell."""
  try:
    return _name(json_files.read(folder / run_folder.ENVIRONMENT))
  except (UserError, KeyError):
    return None


def differ_in_cores(machine: str, other: str) -> bool:
  """Whether they are the same but for the number of cores."""
  return machine != other and _CORES.sub("", machine) == _CORES.sub("", other)


def cores(machine: str) -> int:
  """How many of them a process had."""
  return int(_CORES.search(machine).group(1))


def computes_on_cores(machine: str) -> bool:
  """Whether there is no accelerator."""
  return " x cpu, " in machine


def processors(machine: str) -> tuple[int, str]:
  """How many processors a process had, and what one is called."""
  if computes_on_cores(machine):
    return cores(machine), "core"
  return int(machine.partition(" x ")[0]), "accelerator"


def _name(found: Mapping) -> str:
  devices = found["devices"]
  return (
    f"{devices['count']} x {devices['kind']}, {found['cpu_count']} cores, "
    f"{found['memory_gib']} GiB, {found['platform']}"
  )
