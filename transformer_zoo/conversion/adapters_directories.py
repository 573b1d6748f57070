"""Directories of the `adapters` library: the files and the settings.

A directory has `adapter_config.json` and `adapter.safetensors` or
`pytorch_adapter.bin`, whose tensors are named after the modules of a class of
`transformers`. `peft/adapters.py` reads and writes the adapters. Source:
adapter-hub/adapters 1.3.0, `loading.py`, `methods/{modeling,bottleneck}.py` and
`configuration/adapter_config.py`.
"""

from collections.abc import Mapping, Sequence
import pathlib
import re
from typing import Any

import numpy as np

from transformer_zoo.errors import UserError
from transformer_zoo.interop.huggingface import attributes
from transformer_zoo.interop.huggingface import pytorch_files
from transformer_zoo.interop.huggingface import writing
from transformer_zoo.interop.huggingface.family import Family
from transformer_zoo.peft import method as method_lib
from transformer_zoo.peft.exchange import ADAPTERS
from transformer_zoo.peft.exchange import CONFIG
from transformer_zoo.peft.exchange import Directory
from transformer_zoo.peft.exchange import Exchange
from transformer_zoo.peft.exchange import Imported
from transformer_zoo.peft.exchange import Module
from transformer_zoo.peft.exchange import Trained
from transformer_zoo.tensors import safetensors
from transformer_zoo.tensors.lazy_tensors import Tensor

BASE = "model_name"
_SAFETENSORS, _PYTORCH = "adapter.safetensors", "pytorch_adapter.bin"
_NAME = "adapter"


def describes(said: Mapping[str, Any]) -> bool:
  """Whether an adapter_config.json is one of this library."""
  return "peft_type" not in said and said.get("config") is not None


def read(
  folder: pathlib.Path,
  said: Mapping[str, Any],
  modules: Sequence[Module],
  family: Family,
  config: Mapping[str, Any],
  base: Mapping[str, Tensor],
) -> Imported:
  """Reads a directory.

  Args:
    folder: The directory.
    said: The contents of its adapter_config.json.
    modules: The modules of the class of the base.
    family: The family of the base.
    config: The config.json of the base, settled.
    base: The parameters of the base by our names.

  Raises:
    UserError: The method is unknown here, or of another base.
  """
  where, settings = repr(str(folder)), said["config"]
  kind, known = settings.get("architecture"), method_lib.exchanges(ADAPTERS)
  if kind not in known:
    raise UserError(
      f"{where} has the architecture {kind!r} of `adapters`, which is not read "
      "here; known: adapters of Houlsby (double_seq_bn) and Pfeiffer (seq_bn)"
    )
  exchange = known[kind]
  _check(where, settings, exchange)
  directory = Directory(
    name=where,
    settings=settings,
    sizes=exchange.sizes,
    base_name=said.get(BASE),
    tensors=_tensors(folder),
    modules=modules,
    prefix=family.prefix,
    base=base,
    activations=attributes.ACTIVATIONS,
  )
  found = exchange.read(directory)
  if directory.tensors:
    left = ", ".join(sorted(directory.tensors)[:3])
    raise UserError(
      f"{where} is of another base: {left} belong to no module of "
      f"{config.get('model_type')} with these layers"
    )
  return found


def _check(where: str, settings: Mapping[str, Any], exchange: Exchange) -> None:
  """Refuses settings that ask for what is not built here."""
  for name, value in settings.items():
    known = exchange.values.get(name, (value,))
    if value not in known or isinstance(value, bool) != isinstance(
      known[0], bool
    ):
      raise UserError(
        f"{where} has {name} = {value!r}, which is not read here; known: "
        f"{' or '.join(map(repr, known))}"
      )
    understood = f"architecture|{exchange.others}"
    if name not in exchange.values and not re.fullmatch(understood, name):
      raise UserError(
        f"{where} has the setting {name!r} ({value!r}), which is not "
        "understood here; remove it if no output depends on it"
      )


def _tensors(folder: pathlib.Path) -> dict[str, Tensor]:
  """The tensors by name without the name of the adapter."""
  if (folder / _SAFETENSORS).is_file():
    found = safetensors.read(folder / _SAFETENSORS)
  elif (folder / _PYTORCH).is_file():
    found = pytorch_files.read(folder / _PYTORCH)
  else:
    raise UserError(
      f"{str(folder)!r} has neither {_SAFETENSORS} nor {_PYTORCH}"
    )
  return {
    re.sub(r"\.adapters\.[^.]+\.", ".", name): tensor
    for name, tensor in found.items()
  }


def write(
  folder: pathlib.Path,
  exchange: Exchange,
  trained: Trained,
  family: Family,
  config: Mapping[str, Any],
  base_path: str,
) -> Sequence[Tensor]:
  """Writes a directory of the adapters in a model.

  Args:
    folder: The folder, which is made.
    exchange: The exchange of the method.
    trained: The model with its parameters.
    family: The family of the base.
    config: The config.json of the base.
    base_path: The name that a reader loads the base by.

  Returns:
    The tensors of the directory.

  Raises:
    UserError: The library has no such adapters, or more was trained.
  """
  del family
  heads = {n for n in trained.tensors if re.match(method_lib.TASK_HEADS, n)}
  if others := sorted(heads.union(trained.own)):
    raise UserError(
      "a directory of `adapters` holds nothing but adapters, and this run has "
      f"also heads, or has trained more: {', '.join(others[:3])}"
    )
  said, tensors = exchange.write(trained)
  trained.check_written(ADAPTERS)
  said["non_linearity"] = attributes.their_value(
    ADAPTERS, attributes.ACTIVATIONS, said["non_linearity"]
  )
  written = {
    re.sub(
      r"\.(adapter_(up|down)\.)", rf".adapters.{_NAME}.\1", name
    ): Tensor.of(np.ascontiguousarray(array))
    for name, array in tensors.items()
  }
  folder.mkdir(parents=True)
  writing.write_json(
    folder / CONFIG,
    {
      "config": dict(sorted(said.items())),
      "hidden_size": trained.model.token_embedder.features,
      "model_class": config["architectures"][0],
      BASE: base_path,
      "model_type": config["model_type"],
      "name": _NAME,
      "version": "adapters.1.3.0",
    },
  )
  safetensors.write(folder / _SAFETENSORS, written)
  return list(written.values())
