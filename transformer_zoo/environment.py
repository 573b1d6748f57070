"""The machine and the versions that a run was made with."""

import hashlib
import importlib.metadata
import json
import os
import pathlib
import platform
import re
import subprocess
import sys

import jax

import transformer_zoo

PACKAGES = (
  "jax",
  "jaxlib",
  "flax",
  "optax",
  "orbax-checkpoint",
  "grain",
  "numpy",
  "gin-config",
  "sentencepiece",
  "seqio",
  "tensorflow",
  "tensorflow-datasets",
  "tensorboard",
  "scikit-learn",
  "scipy",
  "sacrebleu",
  "rouge-score",
)
# What changes the compiled program or the devices without standing in gin.
_VARIABLE_PREFIXES = ("JAX_", "XLA_", "LIBTPU_", "CUDA_VISIBLE_DEVICES")


def here_or_shipped(path: str) -> pathlib.Path:
  """Returns a path that starts at the current folder, or at the package's.

  Args:
    path: The path, absolute or relative. One that exists nowhere is returned
      as it is.
  """
  shipped = pathlib.Path(transformer_zoo.__file__).parents[1] / path
  here = pathlib.Path(path)
  return shipped if shipped.exists() and not here.exists() else here


def describe_software() -> dict:
  """Describes what processes of one run have in common.

  Returns:
    A dictionary for JSON: `transformer_zoo` (version), `code` (a digest of the
    package's files), `python`, `packages` (versions; None where a package is
    not installed) and `git` (`commit`, `dirty`; None where the package does not
    lie in a checkout of its repository).
  """
  root = pathlib.Path(transformer_zoo.__file__).parent
  code = hashlib.sha256()
  for file in sorted(root.rglob("*.py")):
    code.update(file.read_bytes())
  return {
    "transformer_zoo": transformer_zoo.__version__,
    "code": code.hexdigest()[:12],
    "python": platform.python_version(),
    "packages": {name: _version(name) for name in PACKAGES},
    "git": _git(pathlib.Path(transformer_zoo.__file__)),
  }


def describe_environment() -> dict:
  """Describes what a result depends on besides its configuration.

  Returns:
    A dictionary for JSON: the entries of `describe_software`, and `platform`,
    `processor`, `cpu_count`, `memory_gib` (of the machine; None where the
    system does not report them), `devices` (`backend`, `kind`, `count`,
    `process_count`) and `variables` (set environment variables of JAX and XLA).
  """
  devices = jax.devices()
  return {
    **describe_software(),
    "platform": platform.platform(),
    "processor": _processor(),
    "cpu_count": _cpu_count(),
    "memory_gib": _memory_gib(),
    "devices": {
      "backend": devices[0].platform,
      "kind": devices[0].device_kind,
      "count": len(devices),
      "process_count": jax.process_count(),
    },
    "variables": {
      name: value
      for name, value in sorted(os.environ.items())
      if name.startswith(_VARIABLE_PREFIXES)
    },
  }


def write_environment(path: str | os.PathLike[str]) -> None:
  """Writes `describe_environment()` to a JSON file.

  Args:
    path: the file; its folder must exist.
  """
  text = json.dumps(describe_environment(), indent=2)
  pathlib.Path(path).write_text(text + "\n", encoding="utf-8")


def _version(package: str) -> str | None:
  try:
    return importlib.metadata.version(package)
  except importlib.metadata.PackageNotFoundError:
    return None


def _processor() -> str | None:
  path = pathlib.Path("/proc/cpuinfo")  # Linux; platform names the kind there.
  text = path.read_text(encoding="utf-8") if path.exists() else ""
  named = re.search(r"^model name\s*: (.+)$", text, re.MULTILINE)
  return named[1] if named else platform.processor() or None


def _cpu_count() -> int:
  # What this process may use, which a container makes smaller than the machine.
  if sys.platform == "linux":
    return len(os.sched_getaffinity(0))
  return os.cpu_count() or 1


def _memory_gib() -> float | None:
  try:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
  except (ValueError, OSError, AttributeError):
    return None
  return round(total / 2**30, 1)


def _git(file: pathlib.Path) -> dict | None:
  """Commit of the repository that tracks `file`; None where none does."""

  def git(*arguments: str) -> str:
    command = ["git", "-C", str(file.resolve().parent), *arguments]
    done = subprocess.run(
      command, capture_output=True, text=True, check=True, timeout=20
    )
    return done.stdout.strip()

  try:
    # A package installed under somebody's checkout is not part of it.
    git("ls-files", "--error-unmatch", file.name)
    return {
      "commit": git("rev-parse", "HEAD"),
      "dirty": bool(git("status", "--porcelain", "--untracked-files=no")),
    }
  except (OSError, subprocess.SubprocessError):
    return None
