"""Conversion of checkpoints between Hugging Face, T5X and our own runs."""

from collections.abc import Callable, Collection, Mapping, Sequence
import dataclasses
import math
import os
import pathlib
import shutil
from typing import Any

import numpy as np

from transformer_zoo.checkpoints import converted_run
from transformer_zoo.checkpoints import generation_config
from transformer_zoo.checkpoints import run_layout
from transformer_zoo.checkpoints import tokenizer_files
from transformer_zoo.conversion import exported_directory
from transformer_zoo.conversion import methods
from transformer_zoo.conversion import target as conversion_target
from transformer_zoo.conversion.sources import averaged
from transformer_zoo.conversion.sources import FORMATS
from transformer_zoo.conversion.sources import HUGGING_FACE
from transformer_zoo.conversion.sources import open_source
from transformer_zoo.conversion.sources import Source
from transformer_zoo.conversion.sources import T5X
from transformer_zoo.conversion.sources import with_rows
from transformer_zoo.conversion.sources import ZOO
from transformer_zoo.data.vocabularies import files
from transformer_zoo.data.vocabularies import Vocabulary
from transformer_zoo.errors import UserError
from transformer_zoo.interop.huggingface import directory
from transformer_zoo.interop.huggingface import sentence_transformers
from transformer_zoo.interop.huggingface import writing
from transformer_zoo.interop.t5x import checkpoints
from transformer_zoo.peft.exchange import ADAPTERS
from transformer_zoo.peft.exchange import PEFT
from transformer_zoo.tensors import orbax_checkpoints
from transformer_zoo.tensors.lazy_tensors import Tensor

_FLOAT32 = np.dtype(np.float32)
# Options of the command -> formats of the targets that have them.
_FORMATS_OF = {
  "--dtype": (HUGGING_FACE,),
  "--max_shard_size": (HUGGING_FACE,),
  "--scanned": (T5X,),
  "--vocabulary": (HUGGING_FACE, ZOO),
  "--vocabulary_size": (HUGGING_FACE, T5X, ZOO),
  "--positions": (HUGGING_FACE, T5X, ZOO),
}


def convert(
  source: str | os.PathLike[str],
  target: str | os.PathLike[str],
  *,
  to: str | None = None,
  gin_files: Sequence[str] = (),
  bindings: Sequence[str] = (),
  search_paths: Sequence[str] = (),
  vocabulary_path: str | None = None,
  extra_ids: int | None = None,
  vocabulary_size: int | None = None,
  positions: int | None = None,
  average: int | None = None,
  dtype: str | None = None,
  max_shard_bytes: int | None = None,
  scanned: bool = False,
  base: str | None = None,
  merge: bool = False,
  report: Callable[[str], None] = print,
) -> None:
  """Converts a checkpoint; one tensor is in memory at a time.

  The target is written aside and renamed when it is whole.

  Args:
    source: The path of a Hugging Face directory, a T5X checkpoint, a run of
      ours or a step of one, or a URL of one of them.
    target: The folder to write, which does not exist.
    to: The format of the target, one of `FORMATS`; if None, ours, or Hugging
      Face's for a run of ours.
    gin_files: The gin files of the model of a T5X checkpoint, which does not
      name its architecture.
    bindings: The bindings after the files, `NAME=VALUE`.
    search_paths: The folders that are searched for gin files first.
    vocabulary_path: The path of a vocabulary that is copied along.
    extra_ids: The number of its sentinels (`Vocabulary`).
    vocabulary_size: The number of rows of the tables of embeddings and logits
      (`sources.with_rows`); unchanged if None.
    positions: The number of rows of learned positions; unchanged if None.
    average: The number of last checkpoints of a run of ours whose mean is
      written; None for the checkpoint that `source` means.
    dtype: The type of the numbers in a Hugging Face directory; float32 if None.
    max_shard_bytes: The largest size of one of its files; `MAX_SHARD_BYTES` if
      None.
    scanned: Whether a T5X checkpoint is written for its `scalable_t5`.
    base: The path of the base of a directory of `peft` or `adapters`.
    merge: Whether methods of fine-tuning are merged into the base.
    report: A function that is called with sentences on what was done.

  Raises:
    UserError: The source is unknown or damaged, or the target exists, cannot
      hold the model or has no such option.
  """
  if run_layout.is_url(target):
    raise UserError(
      f"{target!r} is a URL, and conversions write folders of this machine; "
      "name one, and copy it there"
    )
  target = pathlib.Path(target)
  conversion_target.check_absent(target)
  if methods.is_directory(source):
    _check_of_method(
      {
        "--to": None if to == ZOO else to,
        "--merge": merge or None,
        "--vocabulary": vocabulary_path,
        "--extra_ids": extra_ids,
        "--vocabulary_size": vocabulary_size,
        "--positions": positions,
        "--average": average,
        "--dtype": dtype,
        "--max_shard_size": max_shard_bytes,
        "--scanned": scanned or None,
        "--gin_file": gin_files or None,
        "--gin_search_paths": search_paths or None,
        **{f"--gin.{given.partition('=')[0]}": given for given in bindings},
      }
    )
    with conversion_target.written_aside(target) as folder:
      tensors = methods.write_run(folder, source, base, report)
    _report(target, tensors, ZOO, report)
    return
  if base is not None:
    raise UserError(
      f"--base is {str(base)!r}, and {str(source)!r} is no directory of `peft` "
      "or `adapters`, which alone go over a base; leave it out, or name one "
      "with an adapter_config.json"
    )
  found = open_source(source, gin_files, bindings, report, search_paths)
  if average is not None:
    found = averaged(found, source, average)
  rows = {"vocabulary": vocabulary_size, "positions": positions}
  rows = {kind: number for kind, number in rows.items() if number is not None}
  if to is None:
    to = HUGGING_FACE if found.kind == ZOO else ZOO
  if merge:
    found = methods.merged(found)
  changes = bool(rows) or merge or average is not None
  _check_formats(found, to, changes=changes)
  _check_options(
    to,
    {
      "--dtype": dtype,
      "--max_shard_size": max_shard_bytes,
      "--scanned": scanned or None,
      "--vocabulary": vocabulary_path,
      "--vocabulary_size": vocabulary_size,
      "--positions": positions,
    },
  )
  found = _with_vocabulary(found, vocabulary_path, extra_ids)
  if rows:
    found = with_rows(found, rows, report)
  dtype = dtype or _FLOAT32.name
  conversion_target.check_room(
    target, _written(found, to), writing.DTYPES[dtype]
  )
  tensors = found.parameters.values()
  with conversion_target.written_aside(target) as folder:
    if to == ZOO:
      write_run(folder, found)
    elif to == T5X:
      _write_t5x(folder, found, scanned, report)
    elif to in (PEFT, ADAPTERS):
      tensors = methods.write_directory(folder, found, to)
    else:
      said = _write_directory(
        folder,
        found,
        dtype,
        max_shard_bytes or writing.MAX_SHARD_BYTES,
        report,
      )
      if said:
        report(f"{target}: {said}")
  _report(target, tensors, to, report)


def _report(
  target: pathlib.Path,
  tensors: Collection[Tensor],
  to: str,
  report: Callable[[str], None],
) -> None:
  number = sum(math.prod(tensor.shape) for tensor in tensors)
  dtypes = sorted({tensor.dtype.name for tensor in tensors})
  report(
    f"{target}: {number:,} parameters in {len(tensors)} tensors, read as "
    f"{', '.join(dtypes)}, format {to!r}"
  )


def _check_of_method(options: Mapping[str, object]) -> None:
  given = [name for name, value in options.items() if value is not None]
  if given:
    raise UserError(
      "a directory of `peft` or `adapters` becomes a run over its base first "
      f"(--to zoo with no option but --base); leave out {', '.join(given)} and "
      "convert that run then"
    )


def _written(source: Source, to: str) -> list[Tensor]:
  """The tensors that a target of a format holds."""
  moments = {} if to == HUGGING_FACE else source.moments or {}
  return [*source.parameters.values(), *moments.values()]


def _with_vocabulary(
  source: Source, path: str | None, extra_ids: int | None
) -> Source:
  if path is None and extra_ids is not None:
    raise UserError(
      f"--extra_ids is {extra_ids}, which means nothing without --vocabulary; "
      "name the file that the sentinels are added to"
    )
  if path is None:
    return source
  vocabulary = Vocabulary(path, extra_ids)
  vocabulary.check()
  return dataclasses.replace(source, vocabulary=vocabulary, beside=None)


def _check_formats(source: Source, to: str, *, changes: bool) -> None:
  if source.kind == to and not changes:
    raise UserError(
      f"{source.name!r} is in the format {to!r} already; choose another one "
      f"with --to: {', '.join(FORMATS)}"
    )
  if source.model is None and (to != T5X or changes):
    raise UserError(
      "a T5X checkpoint does not name its architecture; name it with "
      "--gin_file, as in --gin_file=architectures/t5_1_1.gin "
      "--gin_file=sizes/t5_1_1_small.gin"
    )


def _check_options(to: str, options: Mapping[str, object]) -> None:
  for name, value in options.items():
    if value is not None and to not in _FORMATS_OF[name]:
      others = " or ".join(f"--to {other}" for other in _FORMATS_OF[name])
      raise UserError(
        f"{name} is {value!r}, which means nothing to a target in the format "
        f"{to!r}; leave it out, or choose {others}"
      )


def _float32(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
  return {name: tensor.astype(_FLOAT32) for name, tensor in tensors.items()}


def write_run(folder: pathlib.Path, source: Source) -> None:
  """Writes a run of ours: parameters, configuration, files beside them."""
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
  beside = folder / run_layout.BESIDE
  beside.mkdir(parents=True)
  _write_vocabulary(beside, source)
  if original := _original_config(source):
    shutil.copyfile(original, beside / directory.CONFIG)
  converted_run.write_run(
    folder,
    source.gin_files,
    source.bindings,
    leaves,
    step=source.step,
    beside=source.beside,
    search_paths=source.search_paths,
  )


def _write_t5x(
  folder: pathlib.Path,
  source: Source,
  scanned: bool,
  report: Callable[[str], None],
) -> None:
  parameters, moments = _float32(source.parameters), source.moments
  if moments is not None and (
    reason := checkpoints.misfit(parameters, moments, scanned=scanned)
  ):
    report(f"without the optimizer's state: {reason}")
    moments = None
  checkpoints.write_checkpoint(
    folder, parameters, step=source.step, moments=moments, scanned=scanned
  )


def _write_directory(
  folder: pathlib.Path,
  source: Source,
  dtype: str,
  max_shard_bytes: int,
  report: Callable[[str], None],
) -> str:
  """Writes a directory; returns a sentence on its tokenizer, or ""."""
  folder.mkdir(parents=True)
  special_ids = _special_ids(source)
  generation = None
  if source.decoding and source.model.offers.has_decoder:
    generation = generation_config.attributes_of(
      source.decoding,
      special_ids.get("eos_token_id"),
      report,
      continues=source.model.offers.continues,
    )
  prompts_begin = None
  if source.model.offers.continues:
    prompts_begin = special_ids.get("bos_token_id")
  said = _write_vocabulary(folder, source, prompts_begin)
  exported_directory.write(
    folder,
    source.model,
    source.parameters,
    original=_original_config(source),
    model_type=_model_type(source),
    cls_place=source.cls_place,
    said={**special_ids, **_labels(source)},
    generation=generation,
    dtype=dtype,
    max_shard_bytes=max_shard_bytes,
  )
  if source.beside is None:  # Other files stay as they were published.
    if named := exported_directory.tokenizer_to_name(folder):
      report(named)
  return said


def _model_type(source: Source) -> str | None:
  """The kind of model that reads the vocabulary, if it is known."""
  if source.vocabulary is None:
    return None
  paths = files.recognise(source.vocabulary.path).paths
  return "xlm-roberta" if any(map(files.is_xlm_robertas, paths)) else None


def _special_ids(source: Source) -> dict[str, int]:
  """The ids of beginnings and ends for a config.json."""
  model, vocabulary = source.model, source.vocabulary
  if not model.offers.has_decoder:
    return {}
  start = model.pad_id if source.start_id is None else source.start_id
  name = "bos" if model.offers.continues else "decoder_start"
  found = {f"{name}_token_id": start}
  if source.begin_id is not None:
    found["bos_token_id"] = source.begin_id
  if vocabulary is not None and vocabulary.eos_id is not None:
    found["eos_token_id"] = vocabulary.eos_id
  return found


def _labels(source: Source) -> dict[str, Any]:
  """The names of classes or tags for a config.json, if they are known."""
  heads = source.model.offers.heads.values()
  numbers = {getattr(head, "num_classes", None) for head in heads}
  if numbers != {len(source.class_names)}:
    return {}
  names = dict(enumerate(source.class_names))
  return {
    "id2label": {str(i): name for i, name in names.items()},
    "label2id": {name: i for i, name in names.items()},
  }


def _original_config(source: Source) -> pathlib.Path | None:
  path = source.beside and source.beside / directory.CONFIG
  return path if path and path.is_file() else None


def _write_vocabulary(
  folder: pathlib.Path, source: Source, first_fed: int | None = None
) -> str:
  """Writes the files of the tokenizer and the defaults of generation.

  Args:
    folder: The folder to write in.
    source: The source of the files.
    first_fed: The argument of `tokenizer_files.write`, whose result is
      returned.
  """
  if source.beside is not None:
    generation = source.beside / writing.GENERATION_CONFIG
    if generation.is_file():
      shutil.copyfile(generation, folder / generation.name)
    for path in tokenizer_files.of_directory(source.beside):
      shutil.copyfile(path, folder / path.name)
    for name in sentence_transformers.BESIDE:
      if (source.beside / name).is_file():
        shutil.copyfile(source.beside / name, folder / name)
  elif source.vocabulary is not None:
    return tokenizer_files.write(
      source.vocabulary,
      folder,
      first_fed=first_fed,
      begin_id=source.begin_id,
      end_id=source.end_id,
      of_encoder=not source.model.offers.has_decoder,
    )
  return ""
