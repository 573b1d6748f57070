"""The layout of a run folder: the names of its files, its place, its URL.

`runs/run_folder.py` fills such a folder; `remote.py` copies those at URLs.
"""

import os
import pathlib
import urllib.parse

from flax import linen as nn

from transformer_zoo import config
from transformer_zoo.errors import UserError

# The working folders of runs at URLs (remote.py).
URLS = pathlib.Path("runs", "mirrored")
CONFIG = "config.gin"
ENVIRONMENT = "environment.json"
RESULT = "result.json"
# The folder of the files that a conversion copied along.
BESIDE = "huggingface"


def is_url(path: str | os.PathLike[str]) -> bool:
  """Returns True if a path is a URL and not a local path."""
  return "://" in str(path)


def is_of_url(folder: pathlib.Path) -> bool:
  """Returns True if a local folder is the working folder of a URL."""
  return folder.parent == URLS


def name_of(folder: pathlib.Path) -> str:
  """Returns the name of a run that is the same on every machine.

  Args:
    folder: The local folder of the run.

  Returns:
    Its URL, or the absolute path of a run in a local folder.
  """
  if is_of_url(folder):
    return urllib.parse.unquote(folder.name)
  return os.path.abspath(folder)


def configuration_of(model: nn.Module, *roots: str) -> str:
  """Returns the text of `CONFIG`.

  That of an encoder has all kinds of heads and how they are read, so that a
  file of gin_configs/heads/ may choose another head after it.

  Args:
    model: The model of the run.
    *roots: The roots of its configuration (`config.operative_config`).
  """
  if not model.offers.has_decoder:
    roots += (*config.HEADS, "evaluate", "infer")
  return config.operative_config(*dict.fromkeys(roots))


def scoring_path(predictions: pathlib.Path) -> pathlib.Path:
  """Returns the path of the file that names the scoring functions."""
  return predictions.with_suffix(".scoring.json")


def replace(path: pathlib.Path, text: str) -> None:
  """Writes `text` so that a kill leaves either the old file or the new."""
  temporary = path.with_name(path.name + ".new")
  temporary.write_text(text, encoding="utf-8")
  os.replace(temporary, path)


def run_of(checkpoint: pathlib.Path) -> pathlib.Path:
  """Returns the folder of the run of a step, or that of another checkpoint."""
  parent = checkpoint.parent
  return parent.parent if parent.name == "checkpoints" else parent


def make_output(folder: pathlib.Path) -> None:
  """Makes a folder of results.

  Raises:
    UserError: It cannot be made.
  """
  try:
    folder.mkdir(parents=True, exist_ok=True)
  except OSError as error:
    raise UserError(
      f"results cannot be written into {str(folder)!r} ({error.strerror}); "
      "choose another folder with --output_dir"
    ) from None
