"""Directories of sentence-transformers: what follows the encoder.

`modules.json` lists it: a pooling and, in some, a projection and a
normalization, which together are the head `embedding` of ours.
`sentence_bert_config.json` has the longest text, and
`config_sentence_transformers.json` the prompts that are put before texts.
"""

from collections.abc import Mapping
import json
import pathlib
from typing import Any

from flax import linen as nn

from transformer_zoo import schemas
from transformer_zoo.errors import UserError
from transformer_zoo.interop.huggingface.family import Architecture
from transformer_zoo.interop.huggingface.family import Reference
from transformer_zoo.schemas import Required
from transformer_zoo.tensors import links as links_lib
from transformer_zoo.tensors import safetensors
from transformer_zoo.tensors.lazy_tensors import Tensor
from transformer_zoo.tensors.links import Link

# The head of ours.
HEAD = "embedding"
MODULES = "modules.json"
_PROMPTS = "config_sentence_transformers.json"
_LENGTH = "sentence_bert_config.json"
# Those that are copied along with a checkpoint.
BESIDE = (_PROMPTS, _LENGTH)
_HAS_BIAS = "projection/Linear.use_bias"
_CONFIG, _TENSORS = "config.json", "model.safetensors"
_KINDS = (
  ["Transformer", "Pooling"],
  ["Transformer", "Pooling", "Normalize"],
  ["Transformer", "Pooling", "Dense"],
  ["Transformer", "Pooling", "Dense", "Normalize"],
)
_LIST = {
  "modules": Required([{"type": Required(str), "path": Required(str)}]),
}
_SIZE = range(1, schemas.LARGEST + 1)
_OF_LENGTH = {"max_seq_length": (_SIZE, None), "do_lower_case": (bool, None)}
_OF_PROMPTS = {
  "default_prompt_name": (str, None),
  "prompts": ({str: str}, None),
}
_OF_POOLING = {"include_prompt": (bool, None)}
_OF_DENSE = {
  "in_features": Required(_SIZE),
  "out_features": Required(_SIZE),
  "bias": (bool, None),
  "activation_function": (str, None),
}
# Our pooling, and the switch of theirs; others name a pooling by one word.
_SWITCHES = {"first": "cls_token", "mean": "mean_tokens", "last": "lasttoken"}
_POOLS = {"cls": "first", "mean": "mean"} | {
  theirs: ours for ours, theirs in _SWITCHES.items()
}
_OTHER_SWITCHES = ("max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens")
_SWITCH = "pooling_mode_"
# Our activation, and the class of theirs.
_ACTIVATIONS = {
  "tanh": "torch.nn.modules.activation.Tanh",
  "linear": "torch.nn.modules.linear.Identity",
  "relu": "torch.nn.modules.activation.ReLU",
  "gelu_exact": "torch.nn.modules.activation.GELU",
}


def is_directory(folder: pathlib.Path) -> bool:
  """Whether a folder lists what follows its encoder."""
  return (folder / MODULES).is_file()


def with_head(folder: pathlib.Path, encoder: Architecture) -> Architecture:
  """The architecture of a directory with the head of its vectors.

  Args:
    folder: A directory; without `modules.json` it has no such head, nor has a
      model with a decoder.
    encoder: The architecture of its model.

  Raises:
    UserError: A file is damaged, or describes vectors that are not made here.
  """
  is_encoder = any(k.startswith("EncoderOnly.") for k in encoder.bindings)
  if not is_encoder or not is_directory(folder):
    return encoder
  if encoder.bindings.get("Heads.parts") != {}:
    raise UserError(
      f"{str(folder)!r} has a {MODULES} and its {_CONFIG} is not of an encoder "
      "without heads, whose vectors are read; remove the one or the other"
    )
  paths = _modules(folder)
  bindings = {
    **encoder.bindings,
    "Heads.parts": {HEAD: Reference("@TextVectors()")},
    "EncoderOnly.pooler": None,
    "TextVectors.pool": _pool(folder / paths["Pooling"]),
    "TextVectors.normalize": "Normalize" in paths,
  }
  if "Dense" in paths:
    path = folder / paths["Dense"] / _CONFIG
    dense = schemas.read(path, _OF_DENSE)
    bindings |= {
      "TextVectors.projection": Reference("@projection/Pooler()"),
      "projection/Pooler.features": dense["out_features"],
      "projection/Pooler.activation": _activation(path, dense),
      "projection/Pooler.dense": Reference("@projection/Linear()"),
      _HAS_BIAS: dense.get("bias") is not False,
      "projection/Linear.kernel_axes": ("embed", None),
    }
  return Architecture(encoder.gin_files, bindings)


def links(architecture: Architecture) -> list[Link]:
  """The links of the tensors of a projection; none without one."""
  has_bias = architecture.bindings.get(_HAS_BIAS)
  return [] if has_bias is None else _links(has_bias)


def _links(has_bias: bool) -> list[Link]:
  ours = f"heads/{HEAD}/projection/dense"
  return [*links_lib.linear("linear", ours, bias=has_bias)]


def dense_folder(folder: pathlib.Path) -> pathlib.Path:
  """The folder of the tensors of a projection, if there is one."""
  return folder / _modules(folder)["Dense"]


def longest(folder: pathlib.Path) -> int | None:
  """The most tokens of a text that a directory names, or None.

  Raises:
    UserError: A file is damaged, or texts are to be written in lower case.
  """
  found = _read(folder / _LENGTH, _OF_LENGTH)
  if found.get("do_lower_case"):
    raise UserError(
      f"{_LENGTH} in {str(folder)!r} sets do_lower_case, which is not "
      "followed; write the texts in lower case and remove it"
    )
  return found.get("max_seq_length")


def prompts(folder: pathlib.Path) -> dict[str, Any]:
  """The fields of `Embedding` on prompts that a directory names.

  Raises:
    UserError: A file is damaged, or names a prompt that it has not.
  """
  path = folder / _PROMPTS
  found = _read(path, _OF_PROMPTS)
  texts = found.get("prompts") or {}
  name = found.get("default_prompt_name")
  if name is not None and name not in texts:
    raise UserError(
      f"{str(path)!r} has the default_prompt_name {name!r} and no such prompt; "
      "add it to `prompts`, or remove it"
    )
  fields = {"prompts": texts} if texts else {}
  return fields | ({} if name is None else {"prompt": name})


def write(
  folder: pathlib.Path,
  head: nn.Module,
  width: int,
  parameters: Mapping[str, Tensor],
) -> None:
  """Writes what follows the encoder of a Hugging Face directory.

  Args:
    folder: The directory, which may have files of `BESIDE`.
    head: The `TextVectors` of the model.
    width: The width of the encoder.
    parameters: The parameters of the model by our names; those of a projection
      are written.

  Raises:
    UserError: The activation of a projection has no class of theirs here.
  """
  kinds = ["Transformer", "Pooling"]
  projection = head.projection
  if head.projects_in_training_only:
    projection = None
  kinds += ["Dense"] if projection is not None else []
  kinds += ["Normalize"] if head.normalize else []
  modules = [
    {
      "idx": number,
      "name": str(number),
      "path": f"{number}_{kind}" if number else "",
      "type": f"sentence_transformers.models.{kind}",
    }
    for number, kind in enumerate(kinds)
  ]
  _write(folder / MODULES, modules)
  for module in modules[1:]:
    (folder / module["path"]).mkdir()
  switches = {_SWITCHES[head.pool]: True}
  names = (*_SWITCHES.values(), *_OTHER_SWITCHES)
  _write(
    folder / "1_Pooling" / _CONFIG,
    {"word_embedding_dimension": width}
    | {f"{_SWITCH}{name}": switches.get(name, False) for name in names}
    | {"include_prompt": True},
  )
  if projection is not None:
    _write_dense(folder / "2_Dense", projection, parameters)
  if not (folder / _PROMPTS).exists():
    _write(
      folder / _PROMPTS,
      {
        "prompts": {},
        "default_prompt_name": None,
        "similarity_fn_name": "cosine",
      },
    )


def _write_dense(folder, projection, parameters) -> None:
  activation = projection.activation
  if activation not in _ACTIVATIONS:
    raise UserError(
      f"a Dense of sentence-transformers is written with one of the "
      f"activations {', '.join(_ACTIVATIONS)}, and the projection has "
      f"{activation!r}"
    )
  has_bias = projection.dense.use_bias
  tensors = links_lib.to_theirs(_links(has_bias), parameters)
  out_features, in_features = tensors["linear.weight"].shape
  _write(
    folder / _CONFIG,
    {
      "in_features": in_features,
      "out_features": out_features,
      "bias": has_bias,
      "activation_function": _ACTIVATIONS[activation],
    },
  )
  safetensors.write(folder / _TENSORS, dict(sorted(tensors.items())))


def _modules(folder: pathlib.Path) -> dict[str, str]:
  """The path of each module by its kind."""
  path = folder / MODULES
  text = path.read_text(encoding="utf-8", errors="replace")
  # A schema is one of a table.
  listed = schemas.parsed(f'{{"modules": {text}}}', _LIST, repr(str(path)))
  modules = listed["modules"]
  kinds = [one["type"].rpartition(".")[2] for one in modules]
  if kinds not in _KINDS:
    raise UserError(
      f"{str(path)!r} lists the modules {', '.join(kinds)}; vectors are made "
      "here by a Transformer, a Pooling, and perhaps a Dense and a Normalize"
    )
  # A directory from elsewhere reads no file of this machine.
  for one in modules[1:]:
    if pathlib.PurePath(one["path"]).name != one["path"]:
      raise UserError(
        f"{str(path)!r} names {one['path']!r}; modules lie in folders of the "
        "directory itself: write the folder's name alone"
      )
  return dict(zip(kinds, (one["path"] for one in modules), strict=True))


def _pool(folder: pathlib.Path) -> str:
  path = folder / _CONFIG
  config = schemas.read(path, _OF_POOLING)
  chosen = [
    name.removeprefix(_SWITCH)
    for name, value in config.items()
    if name.startswith(_SWITCH) and value is True
  ]
  chosen += [config["pooling_mode"]] if "pooling_mode" in config else []
  if len(chosen) != 1 or chosen[0] not in _POOLS:
    raise UserError(
      f"{str(path)!r} has the poolings "
      f"{', '.join(map(str, chosen)) or 'none'}; vectors are made here by one "
      f"of {', '.join(_POOLS)}"
    )
  if config.get("include_prompt") is False:
    raise UserError(
      f"{str(path)!r} has include_prompt=false, which is not followed: the "
      "tokens of a prompt are pooled with those of the text"
    )
  return _POOLS[chosen[0]]


def _activation(path: pathlib.Path, dense: Mapping[str, Any]) -> str:
  theirs = dense.get("activation_function", _ACTIVATIONS["tanh"])
  for ours, name in _ACTIVATIONS.items():
    if theirs == name:
      return ours
  raise UserError(
    f"{str(path)!r} has the activation_function {theirs!r}; a projection has "
    f"one of {', '.join(_ACTIVATIONS.values())}"
  )


def _read(path: pathlib.Path, schema: schemas.Schema) -> dict[str, Any]:
  return schemas.read(path, schema) if path.is_file() else {}


def _write(path: pathlib.Path, content: Any) -> None:
  path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
