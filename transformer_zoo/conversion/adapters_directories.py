"""Directories of the `adapters` library: those of Houlsby and of Pfeiffer.

A directory has `adapter_config.json` and `adapter.safetensors` or
`pytorch_adapter.bin`, whose tensors are named after the modules of a class of
`transformers` that end with a sublayer's last matrix. Source: adapter-hub/
adapters 1.3.0, `loading.py`, `methods/{modeling,bottleneck}.py` and
`configuration/adapter_config.py`.
"""

from collections.abc import Iterator, Mapping, Sequence
import pathlib
import re
from typing import Any

from flax import linen as nn
import numpy as np

from transformer_zoo.conversion.peft_directories import CONFIG
from transformer_zoo.conversion.peft_directories import Method
from transformer_zoo.errors import UserError
from transformer_zoo.interop.huggingface import attributes
from transformer_zoo.interop.huggingface import pytorch_files
from transformer_zoo.interop.huggingface import writing
from transformer_zoo.interop.huggingface.family import Family
from transformer_zoo.peft import adapters
from transformer_zoo.peft import substitution
from transformer_zoo.peft.method import TASK_HEADS
from transformer_zoo.tensors import safetensors
from transformer_zoo.tensors.lazy_tensors import Tensor

BASE = "model_name"
_SAFETENSORS, _PYTORCH = "adapter.safetensors", "pytorch_adapter.bin"
_NAME = "adapter"
# Settings of theirs that change what is computed, and the values that are read.
_READ = {
  "adapter_residual_before_ln": (False,),
  "dropout": (0.0,),
  "inv_adapter": (None,),
  "is_parallel": (False,),
  "leave_out": ([],),
  "ln_after": (False,),
  "ln_before": (False,),
  "original_ln_after": (True,),
  "output_adapter": (True,),
  "phm_layer": (False,),
  "residual_before_ln": (True,),
  "scaling": (1.0,),
  "stochastic_depth": (0.0,),
  "use_gating": (False,),
}
_UNDERSTOOD = {
  *("cross_adapter", "mh_adapter", "original_ln_before"),
  *("non_linearity", "reduction_factor"),
}
# How adapters begin, and of parametrized matrices.
_WITHOUT_EFFECT = re.compile(
  r"init_weights(_seed)?|inv_adapter_reduction_factor|.*phm.*|hypercomplex_.*"
)
# The end of the name of a sublayer's last matrix -> the setting that adds an
# adapter there.
_PLACES = {
  "SelfAttention.o": "mh_adapter",
  "attention.output.dense": "mh_adapter",
  "EncDecAttention.o": "cross_adapter",
  "DenseReluDense.wo": "output_adapter",
  "output.dense": "output_adapter",
}
_LEAVES = {
  "adapter_down.0.weight": "wi/kernel",
  "adapter_down.0.bias": "wi/bias",
  "adapter_up.weight": "wo/kernel",
  "adapter_up.bias": "wo/bias",
}
# Sublayers of ours by the setting.
_SUBLAYERS = {
  "mh_adapter": "(self_)?attention",
  "cross_adapter": "encoder_decoder_attention",
  "output_adapter": "mlp",
}


def describes(said: Mapping[str, Any]) -> bool:
  """Whether an adapter_config.json is one of this library."""
  return "peft_type" not in said and said.get("config") is not None


def read(
  folder: pathlib.Path,
  said: Mapping[str, Any],
  family: Family,
  config: Mapping[str, Any],
  base: Mapping[str, Tensor],
) -> Method:
  """Reads a directory.

  Args:
    folder: The directory.
    said: The contents of its adapter_config.json.
    family: The family of the base.
    config: The config.json of the base, settled.
    base: The parameters of the base by our names.

  Raises:
    UserError: The method is unknown here, or of another base.
  """
  where = repr(str(folder))
  settings = said["config"]
  if kind := settings.get("architecture"):
    raise UserError(
      f"{where} has the architecture {kind!r} of `adapters`, which is not read "
      "here; known: adapters of Houlsby (double_seq_bn) and Pfeiffer (seq_bn)"
    )
  _check(where, settings)
  at_end = settings["original_ln_before"]
  placed = [name for name in _SUBLAYERS if settings.get(name)]
  if at_end and placed != ["output_adapter"]:
    raise UserError(
      f"{where} has original_ln_before = True and adapters behind attention, "
      "which are not read here; known: adapters behind feed-forward networks "
      "alone with it (seq_bn), or behind both without it (double_seq_bn)"
    )
  tensors = _tensors(folder)
  found, width = {}, None
  for module, setting, sublayer in _modules(family.links(config)):
    if setting not in placed:
      continue
    place = sublayer.rpartition("/")[0] if at_end else sublayer
    for theirs, ours in _LEAVES.items():
      array = _take(tensors, module, theirs, family.prefix)
      if array is None:
        raise UserError(
          f"{where} is of another base: it lacks {theirs} of {module}"
        )
      found[f"{place}/adapter/{ours}"] = array.T
    width = len(found[f"{place}/adapter/wi/bias"])
    model_width = base["token_embedder/embedding"].shape[1]
    if found[f"{place}/adapter/wi/kernel"].shape != (model_width, width):
      raise UserError(
        f"{where} is of another base: its adapters read "
        f"{len(found[f'{place}/adapter/wi/kernel'])} numbers, and the base's "
        f"layers have {model_width}"
      )
  if tensors:
    raise UserError(
      f"{where} is of another base: {', '.join(sorted(tensors)[:3])} belong to "
      f"no module of {config.get('model_type')} with these layers"
    )
  bindings = {
    "ADAPTER_DIM": width,
    "adapter/Mlp.activation": attributes.ACTIVATIONS[
      settings["non_linearity"].lower()
    ],
  }
  if not at_end:
    expression = "|".join(_SUBLAYERS[name] for name in placed)
    bindings["sequential_adapters.sublayers"] = f".*layers/({expression})"
  return Method(
    f"peft/{'pfeiffer' if at_end else 'houlsby'}.gin", bindings, found
  )


def _check(where: str, settings: Mapping[str, Any]) -> None:
  """Refuses settings that ask for what is not built here."""
  for name, value in settings.items():
    known = _READ.get(name, (value,))
    if value not in known or isinstance(value, bool) != isinstance(
      known[0], bool
    ):
      raise UserError(
        f"{where} has {name} = {value!r}, which is not read here; known: "
        f"{' or '.join(map(repr, known))}"
      )
    if (
      name not in _READ
      and name not in _UNDERSTOOD
      and not _WITHOUT_EFFECT.fullmatch(name)
    ):
      raise UserError(
        f"{where} has the setting {name!r} ({value!r}), which is not "
        "understood here; remove it if no output depends on it"
      )
  if lacking := [n for n in _UNDERSTOOD - {"cross_adapter"} if
                 n not in settings]:  # fmt: skip
    raise UserError(f"{where} does not say {', '.join(sorted(lacking))}")
  name = settings["non_linearity"]
  if name is None or name.lower() not in attributes.ACTIVATIONS:
    raise UserError(
      f"{where} has non_linearity = {name!r}, which is not built here; known: "
      f"{', '.join(attributes.ACTIVATIONS)}"
    )


def _tensors(folder: pathlib.Path) -> dict[str, np.ndarray]:
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
    re.sub(r"\.adapters\.[^.]+\.", ".", name): tensor.read().astype(np.float32)
    for name, tensor in found.items()
  }


def _take(tensors, module: str, leaf: str, prefix: str) -> np.ndarray | None:
  """A tensor of a module, with or without the prefix of the family."""
  for known in (module, module.removeprefix(prefix)):
    if f"{known}.{leaf}" in tensors:
      return tensors.pop(f"{known}.{leaf}")
  return None


def _modules(links) -> Iterator[tuple[str, str, str]]:
  """Yields modules of theirs, their setting, and our sublayers."""
  for link in links:
    matrix = link.theirs.removesuffix(".weight")
    if matrix == link.theirs or not link.ours:
      continue
    for end, setting in _PLACES.items():
      if matrix.endswith(f".{end}"):
        module = re.sub(r"\.(dense|\w+\.w?o)$", "", matrix)
        yield module, setting, link.ours[0].rsplit("/", 2)[0]
        break


def write(
  folder: pathlib.Path,
  model: nn.Module,
  parameters: Mapping[str, Tensor],
  family: Family,
  config: Mapping[str, Any],
  base_path: str,
) -> Sequence[Tensor]:
  """Writes a directory of the adapters in a model.

  Args:
    folder: The folder, which exists.
    model: A model with adapters.
    parameters: Its parameters, layers unstacked.
    family: The family of the base.
    config: The config.json of the base.
    base_path: The name that a reader loads the base by.

  Returns:
    The tensors of the directory.

  Raises:
    UserError: The library has no such adapters.
  """
  parts = [
    part
    for _, part in substitution.named_parts(model)
    if isinstance(part, substitution.Substitute)
  ]
  kinds = {
    kind
    for part in parts
    for kind in (adapters.SequentiallyAdapted, adapters.EndAdapted)
    if isinstance(part, kind)
  }
  if len(kinds) != 1 or not all(isinstance(p, tuple(kinds)) for p in parts):
    listed = ", ".join(substitution.substitutes(model)) or "nothing"
    raise UserError(
      "a directory of `adapters` has those of Houlsby or of Pfeiffer, and this "
      f"model has {listed}"
    )
  if heads := sorted(
    {
      name.split("/")[1]
      for name in parameters
      if re.fullmatch(TASK_HEADS, name)
    }
  ):
    raise UserError(
      "a directory of `adapters` is written without heads, and this model has "
      f"heads/{', heads/'.join(heads)}"
    )
  at_end = kinds == {adapters.EndAdapted}
  tensors, placed = {}, {name: set() for name in _SUBLAYERS}
  for module, setting, sublayer in _modules(family.links(config)):
    place = sublayer.rpartition("/")[0] if at_end else sublayer
    has = f"{place}/adapter/wi/kernel" in parameters
    has &= setting == "output_adapter" or not at_end
    placed[setting].add(has)
    for theirs, ours in _LEAVES.items() if has else ():
      name = f"{place}/adapter/{ours}"
      if name not in parameters:
        raise UserError(
          f"adapters of `adapters` have biases, and this model lacks {name}"
        )
      tensors[f"{module}.adapters.{_NAME}.{theirs}"] = (
        parameters[name].read().astype(np.float32).T
      )
  if any(len(some) > 1 for some in placed.values()) or placed[
    "output_adapter"
  ] != {True}:
    raise UserError(
      "adapters of `adapters` lie behind the feed-forward networks of all "
      "layers, and behind the attention of all or none; bind "
      "sequential_adapters.sublayers to it"
    )
  width = model.token_embedder.features
  hidden = parts[0].adapter.d_ff
  said = {name: known[0] for name, known in _READ.items()} | {
    "mh_adapter": placed["mh_adapter"] == {True},
    "cross_adapter": placed["cross_adapter"] == {True},
    "original_ln_before": at_end,
    "non_linearity": attributes.their_value(
      "adapters", attributes.ACTIVATIONS, parts[0].adapter.activation
    ),
    # Theirs is the width over it, rounded down.
    "reduction_factor": width / (hidden + 0.5 * (width % hidden > 0)),
  }
  writing.write_json(
    folder / CONFIG,
    {
      "config": dict(sorted(said.items())),
      "hidden_size": width,
      "model_class": config["architectures"][0],
      BASE: base_path,
      "model_type": config["model_type"],
      "name": _NAME,
      "version": "adapters.1.3.0",
    },
  )
  written = {n: Tensor.of(np.ascontiguousarray(a)) for n, a in tensors.items()}
  safetensors.write(folder / _SAFETENSORS, written)
  return list(written.values())
