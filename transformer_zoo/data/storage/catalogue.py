"""The names of all tasks and mixtures, kept until a source of theirs changes.

To read them from their definitions, SeqIO and TensorFlow are imported, which
takes many seconds. A catalogue is kept in the cache of the user for each folder
and environment in which `zoo` runs. With modules of the user's own none is
kept: their tasks may depend on files that are unknown here.
"""

from collections.abc import Sequence
import contextlib
import hashlib
import importlib.util
import json
import os
import pathlib
from typing import Any

from transformer_zoo.data import user_modules
from transformer_zoo.data.storage import freshness
from transformer_zoo.errors import nearest
from transformer_zoo.errors import UserError

# Kind -> name -> parts.
Names = dict[str, dict[str, list[str]]]


def load() -> Names | None:
  """Returns the catalogue, None if none is kept that is current.

  Returns:
    `tasks`: the features of each task by its name; `mixtures`: the names of the
    tasks of each mixture, those without data left out.
  """
  if user_modules.names():
    return None
  try:
    kept = json.loads(_path().read_text(encoding="utf-8"))
    return kept["names"] if freshness.is_current(kept["stamp"]) else None
  except (OSError, ValueError, KeyError, TypeError):
    return None


def names_of(tasks: Any, mixtures: Any) -> Names:
  """Returns the catalogue of SeqIO's registries of tasks and of mixtures."""
  return {
    "tasks": {
      name: [*tasks.get(name).output_features] for name in sorted(tasks.names())
    },
    "mixtures": {
      name: [task.name for task in mixtures.get(name).tasks]
      for name in sorted(mixtures.names())
    },
  }


def save(tasks: Any, mixtures: Any) -> None:
  """Keeps the catalogue of SeqIO's registries of tasks and of mixtures."""
  if user_modules.names():
    return
  places = {
    place
    for name in tasks.names()
    for place in getattr(tasks.get(name).source, "places", ())
  }
  kept = {
    "stamp": freshness.stamp(places),
    "names": names_of(tasks, mixtures),
  }
  path = _path()
  with contextlib.suppress(OSError):  # Of a home that cannot be written.
    path.parent.mkdir(parents=True, exist_ok=True)
    freshness.write_json(path, kept)


def check(name: str, kinds: Sequence[str] = ("task", "mixture")) -> None:
  """Checks the name of a task or mixture, if a catalogue is kept.

  Args:
    name: The name, or `NAME:FORM`.
    kinds: What it may name.

  Raises:
    UserError: Nothing has the name.
  """
  if importlib.util.find_spec("seqio") is None:  # What is prepared counts.
    return
  names = load()
  if names is None:
    return
  known = [each for kind in kinds for each in names[f"{kind}s"]]
  if not {name, name.rpartition(":")[0]} & {*known}:
    raise UserError(
      f"no {' or '.join(kinds)} is named {name!r}{nearest(name, known)}"
      f"{user_modules.HINT}"
    )


def _path() -> pathlib.Path:
  root = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
  place = json.dumps([__file__, os.getcwd(), os.environ.get("ZOO_DATA_DIR")])
  digest = hashlib.sha256(place.encode()).hexdigest()[:12]
  return pathlib.Path(root, "transformer_zoo", "catalogues", f"{digest}.json")
