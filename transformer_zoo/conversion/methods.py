"""Methods of fine-tuning in conversions: merged, or exchanged.

A directory of `peft` or of `adapters` has an adapter_config.json, which says
one from the other.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
import dataclasses
import functools
import os
import pathlib
from typing import Any

from flax import linen as nn
import numpy as np

from transformer_zoo import config
from transformer_zoo import schemas
from transformer_zoo.checkpoints import bases
from transformer_zoo.checkpoints import converted_run
from transformer_zoo.checkpoints import model_parameters
from transformer_zoo.checkpoints import run_contents
from transformer_zoo.conversion import adapters_directories
from transformer_zoo.conversion import exported_directory
from transformer_zoo.conversion import peft_directories
from transformer_zoo.conversion.sources import HUGGING_FACE
from transformer_zoo.conversion.sources import open_source
from transformer_zoo.conversion.sources import Source
from transformer_zoo.errors import UserError
from transformer_zoo.interop.huggingface import directory
from transformer_zoo.interop.huggingface.family import Family
from transformer_zoo.modules import comparison
from transformer_zoo.peft import merging
from transformer_zoo.peft import method as method_lib
from transformer_zoo.peft import substitution
from transformer_zoo.peft.exchange import ADAPTERS
from transformer_zoo.peft.exchange import CONFIG
from transformer_zoo.peft.exchange import Exchange
from transformer_zoo.peft.exchange import Module
from transformer_zoo.peft.exchange import PEFT
from transformer_zoo.peft.exchange import Trained
from transformer_zoo.peft.method import Method
from transformer_zoo.tensors import orbax_checkpoints
from transformer_zoo.tensors.lazy_tensors import Tensor
from transformer_zoo.training.checkpoints import reading

_LIBRARIES = {PEFT: peft_directories, ADAPTERS: adapters_directories}


def is_directory(path: str | os.PathLike[str]) -> bool:
  """Whether a path is a directory of `peft` or of `adapters`."""
  return (pathlib.Path(path) / CONFIG).is_file()


def merged(source: Source) -> Source:
  """Returns a source whose method is merged into its base.

  Raises:
    UserError: It has none, or one that cannot be merged, as BitFit over a base
      without biases.
  """
  if source.model is None or not substitution.substitutes(source.model):
    raise UserError(
      f"--merge: the model of {source.name!r} has no method to merge"
    )
  model, leaves = merging.merge_leaves(
    source.model, source.parameters, load=Tensor.read
  )
  base = substitution.original(source.model)
  if others := comparison.differences(model, base):
    field, values = next(iter(others.items()))
    raise UserError(
      f"--merge: merged, the model of {source.name!r} differs from its base "
      f"({field}: {values}), as where BitFit adds biases; use the run as it is"
    )
  return dataclasses.replace(
    source,
    model=model,
    parameters={
      name: leaf if isinstance(leaf, Tensor) else Tensor.of(np.asarray(leaf))
      for name, leaf in leaves.items()
    },
    bindings=[
      *(b for b in source.bindings if b != converted_run.UNROUNDED),
      "MODEL=%previous/MODEL",
    ],
    moments=None,
  )


def write_directory(
  folder: pathlib.Path, source: Source, to: str
) -> Sequence[Tensor]:
  """Writes the method of a run as a directory of a library.

  Args:
    folder: The folder to write.
    source: A run.
    to: The library, `PEFT` or `ADAPTERS`.

  Returns:
    The tensors of the directory.

  Raises:
    UserError: The library has no such method, or its base is no class of
      `transformers`.
  """
  method, exchange = _exchanged(source.model, to)
  before = bases.Base.of_run(pathlib.Path(source.name))
  if before is None:
    raise UserError(
      f"{source.name!r} holds base and method in one; a directory of `{to}` "
      "needs a base to name: train from INITIAL_CHECKPOINT_PATH"
    )
  base = substitution.original(source.model)
  leaves = converted_run.open_run(source.name).leaves
  stored = orbax_checkpoints.parameters(leaves).keys()
  own = stored & model_parameters.shapes_of(base).keys()
  family, described, path = _class_of(before.path, base, own)
  trained = Trained(
    repr(source.name),
    source.model,
    source.parameters,
    method.adds,
    _modules(family, described),
    own,
    functools.partial(run_contents.converter_field, pathlib.Path(source.name)),
  )
  return _LIBRARIES[to].write(
    folder, exchange, trained, family, described, path
  )


def _exchanged(model: nn.Module, library: str) -> tuple[Method, Exchange]:
  """The one method of a model that a library has.

  Raises:
    UserError: There is none, or another one beside it.
  """
  extensions = substitution.extensions(model)
  known = {
    method: exchange
    for method in method_lib.shipped()
    for exchange in method.exchanges
    if exchange.library == library
  }
  found = [method for method in known if extensions & {*method.parts}]
  covered = {part for method in found for part in method.parts}
  if len(found) != 1 or not extensions <= covered:
    listed = ", ".join(substitution.substitutes(model)) or "nothing"
    raise UserError(
      f"a directory of `{library}` has one of the methods "
      f"{', '.join(method.name for method in known)}; this model has {listed}"
    )
  return found[0], known[found[0]]


def _modules(family: Family, described: Mapping[str, Any]) -> list[Module]:
  """The modules of a class that have a matrix, with our projections in it."""
  return [
    Module(
      link.theirs.removesuffix(".weight"),
      tuple(name.removesuffix("/kernel") for name in link.ours),
    )
    for link in family.links(described)
    if link.ours
    and link.theirs.endswith(".weight")
    and all(name.endswith("/kernel") for name in link.ours)
  ]


def _class_of(
  path: str, model: nn.Module, own: Collection[str]
) -> tuple[Family, Mapping[str, Any], str]:
  """The class of `transformers` of a model, its config.json and its base.

  It has the heads of the model, which the class of the base may lack.

  Args:
    path: The path of the base.
    model: The model without its method.
    own: See `Trained`.
  """
  if directory.is_directory(path):
    found = directory.open_directory(path)
    links = found.family.links(found.config)
    if not {name for link in links for name in link.ours}.issuperset(own):
      described = {**found.config, **found.family.config(model)}
      return found.family, described, path
    return found.family, found.config, path
  family, described = exported_directory.class_of(model)
  return family, described, str(reading.run_of(pathlib.Path(path)))


def write_run(
  folder: pathlib.Path,
  source: str | os.PathLike[str],
  base_path: str | None,
  report: Callable[[str], None] = print,
) -> Sequence[Tensor]:
  """Writes a directory of `peft` or `adapters` as a run over a base.

  Args:
    folder: The folder to write.
    source: The directory.
    base_path: The path of the base, a directory of `transformers` or a run;
      None for that which the directory names.
    report: Called with what is left behind.

  Returns:
    The tensors of the method.

  Raises:
    UserError: The method is not known here, or of another base.
  """
  source = pathlib.Path(source)
  said = schemas.read(source / CONFIG, schemas.ADAPTER_CONFIG)
  of_adapters = adapters_directories.describes(said)
  library = _LIBRARIES[ADAPTERS if of_adapters else PEFT]
  base_path = base_path or said.get(library.BASE)
  if not base_path or not pathlib.Path(base_path).exists():
    raise UserError(
      f"the base of {str(source)!r}, {base_path!r}, is not there; name its "
      "directory or run with --base"
    )
  base = open_source(base_path, report=report)
  if base.kind == HUGGING_FACE:
    found = directory.open_directory(base_path)
    family, described = found.family, found.config
    step = found.path
  else:
    family, described = exported_directory.class_of(base.model)
    step = reading.resolve(base_path)
  method = library.read(
    source,
    said,
    _modules(family, described),
    family,
    described,
    base.parameters,
  )
  gin_files = [*base.gin_files, method.gin_file]
  bindings = [
    *base.bindings,
    *(f"{name}={value!r}" for name, value in method.bindings.items()),
  ]
  model = config.build("MODEL", gin_files, bindings)
  wanted = model_parameters.shapes_of(model)
  tensors = {
    name: Tensor.of(np.asarray(array, np.float32))
    for name, array in method.parameters.items()
  }
  if misfits := [
    f"{name} {tensor.shape} and not {wanted[name]}"
    for name, tensor in tensors.items()
    if name in wanted and tuple(tensor.shape) != tuple(wanted[name])
  ]:
    raise UserError(
      f"tensors in {str(source)!r} have other shapes than its "
      f"{CONFIG} says: {', '.join(misfits[:3])}"
    )
  if missing := sorted(wanted.keys() - tensors.keys() - base.parameters.keys()):
    raise UserError(
      f"{str(source)!r} lacks {', '.join(missing[:3])} of {method.gin_file}"
    )
  folder.mkdir(parents=True)
  converted_run.write_run(
    folder,
    gin_files,
    bindings,
    {f"{orbax_checkpoints.PARAMETERS}{n}": t for n, t in tensors.items()},
    beside=base.beside,
  )
  read = {name: name for name in base.parameters if name not in tensors}
  bases.Base(str(step.absolute()), bases.identity(step), read).write(folder)
  return list(tensors.values())
