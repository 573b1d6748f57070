"""Environments of a study's runs: commit, devices, machine, versions."""

from collections.abc import Mapping
import dataclasses
import json

from transformer_zoo.studies.execution.results import StudyResults

_FILE = "environment.json"
_COMMIT_LETTERS = 10


@dataclasses.dataclass(frozen=True)
class Environment:
  """The environment that some runs share.

  Attributes:
    content: The content of their `environment.json`.
    num_runs: The number of these runs.
    seconds: The computing time of those that have finished.
  """

  content: Mapping
  num_runs: int
  seconds: float

  @property
  def core_hours(self) -> float:
    """The computing time, for each core that a run may use."""
    return self.seconds * (self.content.get("cpu_count") or 1) / 3600

  @property
  def commit(self) -> str:
    """The commit of the code, and whether it had been changed."""
    git = self.content.get("git") or {}
    commit = git.get("commit", "not a checkout")
    return commit + (" with local changes" if git.get("dirty") else "")

  @property
  def devices(self) -> str:
    """The number and kind of the devices: `4 TPU v4 tpu`, `1 cpu`."""
    devices = self.content.get("devices") or {}
    words = [str(devices.get(key, "")) for key in ("count", "kind", "backend")]
    return " ".join(dict.fromkeys(words))

  def facts(self) -> list[tuple[str, str]]:
    """Returns the facts of the environment, as names and texts."""
    read = self.content
    packages = read.get("packages") or {}
    versions = [f"{k} {v}" for k, v in packages.items() if v is not None]
    return [
      ("runs", str(self.num_runs)),
      ("commit", self.commit),
      ("devices", self.devices),
      (
        "machine",
        f"{read.get('platform')}, {read.get('cpu_count')} CPU cores, "
        f"{read.get('memory_gib')} GiB memory",
      ),
      ("versions", f"Python {read.get('python')}, " + ", ".join(versions)),
    ]

  @property
  def brief(self) -> str:
    """Commit and machine in a few words."""
    git, packages = (self.content.get(k) or {} for k in ("git", "packages"))
    cores = self.content.get("cpu_count")
    words = f"{cores} CPU core{'' if cores == 1 else 's'}"
    if processor := self.content.get("processor"):
      words += f" ({processor})"
    if "cpu" not in self.devices:
      words = f"{self.devices}, {words}"
    commit = git.get("commit", "")[:_COMMIT_LETTERS]
    if commit:
      changed = " with local changes" if git.get("dirty") else ""
      words = f"commit {commit}{changed}, {words}"
    return f"{words}, jax {packages.get('jax')}"


def read(study: StudyResults) -> list[Environment]:
  """Returns the environments of the runs, equal ones once."""
  found = {}
  for run in study.runs:
    path = run.folder / _FILE
    if path.exists() and not run.shared:
      text = path.read_text(encoding="utf-8")
      if text.rstrip().endswith("}"):  # Else it is being written.
        seconds = (run.result or {}).get("seconds", 0.0)
        found.setdefault(text, []).append(seconds)
  return [
    Environment(json.loads(text), len(seconds), sum(seconds))
    for text, seconds in found.items()
  ]
