"""Opening a checkpoint for use in Python."""

from collections.abc import Sequence
import contextlib
import os
import tempfile
from typing import Any

from transformer_zoo.api import configurations
from transformer_zoo.api.model import Model
from transformer_zoo.errors import UserError


def load(
  path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
  *gin_files: str,
  adapter: str | os.PathLike[str] | None = None,
  vocabulary: str | os.PathLike[str] | None = None,
  **macros: Any,
) -> Model:
  """Opens a checkpoint; its parameters are read when they are first needed.

  Args:
    path: The path of a run of ours or of one of its steps, of a Hugging Face,
      `peft` or T5X directory; several paths answer as an ensemble, by the mean
      of their logits.
    *gin_files: Gin files as `zoo infer --gin_file` takes them. A T5X checkpoint
      needs the files of its architecture and size.
    adapter: The run that trained a part of the model, or a directory of `peft`,
      of which `path` is the base.
    vocabulary: The path of a vocabulary, if not the one that the checkpoint
      came with or the one of its task.
    **macros: Values of macros or parameters, as `BATCH_SIZE=32` or
      `**{"Dropout.rate": 0.0}`.

  Raises:
    UserError: There is no such checkpoint, its model is unknown, or a name or
      value is wrong.
  """
  paths = configurations.listed(path)
  if adapter is None and not _is_method(paths[0]):
    return Model(_inference(paths, gin_files, vocabulary, macros))
  if len(paths) > 1:
    raise UserError(
      f"an adapter goes over one base, and path names {len(paths)}"
    )
  from transformer_zoo.checkpoints import bases

  if adapter is None:
    base, adapter = None, paths[0]
  else:
    base, adapter = paths[0], os.fspath(adapter)
  folder = None
  if _is_method(adapter):
    folder = tempfile.TemporaryDirectory()
    adapter = _converted(adapter, base, os.path.join(folder.name, "run"))
  found = contextlib.nullcontext() if base is None else bases.found_at(base)
  with found:
    inference = _inference([adapter], gin_files, vocabulary, macros)
    _ = inference.params  # The base is known here alone.
  return Model(inference, folder)


def _is_method(path: str) -> bool:
  """Whether a path is a directory of `peft` or `adapters`."""
  from transformer_zoo.conversion import methods

  return "://" not in path and methods.is_directory(path)


def _converted(path: str, base: str | None, folder: str) -> str:
  """Returns a directory of `peft` or `adapters` as a run of ours."""
  from transformer_zoo.conversion import convert

  convert.convert(path, folder, base=base, report=lambda line: None)
  return folder


def _inference(paths, gin_files, vocabulary, macros):
  """Returns the `Inference` that the command `zoo infer` would have."""
  from transformer_zoo import config

  given = configurations.Given(gin_files, configurations.overrides(macros))
  found = configurations.for_inference(
    paths,
    given,
    vocabulary_path=None if vocabulary is None else os.fspath(vocabulary),
  )
  with config.kept():
    configurations.load(found, given, "infer")
    inference = config.call("infer")
  inference.check()
  return inference
