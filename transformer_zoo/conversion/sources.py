"""Sources of `zoo convert`: checkpoints of three formats, resized or not."""

from collections.abc import Callable, Mapping, Sequence
import dataclasses
import os
import pathlib

from flax import linen as nn
import numpy as np

from transformer_zoo import config
from transformer_zoo.checkpoints import averaging
from transformer_zoo.checkpoints import checkpoint_sources
from transformer_zoo.checkpoints import converted_run
from transformer_zoo.checkpoints import model_parameters
from transformer_zoo.checkpoints import remote
from transformer_zoo.checkpoints import run_contents
from transformer_zoo.checkpoints import run_layout
from transformer_zoo.data.vocabularies import Vocabulary
from transformer_zoo.decoding.options import DecodingOptions
from transformer_zoo.errors import no_checkpoint
from transformer_zoo.errors import UserError
from transformer_zoo.interop.huggingface import directory
from transformer_zoo.interop.t5x import checkpoints
from transformer_zoo.tensors import assignment
from transformer_zoo.tensors import orbax_checkpoints
from transformer_zoo.tensors.lazy_tensors import copy
from transformer_zoo.tensors.lazy_tensors import Tensor

HUGGING_FACE, T5X, ZOO = "huggingface", "t5x", "zoo"
FORMATS = (HUGGING_FACE, T5X, ZOO)
# Tables that may be resized -> the macro that says how many rows they have.
_MACROS = {"vocabulary": "VOCAB_SIZE", "positions": "MAX_POSITIONS"}


@dataclasses.dataclass(frozen=True)
class Source:
  """A checkpoint that is converted.

  Attributes:
    kind: The format, one of `FORMATS`.
    name: The path of the checkpoint.
    parameters: The parameters by our names, layers unstacked.
    gin_files: The gin files of the model; none if it is unknown.
    bindings: The bindings after the files, `NAME=VALUE`.
    model: The model that they configure, or None.
    step: The number of steps that were made.
    moments: The moments of Adafactor (`t5x.checkpoints`), or None.
    beside: The folder of the files that are copied along, or None.
    vocabulary: The vocabulary to write if no files are copied along, or None.
    start_id: The id that the decoder of a run is first fed; None for padding,
      or if a config.json in `beside` names it.
    begin_id: The id that inputs and targets of a run begin with, or None.
    end_id: The id that inputs of a run end with behind their EOS, or None.
    cls_place: Where [CLS] stands in the rows of an encoder's run, "first" or
      "last"; None if it is unknown.
    decoding: The decoding options of a run; None if files in `beside` have
      them.
    class_names: The names of the classes or tags of a run's head, or none.
    search_paths: The folders that are searched for gin files first.
  """

  kind: str
  name: str
  parameters: Mapping[str, Tensor]
  gin_files: Sequence[str] = ()
  bindings: Sequence[str] = ()
  model: nn.Module | None = None
  step: int = 0
  moments: Mapping[str, Tensor] | None = None
  beside: pathlib.Path | None = None
  vocabulary: Vocabulary | None = None
  start_id: int | None = None
  begin_id: int | None = None
  end_id: int | None = None
  cls_place: str | None = None
  decoding: DecodingOptions | None = None
  class_names: Sequence[str] = ()
  search_paths: Sequence[str] = ()


def open_source(
  source: str | os.PathLike[str],
  gin_files: Sequence[str] = (),
  bindings: Sequence[str] = (),
  report: Callable[[str], None] = print,
  search_paths: Sequence[str] = (),
) -> Source:
  """Opens a checkpoint; no tensor is read.

  Args:
    source: a Hugging Face directory, a T5X checkpoint, a run of ours or a step
      of one, or a URL of one of them.
    gin_files: Gin files of the model of a T5X checkpoint, which does not name
      it.
    bindings: The bindings applied after the files, `NAME=VALUE`.
    report: called with what is left behind.
    search_paths: The folders that are searched for gin files first.

  Raises:
    UserError: there is none, it is damaged, or not of the model.
  """
  path = remote.fetched(source)
  checkpoint_sources.check_not_tensorflow(path)
  if not path.exists():
    raise no_checkpoint(str(source))
  if not directory.is_directory(path) and checkpoints.is_checkpoint(path):
    return _of_t5x(path, gin_files, bindings, report, search_paths)
  is_directory = directory.is_directory(path)
  if not is_directory and not converted_run.is_run(path):
    raise UserError(
      f"{str(source)!r} is no checkpoint that is known here: a Hugging Face "
      "directory has a config.json, a T5X checkpoint a file `checkpoint`, a "
      "run a folder checkpoints/"
    )
  if given := [*gin_files, *bindings, *search_paths]:
    raise UserError(
      f"{str(source)!r} names its own model: leave out "
      f"{', '.join(given)} (other numbers of rows are "
      "--vocabulary_size and --positions)"
    )
  if is_directory:
    return _of_directory(directory.open_directory(path), report)
  return _of_run(converted_run.open_run(path))


def averaged(
  source: Source, path: str | os.PathLike[str], number: int
) -> Source:
  """A source with the mean of the last checkpoints of a run, without moments.

  Args:
    source: The source of the run.
    path: The run, as `open_source` takes it.
    number: The number of checkpoints.

  Raises:
    UserError: The source is no run of ours, or has fewer checkpoints.
  """
  if source.kind != ZOO:
    raise UserError(
      f"--average {number} is of the last checkpoints of a run of ours, and "
      f"{source.name!r} is one checkpoint in the format {source.kind!r}; leave "
      "it out"
    )
  steps = averaging.last_steps(remote.fetched(path), number)
  means = averaging.mean(
    [converted_run.open_run(step).parameters() for step in steps]
  )
  return dataclasses.replace(
    source, parameters=means, step=int(steps[-1].name), moments=None
  )


def with_rows(
  source: Source,
  rows: Mapping[str, int],
  report: Callable[[str], None] = print,
) -> Source:
  """A source whose model reads other numbers of tokens or positions.

  Args:
    source: A source whose model is known.
    rows: `vocabulary` or `positions` (`assignment.ROWS`) -> how many.
    report: called with what has changed.

  Raises:
    UserError: the model has no such table, or two vocabularies, or ids of its
      vocabulary would be cut off.
  """
  _check_rows(source, rows)
  changes = [f"{_MACROS[kind]}={number}" for kind, number in rows.items()]
  bindings = [*source.bindings, *changes]
  try:
    model = config.build(
      "MODEL", source.gin_files, bindings, search_paths=source.search_paths
    )
  except UserError as error:
    raise UserError(
      f"{source.name!r} has no table of {' or of '.join(rows)} that can be "
      f"resized ({error})"
    ) from error
  wanted = model_parameters.parameters_of(model)
  found = assignment.assign(
    wanted, source.parameters, assignment.Rules(resized=rows), source.name
  )
  for name, difference in found.resized.items():
    report(f"resized: {name} {difference}")
  if found.resized and source.moments is not None:
    report("without the optimizer's state, which is of the former tables")
  return dataclasses.replace(
    source,
    parameters={
      name: resized(tensor, wanted[name].shape)
      for name, tensor in found.tensors.items()
    },
    bindings=bindings,
    model=model,
    moments=None if found.resized else source.moments,
  )


def resized(tensor: Tensor, shape: Sequence[int]) -> Tensor:
  """A tensor whose last numbers along its axes are cut, or new.

  New numbers are the mean of the former ones along the axis that grows. The
  logit of a new token is then the mean of all others, so that it is never the
  largest and takes no more than its share of the probability (Hewitt 2021,
  "Initializing new word embeddings for pretrained language models").

  Args:
    tensor: An embedding, the matrix or bias of a softmax, or learned positions.
    shape: The shape of the result, with as many axes.
  """
  if all(n <= there for n, there in zip(shape, tensor.shape, strict=True)):
    cut = tuple(map(slice, shape))
    return Tensor(tuple(shape), tensor.dtype, lambda: tensor.load()[cut])
  return Tensor(tuple(shape), tensor.dtype, lambda: _grown(tensor, shape))


def _grown(tensor: Tensor, shape: Sequence[int]) -> np.ndarray:
  grown, first = None, 0
  for part in tensor.parts():
    if grown is None:
      grown = np.empty_like(part, shape=shape)  # It lies in memory alike.
    part = part[tuple(map(slice, (max(shape[0] - first, 0), *shape[1:])))]
    rows = slice(first, first + len(part))
    copy(part, grown[(rows, *map(slice, part.shape[1:]))])
    first = rows.stop
    del part  # Before the next is mapped.
  for axis, there in enumerate(tensor.shape):
    if shape[axis] > there:
      old, new = np.split(grown, [there], axis)
      # Sums of many rows, and of float16, need more digits than rows have.
      new[...] = old.mean(axis, dtype=np.float64, keepdims=True)
  return grown


def _check_rows(source: Source, rows: Mapping[str, int]) -> None:
  for kind, number in rows.items():
    if number < 1:
      raise UserError(f"{number} rows of {kind}; it takes at least 1")
  if "vocabulary" not in rows:
    return
  if not source.model.offers.has_one_vocabulary:
    raise UserError(
      f"{source.name!r} has a vocabulary for its inputs and one for its "
      "targets; their tables are not resized"
    )
  used = source.beside and checkpoint_sources.vocabulary(source.beside)
  used = used or source.vocabulary
  if used is not None and rows["vocabulary"] < used.size:
    raise UserError(
      f"--vocabulary_size is {rows['vocabulary']} and the vocabulary of "
      f"{source.name!r} has {used.size} ids; none of them can be cut off"
    )


def _of_directory(
  found: directory.Directory, report: Callable[[str], None]
) -> Source:
  architecture = found.architecture
  bindings = architecture.as_overrides()
  model = config.build("MODEL", architecture.gin_files, bindings)
  shapes = model_parameters.shapes_of(model)
  stored = found.parameters(shapes)
  for note in found.notes:
    report(note)
  if spare := stored.keys() - shapes.keys():
    report(f"passed over: {', '.join(sorted(spare))}, which no head reads")
  return Source(
    HUGGING_FACE,
    str(found.path),
    {name: tensor for name, tensor in stored.items() if name in shapes},
    architecture.gin_files,
    bindings,
    model,
    beside=found.path,
  )


def _of_t5x(path, gin_files, bindings, report, search_paths) -> Source:
  found = checkpoints.open_checkpoint(path)
  model = None
  if gin_files:
    model = config.build(
      "MODEL", gin_files, bindings, search_paths=search_paths
    )
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
    T5X,
    str(path),
    parameters,
    gin_files,
    bindings,
    model,
    found.step,
    moments,
    search_paths=search_paths,
  )


def _of_run(found: converted_run.Run) -> Source:
  beside, vocabulary = found.beside, run_contents.vocabulary_of(found.folder)
  if beside is not None and not directory.is_directory(beside):
    # A vocabulary that was named (--vocabulary): its files were written here.
    beside, vocabulary = None, checkpoint_sources.vocabulary(beside)
  return Source(
    ZOO,
    str(found.folder),
    found.parameters(),
    [str(found.folder / run_layout.CONFIG)],
    found.bindings,
    found.model,
    step=found.step,
    moments=orbax_checkpoints.moments(found.leaves) or None,
    beside=beside,
    vocabulary=vocabulary,
    start_id=run_contents.converter_field(found.folder, "bos_id"),
    begin_id=run_contents.converter_field(found.folder, "begin_id"),
    end_id=run_contents.converter_field(found.folder, "end_id"),
    cls_place=run_contents.converter_field(found.folder, "cls_place"),
    decoding=run_contents.decoding_of(found.folder),
    class_names=run_contents.class_names_of(found.folder),
  )


def _check_parameters(
  parameters: Mapping[str, Tensor], model: nn.Module
) -> None:
  shapes = model_parameters.shapes_of(model)
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
