"""Hugging Face directories that are written, one tensor after another."""

from collections.abc import Iterator, Mapping
import dataclasses
import json
import os
import pathlib
import types
from typing import Any

import ml_dtypes
import numpy as np

from transformer_zoo.errors import UserError
from transformer_zoo.interop.huggingface import directory
from transformer_zoo.interop.huggingface.family import Family
from transformer_zoo.tensors import safetensors
from transformer_zoo.tensors.lazy_tensors import Tensor
from transformer_zoo.tensors.links import parameters_of
from transformer_zoo.tensors.links import to_theirs

DTYPES = {
  "float32": np.dtype(np.float32),
  "bfloat16": np.dtype(ml_dtypes.bfloat16),
  "float16": np.dtype(np.float16),
}
# The value of `transformers`.
MAX_SHARD_BYTES = 5_000_000_000
GENERATION_CONFIG = "generation_config.json"
_IN_GENERATION_CONFIG = (
  "bad_words_ids",
  "bos_token_id",
  "decoder_start_token_id",
  "eos_token_id",
  "pad_token_id",
)


def write_directory(
  path: str | os.PathLike[str],
  family: Family,
  config: Mapping[str, Any],
  parameters: Mapping[str, Tensor],
  *,
  dtype: str = "float32",
  max_shard_bytes: int = MAX_SHARD_BYTES,
  generation: Mapping[str, Any] | None = types.MappingProxyType({}),
) -> None:
  """Writes weights, and missing configurations, into a folder.

  Args:
    path: The folder, which exists.
    family: The family of the model.
    config: The config.json as `Family.completed` completes it.
    parameters: All parameters of the model by our names.
    dtype: The type of the numbers in the files, a key of `DTYPES`.
    max_shard_bytes: The largest size of a file, unless one tensor is larger.
    generation: The attributes of a generation_config.json beside the special
      ids, or None for no such file; beside one, `transformers` reads no
      decoding options in config.json.

  Raises:
    UserError: A parameter of the configured model is missing or left over, or
      `dtype` cannot hold its numbers.
  """
  folder = pathlib.Path(path)
  links = family.links(config)
  wanted = parameters_of(links)
  if wanted != parameters.keys():
    raise UserError(
      f"a {config['model_type']} model has other parameters: without "
      f"{sorted(parameters.keys() - wanted)[:3]}, with "
      f"{sorted(wanted - parameters.keys())[:3]}"
    )
  # In the order of the safetensors library, so that files come out equal.
  tensors = {
    name: _converted(name, tensor, DTYPES[dtype])
    for name, tensor in sorted(to_theirs(links, parameters).items())
  }
  _write_shards(folder, tensors, max_shard_bytes)
  if not (folder / directory.CONFIG).exists():
    write_json(
      folder / directory.CONFIG, {**family.as_written(config), "dtype": dtype}
    )
  if generation is not None and not (folder / GENERATION_CONFIG).exists():
    said = {key: config.get(key) for key in _IN_GENERATION_CONFIG}
    said |= generation
    write_json(
      folder / GENERATION_CONFIG,
      {key: value for key, value in said.items() if value is not None},
    )


@dataclasses.dataclass(frozen=True)
class _InRange(Tensor):
  """A tensor that refuses to become float16 if it has larger numbers."""

  name: str = ""

  def pieces(self) -> Iterator[np.ndarray]:
    """See `Tensor`."""
    with np.errstate(over="ignore"):
      for piece in super().pieces():
        if np.isinf(piece.view(self.dtype)).any():
          raise UserError(
            f"{self.name} has numbers that float16 cannot hold; choose "
            "bfloat16 or float32"
          )
        yield piece


def _converted(name: str, tensor: Tensor, dtype: np.dtype) -> Tensor:
  if dtype != np.float16 or tensor.dtype == dtype:
    return tensor.astype(dtype)
  return _InRange(tensor.shape, dtype, tensor.load, name=name)


def write_json(path: pathlib.Path, content: Mapping[str, Any]) -> None:
  """Writes a table as `transformers` does, its keys in order."""
  text = json.dumps(content, indent=2, sort_keys=True) + "\n"
  path.write_text(text, encoding="utf-8")


def _write_shards(folder, tensors, max_bytes):
  shards = list(_shards(tensors, max_bytes))
  if len(shards) == 1:
    safetensors.write(folder / directory.SAFETENSORS, tensors)
    return
  stem, suffix = directory.SAFETENSORS.split(".")
  places = {}
  for number, names in enumerate(shards, 1):
    file = f"{stem}-{number:05}-of-{len(shards):05}.{suffix}"
    safetensors.write(folder / file, {name: tensors[name] for name in names})
    places |= dict.fromkeys(names, file)
  total = sum(tensor.num_bytes for tensor in tensors.values())
  write_json(
    folder / f"{directory.SAFETENSORS}{directory.INDEX}",
    {"metadata": {"total_size": total}, "weight_map": places},
  )


def _shards(
  tensors: Mapping[str, Tensor], max_bytes: int
) -> Iterator[list[str]]:
  names, size = [], 0
  for name, tensor in tensors.items():
    if names and size + tensor.num_bytes > max_bytes:
      yield names
      names, size = [], 0
    names.append(name)
    size += tensor.num_bytes
  yield names
