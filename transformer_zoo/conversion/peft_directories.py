"""Directories of the `peft` library: the files, the settings, and the heads.

A directory has `adapter_config.json` and `adapter_model.safetensors`, whose
tensors are named after the modules of a class of `transformers`. The file of
each method reads and writes its tensors (`peft/exchange.py`). Source:
huggingface/peft 0.21.2, `utils/save_and_load.py` and
`tuners/{lora,ia3,prompt_tuning,prefix_tuning}`.
"""

from collections.abc import Mapping, Sequence
import pathlib
import re
from typing import Any

from flax import linen as nn
import numpy as np

from transformer_zoo.errors import UserError
from transformer_zoo.interop.huggingface import pytorch_files
from transformer_zoo.interop.huggingface import writing
from transformer_zoo.interop.huggingface.family import Family
from transformer_zoo.peft import method as method_lib
from transformer_zoo.peft.exchange import CONFIG
from transformer_zoo.peft.exchange import Directory
from transformer_zoo.peft.exchange import Exchange
from transformer_zoo.peft.exchange import Imported
from transformer_zoo.peft.exchange import Module
from transformer_zoo.peft.exchange import PEFT
from transformer_zoo.peft.exchange import Trained
from transformer_zoo.tensors import safetensors
from transformer_zoo.tensors.lazy_tensors import Tensor

BASE = "base_model_name_or_path"
_WEIGHTS = "adapter_model.safetensors"
# The second is of older `peft`.
_READERS = {_WEIGHTS: safetensors.read, "adapter_model.bin": pytorch_files.read}
_PREFIX = "base_model.model."
# That of heads beside a prompt or prefixes, which wrap no module.
_PREFIX_OF_HEADS = "base_model."
# Settings of every method that change nothing, or that tensors' names say.
_OF_ALL = (
  f"task_type|peft_type|peft_version|auto_mapping|{BASE}|revision"
  "|inference_mode|target_modules|exclude_modules|modules_to_save"
  "|layers_to_transform|layers_pattern|fan_in_fan_out|init_weights"
  "|runtime_config"
)
_HEADS = re.compile(method_lib.TASK_HEADS)


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

  Returns:
    The method, and heads beside it.

  Raises:
    UserError: The method is unknown here, or of another base.
  """
  kind, known = said.get("peft_type"), method_lib.exchanges(PEFT)
  if kind not in known:
    raise UserError(
      f"{str(folder)!r} has the peft_type {kind!r}, which is not read here; "
      f"known: {', '.join(known)}"
    )
  exchange = known[kind]
  _check(folder, said, exchange)
  directory = Directory(
    name=repr(str(folder)),
    settings=said,
    sizes=exchange.sizes,
    base_name=said.get(BASE),
    tensors={
      name.removeprefix(_PREFIX).removeprefix(_PREFIX_OF_HEADS): tensor
      for name, tensor in _tensors(folder).items()
    },
    modules=modules,
    prefix=family.prefix,
    base=base,
  )
  heads = {}
  for link in _links_of_heads(family, config):
    theirs = directory.take(link.theirs, None)
    if theirs is not None:
      heads |= zip(link.ours, link.layout.split(theirs), strict=True)
  found = exchange.read(directory)
  if not found.parameters:
    raise UserError(f"{str(folder)!r} has no tensor of the method {kind}")
  if directory.tensors:
    left = ", ".join(sorted(directory.tensors)[:3])
    raise UserError(
      f"{str(folder)!r} is of another base, or of modules that no method is "
      f"read for here (embeddings, lm_head, norms): {left} belong to no "
      f"projection of {config.get('model_type')} with these layers; in the "
      "second case merge it in `peft` (`merge_and_unload`, then "
      "`save_pretrained`) and convert that directory"
    )
  return found._replace(parameters={**found.parameters, **heads})


def _tensors(folder: pathlib.Path) -> dict[str, Tensor]:
  for name, read_file in _READERS.items():
    if (folder / name).is_file():
      return read_file(folder / name)
  raise UserError(f"{str(folder)!r} has neither {' nor '.join(_READERS)}")


def _links_of_heads(family: Family, config: Mapping[str, Any]) -> list[Any]:
  """The links of the parameters of heads, which theirs has beside a method."""
  return [
    link
    for link in family.links(config)
    if link.ours and all(map(_HEADS.fullmatch, link.ours))
  ]


def _check(
  folder: pathlib.Path, said: Mapping[str, Any], exchange: Exchange
) -> None:
  """Refuses settings that ask for what is not built here, or lack a number."""
  understood = "|".join([_OF_ALL, exchange.others, *exchange.sizes])
  for name, value in said.items():
    known = exchange.values.get(name)
    if known is not None and value not in known:
      raise UserError(
        f"{str(folder)!r} has {name} = {value!r}, which is not read here; "
        f"known: {' or '.join(map(repr, known))}"
      )
    if known is None and value and not re.fullmatch(understood, name):
      raise UserError(
        f"{str(folder)!r} has the setting {name!r} ({value!r}), which is not "
        "understood here; remove it if no output depends on it"
      )
  for name in exchange.sizes:
    value = said.get(name)
    if value is None or not value > 0:
      raise UserError(
        f"{str(folder)!r} has {name} = {value!r} in {CONFIG}, where a number "
        "above 0 belongs"
      )


def write(
  folder: pathlib.Path,
  exchange: Exchange,
  trained: Trained,
  family: Family,
  config: Mapping[str, Any],
  base_path: str,
) -> Sequence[Tensor]:
  """Writes a directory of the method in a model.

  Args:
    folder: The folder, which is made.
    exchange: The exchange of the method.
    trained: The model with its parameters.
    family: The family of the base.
    config: The config.json of the base, with the heads of the model.
    base_path: The name that a reader loads the base by.

  Returns:
    The tensors of the directory.

  Raises:
    UserError: The model has the method in a form that `peft` has not, or more
      was trained than it can save beside the method.
  """
  said, tensors = exchange.write(trained)
  trained.check_written(PEFT)
  saved = _saved_modules(trained, family, config, said.get("target_modules"))
  heads = {
    link.theirs: link.layout.join([trained[name] for name in link.ours])
    for link in family.links(config)
    if _module_of(family, link.theirs) in saved
  }
  if saved:
    said["modules_to_save"] = sorted(saved)
  said |= {
    BASE: base_path,
    "inference_mode": True,
    "task_type": _task_type(trained.model),
  }
  prefix, of_heads = _PREFIX, _PREFIX
  if not exchange.wraps_modules:
    prefix, of_heads = "", _PREFIX_OF_HEADS
  named = {f"{prefix}{name}": array for name, array in tensors.items()} | {
    f"{of_heads}{name}": array for name, array in heads.items()
  }
  written = {
    name: Tensor.of(np.ascontiguousarray(array, np.float32))
    for name, array in named.items()
  }
  folder.mkdir(parents=True)
  writing.write_json(folder / CONFIG, {"peft_type": exchange.kind, **said})
  safetensors.write(folder / _WEIGHTS, written)
  return list(written.values())


def _saved_modules(
  trained: Trained,
  family: Family,
  config: Mapping[str, Any],
  targets: Sequence[str] | None,
) -> set[str]:
  """The modules of theirs that are saved whole, beside the method's.

  Raises:
    UserError: One of them is changed by the method, or has no name of theirs.
  """
  heads = _links_of_heads(family, config)
  links = [
    link
    for link in family.links(config)
    if link in heads or not trained.own.isdisjoint(link.ours)
  ]
  found = {_module_of(family, link.theirs) for link in links}
  named = {name for link in links for name in link.ours}
  if left := sorted(found & {*(targets or ())}) or sorted(trained.own - named):
    raise UserError(
      f"{trained.name} has trained {', '.join(left[:3])} beside its method, "
      "which a directory of `peft` cannot hold; train the method and heads "
      "alone to exchange it"
    )
  return found


def _module_of(family: Family, name: str) -> str:
  """The module of a tensor that `peft` saves whole; a head is one."""
  if name.startswith(tuple(family.head_names)):
    return name.partition(".")[0]
  return name.rpartition(".")[0]


def _task_type(model: nn.Module) -> str:
  """The kind of class that `peft` wraps."""
  if model.offers.has_decoder:
    return "CAUSAL_LM" if model.offers.continues else "SEQ_2_SEQ_LM"
  kinds = {"classes": "SEQ_CLS", "tags": "TOKEN_CLS", "spans": "QUESTION_ANS"}
  found = (kinds[name] for name in model.offers.heads if name in kinds)
  return next(found, "FEATURE_EXTRACTION")
