"""Hugging Face directories that are read: configuration and tensors."""

from collections.abc import Mapping, Sequence
import dataclasses
import os
import pathlib
import re
from typing import Any

from transformer_zoo import schemas
from transformer_zoo.errors import UserError
from transformer_zoo.interop.huggingface import family_of
from transformer_zoo.interop.huggingface import flax_files
from transformer_zoo.interop.huggingface import pytorch_files
from transformer_zoo.interop.huggingface import sentence_transformers
from transformer_zoo.interop.huggingface.family import Architecture
from transformer_zoo.interop.huggingface.family import Family
from transformer_zoo.interop.huggingface.family import HEAD
from transformer_zoo.tensors import links as links_lib
from transformer_zoo.tensors import safetensors
from transformer_zoo.tensors.lazy_tensors import are_equal
from transformer_zoo.tensors.lazy_tensors import Tensor

CONFIG = "config.json"
SAFETENSORS = "model.safetensors"
PYTORCH = "pytorch_model.bin"
FLAX = "flax_model.msgpack"
INDEX = ".index.json"
# Names in the files of 2018 and 2019 -> today's.
_OLD_NAMES = {
  "LayerNorm.gamma": "LayerNorm.weight",
  "LayerNorm.beta": "LayerNorm.bias",
}
_READERS = {
  SAFETENSORS: safetensors.read,
  PYTORCH: pytorch_files.read,
  FLAX: flax_files.read,
}
# What Git leaves in the place of a large file that was not fetched.
_POINTER = b"version https://git-lfs"
_SHOWN = 4
# Widths of positions that are computed when a model is built.
_WIDTHS = {"EMBED_DIM": "numbers of a token", "HEAD_DIM": "numbers of a head"}


@dataclasses.dataclass(frozen=True)
class Directory:
  """A model in a directory of `transformers`.

  Attributes:
    path: The path of the directory.
    config: The contents of config.json, completed by the files
      (`Family.completed`).
    tensors: The tensors of the files by their names, without those that carry
      no parameters and those that are another one under a second name.
    family: The family of the model.
    notes: What of the files is not read, a sentence each.
  """

  path: pathlib.Path
  config: Mapping[str, Any]
  tensors: Mapping[str, Tensor]
  family: Family
  notes: Sequence[str] = ()

  @property
  def architecture(self) -> Architecture:
    """Our model of the directory.

    Raises:
      UserError: See `Family.architecture` and `sentence_transformers`.
    """
    found = self.family.architecture(self.config)
    return sentence_transformers.with_head(self.path, found)

  def parameters(
    self, shapes: Mapping[str, tuple[int, ...]] | None = None
  ) -> dict[str, Tensor]:
    """Returns the parameters under our names.

    There may be a pooler that nothing in the model of `config` reads.

    Args:
      shapes: The shapes of our parameters in the model of `config`; None if
        they need not be compared.

    Raises:
      UserError: Tensors are missing, left over, or have other shapes.
    """
    links = self.family.links(self.config)
    links += sentence_transformers.links(self.architecture)
    passed_over = {link.theirs for link in links if link.only_written}
    links = [link for link in links if not link.only_written]
    wanted = {link.theirs for link in links}
    complaints = _named("missing", wanted - self.tensors.keys())
    complaints += _named(
      "left over", self.tensors.keys() - wanted - passed_over
    )
    there = [link for link in links if link.theirs in self.tensors]
    found, misshaped = {}, []
    for link in there:
      try:
        ours = links_lib.to_ours([link], self.tensors)
      except ValueError:  # It does not even split.
        ours = {}
      changed = [
        n
        for n, t in ours.items()
        if shapes and t.shape != shapes.get(n, t.shape)
      ]
      if changed or not ours:
        misshaped.append(f"{link.theirs} {self.tensors[link.theirs].shape}")
      found.update(ours)
    complaints += _named("of another shape than config.json says", misshaped)
    complaints += _named(
      "not of floating-point numbers",
      [
        f"{link.theirs} {self.tensors[link.theirs].dtype}"
        for link in there
        if not self.tensors[link.theirs].is_floating
      ],
    )
    if complaints:
      raise UserError(
        f"the tensors in {str(self.path)!r} do not fit its config.json: "
        + "; ".join(complaints)
      )
    return links_lib.joined(found)


def is_directory(path: str | os.PathLike[str]) -> bool:
  """Whether a folder is a Hugging Face directory."""
  folder = pathlib.Path(path)
  return (folder / CONFIG).is_file()


def open_directory(path: str | os.PathLike[str]) -> Directory:
  """Opens a directory; tensors are read only to compare tied ones.

  Raises:
    UserError: There is none, its model is not known here, a file is damaged, or
      the files are not of the model.
  """
  folder = pathlib.Path(path)
  config = schemas.read(folder / CONFIG, schema={})
  family = family_of(config)  # Which checks the rest.
  num_layers = family.num_layers(config)
  promised = _with_prefix(_files(folder), family)
  # Before anything is built that is as long as the model is deep or wide.
  _check_size(folder, "layers", num_layers, len(promised), "tensors")
  bindings = family.architecture(config).bindings
  longest = max((n for t in promised.values() if t for n in t.shape), default=0)
  for macro, what in _WIDTHS.items():
    _check_size(folder, what, bindings.get(macro, 0), longest, "rows at most")
  aliases = family.aliases(config)
  tensors = {n: tensor for n, tensor in promised.items() if tensor is not None}
  _check_absent(folder, promised.keys() - tensors.keys(), aliases, config)
  tensors = _without_aliases(tensors, aliases)
  named = config.get("architectures")
  config = family.completed(config, tensors.keys())
  spare = family.left_out(config, tensors.keys())
  tensors = {n: tensor for n, tensor in tensors.items() if n not in spare}
  notes = []
  if spare:
    notes.append(f"left out: {', '.join(sorted(spare))}")
  if named and (found := config.get("architectures")) != named:
    notes.append(
      f"config.json names {_listed(named)}; the files are of {_listed(found)}"
    )
  found = Directory(folder, config, tensors, family, notes)
  if sentence_transformers.links(found.architecture):
    tensors |= _files(sentence_transformers.dense_folder(folder))
  return found


def _files(folder: pathlib.Path) -> dict[str, Tensor | None]:
  """The tensors of all files; safetensors go before PyTorch's and Flax's.

  None is one that an index names and no shard has.
  """
  for name, read in _READERS.items():
    if (folder / name).is_file():
      return _read(folder / name, read)
    if (folder / f"{name}{INDEX}").is_file():
      index = schemas.read(folder / f"{name}{INDEX}", schemas.SHARDS_INDEX)
      name_of = flax_files.name_of if name == FLAX else str
      return _shards(folder, index, read, name_of)
  raise UserError(
    f"{str(folder)!r} has a {CONFIG} and no weights: there is none of "
    f"{', '.join(_READERS)}, nor an {INDEX} of one of them"
  )


def _shards(folder, index, read, name_of) -> dict[str, Tensor | None]:
  places = index["weight_map"]
  shards = sorted(set(places.values()))
  # A directory from elsewhere reads no file of this machine.
  if elsewhere := [s for s in shards if pathlib.PurePath(s).name != s]:
    raise UserError(
      f"the index of shards in {str(folder)!r} names {elsewhere[0]!r}; shards "
      "lie in the folder itself: write the file's name alone"
    )
  if missing := [shard for shard in shards if not (folder / shard).is_file()]:
    raise UserError(
      f"{str(folder)!r} lacks shards of its index: {', '.join(missing)}"
    )
  tensors = dict.fromkeys(map(name_of, places))
  for shard in shards:
    tensors.update(_read(folder / shard, read))
  return tensors


def _read(path, read) -> dict[str, Tensor]:
  with open(path, "rb") as file:
    is_pointer = file.read(len(_POINTER)) == _POINTER
  if is_pointer:
    raise UserError(
      f"{str(path)!r} is a pointer of Git LFS and not the file; fetch that "
      "with `git lfs pull`"
    )
  return read(path)


def _check_size(folder, what, asked_for, largest, of_what) -> None:
  if asked_for > largest:
    raise UserError(
      f"{str(folder / CONFIG)!r} asks for {asked_for} {what}, and the files "
      f"beside it hold {largest} {of_what}; they are not of one model"
    )


def _check_absent(folder, absent, aliases, config) -> None:
  """Refuses an index that promises what no shard has, but for tied weights.

  Published directories (flan-t5-xl) were written from others with an index
  that still names all places of one table. A softmax that is said not to be
  tied is no such place: without its matrix it would be read as tied.
  """
  if config.get("tie_word_embeddings") is False:
    aliases = aliases.keys() - {HEAD}
  if complaint := _named("not in its shards", set(absent).difference(aliases)):
    raise UserError(
      f"the index in {str(folder)!r} names tensors that are {complaint[0]}"
    )


def _with_prefix(tensors, family) -> dict[str, Tensor | None]:
  """Names as the class with a head has them, without what is ignored."""
  kept = {
    _today(name): tensor
    for name, tensor in tensors.items()
    if not any(re.fullmatch(pattern, name) for pattern in family.ignored)
  }
  prefix, heads = family.prefix, tuple(family.head_names)
  if not prefix or any(name.startswith(prefix) for name in kept):
    return kept
  return {
    name if name.startswith(heads) else prefix + name: tensor
    for name, tensor in kept.items()
  }


def _today(name: str) -> str:
  for old, new in _OLD_NAMES.items():
    if name.endswith(old):
      return name.removesuffix(old) + new
  return name


def _without_aliases(tensors, aliases) -> dict[str, Tensor]:
  kept = dict(tensors)
  for alias, name in aliases.items():
    if alias not in kept:
      continue
    if name is None:
      if not kept[alias].read().any():
        del kept[alias]
    elif name not in kept:
      kept[name] = kept.pop(alias)
    elif are_equal(kept[alias], kept[name]):
      del kept[alias]
  return kept


def _listed(names: Any) -> str:
  return ", ".join(map(str, names)) if isinstance(names, list) else str(names)


def _named(what: str, names) -> list[str]:
  """Returns one complaint, or none where there are no names."""
  names = sorted(names)
  more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
  return [f"{what}: {', '.join(names[:_SHOWN])}{more}"] if names else []
