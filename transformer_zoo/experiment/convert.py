"""Conversion of checkpoints between Hugging Face, T5X and our own runs."""

from collections.abc import Callable, Mapping, Sequence
import contextlib
import dataclasses
import math
import os
import pathlib
import shutil

from flax import linen as nn
import numpy as np

from transformer_zoo import config
from transformer_zoo.data.vocabularies import Vocabulary
from transformer_zoo.errors import UserError
from transformer_zoo.experiment import converted_run
from transformer_zoo.experiment import exported_directory
from transformer_zoo.experiment import tokenizer_files
from transformer_zoo.interop import orbax_checkpoints
from transformer_zoo.interop import t5x_checkpoints
from transformer_zoo.interop.huggingface import directory
from transformer_zoo.interop.huggingface import writing
from transformer_zoo.interop.tensors import Tensor

HUGGING_FACE, T5X, ZOO = "huggingface", "t5x", "zoo"
FORMATS = (HUGGING_FACE, T5X, ZOO)
_FLOAT32 = np.dtype(np.float32)


@dataclasses.dataclass(frozen=True)
class Source:
  """What is converted.

  Attributes:
    kind: one of `FORMATS`.
    parameters: ours by name, layers unstacked.
    gin_files: of the model; none where nothing tells it.
    bindings: after them, `NAME=VALUE`.
    model: as they configure it, or None.
    step: steps made.
    moments: Adafactor's (`t5x_checkpoints`), or None.
    beside: folder of files that go along, or None.
    vocabulary: to write where none goes along, or None.
  """

  kind: str
  parameters: Mapping[str, Tensor]
  gin_files: Sequence[str] = ()
  bindings: Sequence[str] = ()
  model: nn.Module | None = None
  step: int = 0
  moments: Mapping[str, Tensor] | None = None
  beside: pathlib.Path | None = None
  vocabulary: Vocabulary | None = None


def convert(
  source: str | os.PathLike[str],
  target: str | os.PathLike[str],
  *,
  to: str | None = None,
  gin_files: Sequence[str] = (),
  bindings: Sequence[str] = (),
  vocabulary_path: str | None = None,
  dtype: str = "float32",
  max_shard_bytes: int = writing.MAX_SHARD_BYTES,
  scanned: bool = False,
  report: Callable[[str], None] = print,
) -> None:
  """Converts a checkpoint; one tensor is in memory at a time.

  The target is written aside and renamed when it is whole.

  Args:
    source: a Hugging Face directory, a T5X checkpoint, a run of ours or a step
      of one.
    target: a folder that does not exist.
    to: one of `FORMATS`; ours by default, of ours Hugging Face's.
    gin_files: the model of a T5X checkpoint, which does not tell it.
    bindings: after them, `NAME=VALUE`.
    vocabulary_path: a vocabulary that goes along where the source has none.
    dtype: of the numbers in a Hugging Face directory; ours are float32.
    max_shard_bytes: the most that one of its files holds.
    scanned: whether a T5X checkpoint is of its `scalable_t5`.
    report: called with sentences on what was done.

  Raises:
    UserError: the source is unknown or damaged, the target is there or cannot
      hold the model.
  """
  target = pathlib.Path(target)
  if target.exists():
    raise UserError(
      f"{str(target)!r} is there already; name another folder, or remove it"
    )
  found = _open(source, gin_files, bindings, report)
  if vocabulary_path is not None:
    vocabulary = Vocabulary(vocabulary_path)
    vocabulary.check()
    found = dataclasses.replace(found, vocabulary=vocabulary, beside=None)
  if to is None:
    to = HUGGING_FACE if found.kind == ZOO else ZOO
  if found.kind == to:
    raise UserError(
      f"{str(source)!r} is in the format {to!r} already; choose another one "
      f"with --to: {', '.join(FORMATS)}"
    )
  if to != T5X and found.model is None:
    raise UserError(
      "a T5X checkpoint does not tell its architecture; name it with "
      "--gin_file, as in --gin_file=architectures/t5_1_1.gin "
      "--gin_file=sizes/t5_1_1_small.gin"
    )
  _check_room(target, found)
  with _written_aside(target) as folder:
    if to == ZOO:
      _write_run(folder, found)
    elif to == T5X:
      t5x_checkpoints.write_checkpoint(
        folder,
        _float32(found.parameters),
        step=found.step,
        moments=found.moments,
        scanned=scanned,
      )
    else:
      folder.mkdir(parents=True)
      _write_vocabulary(folder, found)
      exported_directory.write(
        folder,
        found.model,
        found.parameters,
        original=_original_config(found),
        special_ids=_special_ids(found.vocabulary),
        dtype=dtype,
        max_shard_bytes=max_shard_bytes,
      )
  number = sum(math.prod(t.shape) for t in found.parameters.values())
  dtypes = sorted({t.dtype.name for t in found.parameters.values()})
  report(
    f"{target}: {number:,} parameters in {len(found.parameters)} tensors, read "
    f"as {', '.join(dtypes)}, format {to!r}"
  )


def _open(source, gin_files, bindings, report) -> Source:
  path = pathlib.Path(source)
  if not path.exists():
    raise UserError(f"there is no checkpoint {str(source)!r}")
  if directory.is_directory(path):
    return _of_directory(directory.open_directory(path))
  if t5x_checkpoints.is_checkpoint(path):
    return _of_t5x(path, gin_files, bindings, report)
  if converted_run.is_run(path):
    return _of_run(converted_run.open_run(path))
  raise UserError(
    f"{str(source)!r} is no checkpoint that is known here: a Hugging Face "
    "directory has a config.json, a T5X checkpoint a file `checkpoint`, a run "
    "a folder checkpoints/"
  )


def _of_directory(found: directory.Directory) -> Source:
  architecture = found.family.architecture(found.config)
  bindings = architecture.as_overrides()
  model = config.build("MODEL", architecture.gin_files, bindings)
  return Source(
    HUGGING_FACE,
    found.parameters(converted_run.shapes_of(model)),
    architecture.gin_files,
    bindings,
    model,
    beside=found.path,
  )


def _of_t5x(path, gin_files, bindings, report) -> Source:
  found = t5x_checkpoints.open_checkpoint(path)
  model = config.build("MODEL", gin_files, bindings) if gin_files else None
  moments = None
  if found.has_optimizer_state:
    try:
      moments = found.moments()
    except UserError as error:
      report(f"without the optimizer's state: {error}")
  parameters = found.parameters()
  if model is not None:
    _check_parameters(parameters, model)
  return Source(
    T5X, parameters, gin_files, bindings, model, found.step, moments
  )


def _of_run(found: converted_run.Run) -> Source:
  step = found.leaves.get("step")
  return Source(
    ZOO,
    found.parameters(),
    model=found.model,
    step=0 if step is None else int(step.read()),
    moments=orbax_checkpoints.moments(found.leaves) or None,
    beside=found.beside,
    vocabulary=converted_run.vocabulary_of(found.folder),
  )


def _float32(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
  return {name: tensor.astype(_FLOAT32) for name, tensor in tensors.items()}


def _write_run(folder: pathlib.Path, source: Source) -> None:
  leaves = {
    orbax_checkpoints.PARAMETERS + name: tensor
    for name, tensor in _float32(source.parameters).items()
  }
  if source.moments is not None:
    leaves["step"] = Tensor.of(np.asarray(source.step, np.int32))
    leaves["opt_state/count"] = leaves["step"]
    leaves |= {
      orbax_checkpoints.MOMENTS + n: t
      for n, t in _float32(source.moments).items()
    }
  beside = folder / converted_run.BESIDE
  beside.mkdir(parents=True)
  _write_vocabulary(beside, source)
  if original := _original_config(source):
    shutil.copyfile(original, beside / directory.CONFIG)
  converted_run.write_run(
    folder, source.gin_files, source.bindings, leaves, step=source.step
  )


def _check_parameters(
  parameters: Mapping[str, Tensor], model: nn.Module
) -> None:
  shapes = converted_run.shapes_of(model)
  there = {name: tensor.shape for name, tensor in parameters.items()}
  if different := {
    f"{name} {there.get(name, 'missing')} instead of "
    f"{shapes.get(name, 'nothing')}"
    for name in there.keys() | shapes.keys()
    if there.get(name) != shapes.get(name)
  }:
    shown = "; ".join(sorted(different)[:3])
    raise UserError(
      f"the checkpoint is not of the configured model; {len(different)} "
      f"parameters differ: {shown}"
    )


def _special_ids(vocabulary: Vocabulary | None) -> dict[str, int]:
  """What a configuration of theirs says of the vocabulary."""
  if vocabulary is None or vocabulary.eos_id is None:
    return {}
  return {"eos_token_id": vocabulary.eos_id}


def _original_config(source: Source) -> pathlib.Path | None:
  path = source.beside and source.beside / directory.CONFIG
  return path if path and path.is_file() else None


def _write_vocabulary(folder: pathlib.Path, source: Source) -> None:
  """Writes the files of the tokenizer and the defaults of generation."""
  if source.beside is not None:
    generation = source.beside / writing.GENERATION_CONFIG
    if generation.is_file():
      shutil.copyfile(generation, folder / generation.name)
    for path in tokenizer_files.of_directory(source.beside):
      shutil.copyfile(path, folder / path.name)
  elif source.vocabulary is not None:
    tokenizer_files.write(source.vocabulary, folder)


def _check_room(target: pathlib.Path, source: Source) -> None:
  tensors = [*source.parameters.values(), *(source.moments or {}).values()]
  needed = sum(math.prod(t.shape) * _FLOAT32.itemsize for t in tensors)
  folder = target.absolute().parent
  while not folder.exists():
    folder = folder.parent
  free = shutil.disk_usage(folder).free
  if needed > free:
    raise UserError(
      f"{str(target)!r} needs {needed / 1e9:.1f} GB and {free / 1e9:.1f} GB "
      "are free there; choose another disk"
    )


@contextlib.contextmanager
def _written_aside(target: pathlib.Path):
  """A folder that becomes `target` when it is whole, and goes otherwise."""
  aside = target.with_name(f"{target.name}.partial")
  shutil.rmtree(aside, ignore_errors=True)
  try:
    yield aside
    aside.rename(target)
  finally:
    shutil.rmtree(aside, ignore_errors=True)
