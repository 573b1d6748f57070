"""JSON files that several launchers of a study read and write."""

import json
import os
import pathlib
from typing import Any

from transformer_zoo.errors import UserError


def read(path: pathlib.Path) -> Any:
  """Reads a file.

  Raises:
    UserError: If the file is missing or damaged.
  """
  try:
    return json.loads(path.read_text(encoding="utf-8"))
  except (OSError, ValueError) as error:
    raise UserError(
      f"{path} cannot be read ({type(error).__name__}: {error}); run the study "
      "again to write it anew"
    ) from error


def replace(path: pathlib.Path, content: Any) -> None:
  """Replaces a file atomically: readers see the old or the new contents."""
  temporary = path.with_name(f"{path.name}.{os.getpid()}.new")
  temporary.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
  os.replace(temporary, path)
