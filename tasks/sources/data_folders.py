"""The folders of the tasks' files: those given by `zoo --data_dir`.

`zoo` exports them to the environment as `ZOO_DATA_DIR`, several separated as
in PATH. A data folder is laid out as

    tfds/<dataset>/<config>/<version>/   datasets prepared by TFDS
    text/<corpus>/*.jsonl.gz             unlabelled text
    vocab/t5_cc_all_32000/sentencepiece.model

What no data folder has is looked for in the current folder. Files are looked
for when a task is read, not when it is registered, so every task can be listed
where its data is absent.
"""

import glob
import os

from transformer_zoo.errors import UserError


def data_folders() -> list[str]:
  """Returns the data folders, the first one taking precedence."""
  value = os.environ.get("ZOO_DATA_DIR", "")
  return [folder for folder in value.split(os.pathsep) if folder]


def find(relative: str) -> str | None:
  """Returns the path of the first folder that has `relative`.

  The current folder comes after the data folders.
  """
  for folder in [*data_folders(), os.curdir]:
    path = os.path.join(folder, relative)
    if os.path.exists(path):
      return path
  return None


def find_files(pattern: str) -> list[str]:
  """Returns the sorted files that match a pattern.

  Args:
    pattern: a glob pattern, absolute or relative to a data folder or to the
      current folder, which comes last; the first with a match has them all.

  Raises:
    UserError: nothing matches.
  """
  for folder in [*data_folders(), os.curdir]:
    candidate = os.path.normpath(os.path.join(folder, pattern))
    if os.path.exists(candidate):  # a name with a bracket in it
      return [candidate]
    if files := sorted(glob.glob(candidate)):
      return files
  raise UserError(f"No file matches {pattern!r}; {where_searched()}.")


def where_searched() -> str:
  """Returns the clause of an error that names the data folders."""
  folders = ", ".join(map(repr, data_folders()))
  if folders:
    return f"the data folders (--data_dir) are {folders}"
  return "no data folder is given: name one with --data_dir"
