"""Tells what a run would find here: versions, devices, memory, data."""

import argparse
import importlib.metadata
import os
import pathlib
import platform
from typing import Any

from transformer_zoo import __version__
from transformer_zoo.cli import common
from transformer_zoo.cli import console

SUMMARY = "versions, devices, memory and data folders found"
EXAMPLE = "zoo doctor --data_dir DATA"
PACKAGES = (
  "jax jaxlib flax optax orbax-checkpoint grain gin-config numpy sentencepiece "
  "protobuf seqio tensorflow tensorflow-text tensorflow-datasets libtpu torch "
  "transformers"
).split()


def add_arguments(parser: argparse.ArgumentParser) -> None:
  """Adds the data folders and `--json`."""
  common.add_data_argument(parser)
  common.add_json_argument(parser)


def run(arguments: argparse.Namespace) -> None:
  """Prints one line for each thing found or missing."""
  found = {
    "transformer_zoo": __version__,
    "python": platform.python_version(),
    **{name: _version(name) for name in PACKAGES},
    "devices": _devices(),
    "memory": f"{_memory() / 2**30:.1f} GiB, {os.cpu_count()} CPU cores",
    "huge pages": _huge_pages(),
    **_data_folders(),
  }
  if arguments.json:
    common.print_json(found)
    return
  width = max(map(len, found))
  for name, value in found.items():
    print(f"{name:{width}}  {value}")


def _version(name: str) -> str:
  try:
    return importlib.metadata.version(name)
  except importlib.metadata.PackageNotFoundError:
    return "not installed"


def _devices() -> str:
  import jax

  try:
    devices = jax.devices()
  except RuntimeError as error:
    # An accelerator that another process holds, or that has no driver.
    return f"none: {str(error).splitlines()[0]}"
  return f"{len(devices)} x {devices[0].device_kind} ({devices[0].platform})"


def _memory() -> int:
  """Bytes of main memory."""
  return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _huge_pages() -> str:
  """Whether malloc asks for huge pages (console.py)."""
  if "glibc.malloc.hugetlb=1" in os.environ.get("GLIBC_TUNABLES", ""):
    return "asked for"
  if reason := console.reason_not_to_ask():
    return f"not asked for: {reason}"
  return "asked for by the command `zoo`, not by this process"


def _data_folders() -> dict[str, Any]:
  """Folders in which tasks look for files, in order, and their contents."""
  named = os.environ.get("ZOO_DATA_DIR", "")
  places = [pathlib.Path(place) for place in named.split(os.pathsep) if place]
  # What no data folder has (tasks/sources/).
  places.append(pathlib.Path.cwd())
  of_tfds = os.environ.get("TFDS_DATA_DIR")
  places.append(
    pathlib.Path(of_tfds or os.path.expanduser("~/tensorflow_datasets"))
  )
  rows = {}
  for place in dict.fromkeys(places):
    inside = sorted(path.name for path in place.glob("[!.]*") if path.is_dir())
    rows[f"data in {place}"] = ", ".join(inside) or "nothing"
  return rows
