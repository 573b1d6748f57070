"""Directories of the `peft` library: LoRA, DoRA, IA3, prompts and prefixes.

A directory has `adapter_config.json` and `adapter_model.safetensors`, whose
tensors are named after the modules of a class of `transformers`. The links of
the family (interop/huggingface) say which of our projections those are; where
several of ours are one of theirs (GPT-2's c_attn), an update of theirs is cut
into ours, which have its A in common, and ours are put together into one of the
ranks' sum. Source: huggingface/peft 0.21.2, `utils/save_and_load.py` and
`tuners/{lora,ia3,prompt_tuning,prefix_tuning}`.
"""

from collections.abc import Iterable, Mapping, Sequence
import dataclasses
import pathlib
import re
from typing import Any

from flax import linen as nn
import numpy as np

from transformer_zoo.errors import UserError
from transformer_zoo.interop.huggingface import pytorch_files
from transformer_zoo.interop.huggingface import writing
from transformer_zoo.interop.huggingface.family import Family
from transformer_zoo.peft import ia3
from transformer_zoo.peft import lora
from transformer_zoo.peft import prefixes
from transformer_zoo.peft import prompts
from transformer_zoo.peft import substitution
from transformer_zoo.peft.method import TASK_HEADS
from transformer_zoo.peft.substitution import Substitute
from transformer_zoo.tensors import safetensors
from transformer_zoo.tensors.lazy_tensors import Tensor

CONFIG = "adapter_config.json"
BASE = "base_model_name_or_path"
WEIGHTS = "adapter_model.safetensors"
# The second is of older `peft`.
_READERS = {WEIGHTS: safetensors.read, "adapter_model.bin": pytorch_files.read}
_PREFIX = "base_model.model."
# That of heads beside a prompt or prefixes, which wrap no module.
_PREFIX_OF_HEADS = "base_model."
# Kinds of methods, and the numbers that each has to have.
_NEEDED = {
  "LORA": ("r", "lora_alpha"),
  "IA3": (),
  "PROMPT_TUNING": ("num_virtual_tokens",),
  "PREFIX_TUNING": ("num_virtual_tokens",),
}
# Settings of theirs that change what is computed, and the values that are read.
_READ = {
  "bias": ("none",),
  "layer_replication": (None,),
  "use_qalora": (False, None),
  "lora_bias": (False, None),
  "trainable_token_indices": (None,),
  "target_parameters": (None, []),
  # The others (PiSSA, OLoRA, CorDA, LoftQ) change the matrices of the base.
  "init_lora_weights": (True, False, None, "gaussian", "orthogonal", "eva"),
  "loftq_config": (None, {}),
  "use_rslora": (True, False, None),
  "use_dora": (True, False, None),
  "rank_pattern": (None, {}),
  "alpha_pattern": (None, {}),
}
# Settings of training, of the base, and of what the tensors' names say.
_WITHOUT_EFFECT = (
  *("task_type", "peft_type", "peft_version", "auto_mapping", BASE, "revision"),
  *("inference_mode", "target_modules", "exclude_modules", "modules_to_save"),
  *("feedforward_modules", "layers_to_transform", "layers_pattern"),
  *("fan_in_fan_out", "lora_dropout"),
  *("megatron_config", "megatron_core", "qalora_group_size", "velora_config"),
  *("eva_config", "corda_config", "lora_ga_config", "ensure_weight_tying"),
  *("init_ia3_weights", "init_weights", "prefix_projection"),
  *("prompt_tuning_init", "prompt_tuning_init_text", "tokenizer_kwargs"),
  *("tokenizer_name_or_path", "token_dim", "num_attention_heads"),
  *("num_layers", "num_transformer_submodules", "encoder_hidden_size"),
  "runtime_config",
)
_ADDED = ("lora_a", "lora_b", "dora_scale")
# Parameters of ours that a head of theirs has beside the method.
_HEADS = re.compile(TASK_HEADS)
# Heads whose one answer of a text they read at the first vector of a prompt.
_READ_AT_PROMPT = re.compile(r"heads/(classes|number)/")


@dataclasses.dataclass(frozen=True)
class Method:
  """A method that a directory describes.

  Attributes:
    gin_file: The gin file of the method, under `gin_configs`.
    bindings: The bindings after it.
    parameters: What it adds to a base, and heads, by our names.
  """

  gin_file: str
  bindings: Mapping[str, Any]
  parameters: Mapping[str, np.ndarray]


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
  kind = said.get("peft_type")
  if kind not in _NEEDED:
    raise UserError(
      f"{str(folder)!r} has the peft_type {kind!r}, which is not read here; "
      f"known: {', '.join(_NEEDED)}"
    )
  _check(folder, said, _NEEDED[kind])
  tensors = {
    name.removeprefix(_PREFIX).removeprefix(_PREFIX_OF_HEADS): tensor
    for name, tensor in _tensors(folder).items()
  }
  reader = _Reader(folder, said, tensors, family, family.links(config), base)
  heads = reader.take_heads()
  method = {
    "LORA": reader.lora,
    "IA3": reader.ia3,
    "PROMPT_TUNING": reader.prompt,
    "PREFIX_TUNING": reader.prefix,
  }[kind]()
  if not method.parameters:
    raise UserError(f"{str(folder)!r} has no tensor of the method {kind}")
  if reader.tensors:
    left = ", ".join(sorted(reader.tensors)[:3])
    raise UserError(
      f"{str(folder)!r} is of another base, or of modules that no method is "
      f"read for here (embeddings, norms): {left} belong to no projection of "
      f"{config.get('model_type')} with these layers"
    )
  return dataclasses.replace(method, parameters={**method.parameters, **heads})


def _tensors(folder: pathlib.Path) -> dict[str, Tensor]:
  for name, read_file in _READERS.items():
    if (folder / name).is_file():
      return read_file(folder / name)
  raise UserError(f"{str(folder)!r} has neither {' nor '.join(_READERS)}")


def _check(
  folder: pathlib.Path, said: Mapping[str, Any], needed: Sequence[str]
) -> None:
  """Refuses settings that ask for what is not built here, or lack a number."""
  for name, value in said.items():
    if name in _READ and value not in _READ[name]:
      raise UserError(
        f"{str(folder)!r} has {name} = {value!r}, which is not read here; "
        f"known: {' or '.join(map(repr, _READ[name]))}"
      )
    if value and name not in {*_READ, *_WITHOUT_EFFECT, *needed}:
      raise UserError(
        f"{str(folder)!r} has the setting {name!r} ({value!r}), which is not "
        "understood here; remove it if no output depends on it"
      )
  for name in needed:
    value = said.get(name)
    if value is None or not value > 0:
      raise UserError(
        f"{str(folder)!r} has {name} = {value!r} in {CONFIG}, where a number "
        "above 0 belongs"
      )
  rate = said.get("lora_dropout") or 0.0
  if not 0 <= rate < 1:
    raise UserError(
      f"{str(folder)!r} has lora_dropout = {rate!r} in {CONFIG}, where a share "
      "below 1 belongs"
    )


def reads_at_prompt(model: nn.Module, names: Iterable[str]) -> bool:
  """Whether `peft` would read a head of a model at the prompt's first vector.

  Args:
    model: The model.
    names: The names of its parameters.
  """
  parts = (part for _, part in substitution.named_parts(model))
  return any(isinstance(part, prompts.PromptedEmbed) for part in parts) and any(
    map(_READ_AT_PROMPT.match, names)
  )


class _Reader:
  """Reads the tensors of one directory, each of which is taken once."""

  def __init__(self, folder, said, tensors, family, links, base):
    self.folder, self.said, self.tensors = folder, said, tensors
    self._family, self._links, self._base = family, links, base

  def take_heads(self) -> dict[str, np.ndarray]:
    found = {}
    for link in self._links:
      if all(map(_HEADS.fullmatch, link.ours)) and link.ours:
        theirs = self._take(link.theirs, None)
        if theirs is not None:
          found |= zip(link.ours, link.layout.split(theirs), strict=True)
    return found

  def lora(self) -> Method:
    rank, alpha = self.said["r"], self.said["lora_alpha"]
    dora = bool(self.said.get("use_dora"))
    found = {}
    for module, link in self._matrices():
      width, *_ = self._shape(link.ours[0])
      widths = [self._shape(name)[-1] for name in link.ours]
      total = sum(widths)
      a = self._take(f"{module}.lora_A.weight", [(rank, width)])
      if a is None:
        continue
      b = self._taken(f"{module}.lora_B.weight", [(total, rank)])
      parts = np.split(b.T, np.cumsum(widths)[:-1], axis=-1)
      lengths = [None] * len(parts)
      if dora:
        shapes = [(total,), (1, total), (total, 1)]
        vector = self._taken(f"{module}.lora_magnitude_vector", shapes)
        lengths = np.split(vector.ravel(), np.cumsum(widths)[:-1])
      for ours, part, length in zip(link.ours, parts, lengths, strict=True):
        place = ours.removesuffix("/kernel")
        found[f"{place}/lora_a"] = a.T
        found[f"{place}/lora_b"] = part
        if dora:
          before = self._base[ours].read().astype(np.float32)
          found[f"{place}/dora_scale"] = length / _lengths(before)
    names = self._patterns(_places(found, "/lora_a"))
    self._fill(found, names, _ADDED[: 3 if dora else 2], rank)
    root = self.said.get("use_rslora")
    return Method(
      f"peft/{'dora' if dora else 'lora'}.gin",
      {
        "LORA_PROJECTIONS": _expression(names),
        "LORA_RANK": rank,
        "LORA_ALPHA": float(alpha * rank**0.5 if root else alpha),
        "LORA_DROPOUT": float(self.said.get("lora_dropout") or 0.0),
      },
      found,
    )

  def ia3(self) -> Method:
    found, outputs, inputs = {}, {}, {}
    for module, link in self._matrices():
      width, *_ = self._shape(link.ours[0])
      total = sum(self._shape(name)[-1] for name in link.ours)
      vector = self._take(f"{module}.ia3_l", [(1, width), (total, 1)])
      if vector is None:
        continue
      of_inputs = vector.shape == (1, width)
      vector = vector.ravel()
      parts = [vector] * len(link.ours)
      if not of_inputs:
        parts = np.split(vector, len(link.ours))
      for ours, part in zip(link.ours, parts, strict=True):
        place = ours.removesuffix("/kernel")
        found[f"{place}/ia3_scale"] = part
        (inputs if of_inputs else outputs)[place] = None
    names = [self._patterns(some) for some in (outputs, inputs)]
    self._fill(found, names[0], ("scaled_output",))
    self._fill(found, names[1], ("scaled_input",))
    return Method(
      "peft/ia3.gin",
      {
        "IA3_OUTPUTS": _expression(names[0]),
        "IA3_INPUTS": _expression(names[1]),
      },
      found,
    )

  def prompt(self) -> Method:
    length = self.said["num_virtual_tokens"]
    width = self._shape("token_embedder/embedding")[-1]
    vectors = self._taken(
      "prompt_embeddings", [(length, width), (2 * length, width)]
    )
    has_class = any(map(_READ_AT_PROMPT.match, self._base))
    return Method(
      f"peft/{'prompt_answers' if has_class else 'prompt'}.gin",
      {"PROMPT_LENGTH": length},
      {"token_embedder/prompt": vectors[:length]},  # T5's encoder reads these
    )

  def prefix(self) -> Method:
    length = self.said["num_virtual_tokens"]
    stack, places = self._attentions()
    width = self._width(places[0])
    of_both = self.said.get("num_transformer_submodules") == 2
    # Of the four of a layer of theirs, two go to the attention to an encoder,
    # where they are dropped; and their list of all is repeated to have as many.
    step = 4 if of_both else 2
    layers = max(self.said.get("num_layers") or 0, len(places))
    shape = length, 2 * layers * width
    vectors = self._taken("prompt_embeddings", [shape])
    parts = np.split(vectors, 2 * layers, axis=1)
    found = {}
    for index, place in enumerate(places):
      first = step * index % len(parts)
      found[f"{place}/prefix/key"] = parts[first]
      found[f"{place}/prefix/value"] = parts[first + 1]
    return Method(
      "peft/p_tuning_v2.gin",
      {
        "PREFIX_LENGTH": length,
        "PREFIX_ATTENTIONS": _expression(self._patterns(places)),
        "positions_after_prefix.stacks": stack,
        "positions_after_prefix.biased": "relpos_bias" in " ".join(self._base),
      },
      found,
    )

  def _attentions(self) -> tuple[str, list[str]]:
    """The stack of a prefix of theirs, and its attentions in order."""
    writes = any(name.startswith("decoder/") for name in self._base)
    stack = "decoder" if writes else "encoder"
    expression = rf"{stack}/layers_\d+/(self_)?attention/key/kernel"
    found = [
      name.removesuffix("/key/kernel")
      for name in self._base
      if re.fullmatch(expression, name)
    ]
    return stack, sorted(found, key=lambda n: int(re.search(r"\d+", n)[0]))

  def _width(self, attention: str) -> int:
    return self._shape(f"{attention}/key/kernel")[-1]

  def _matrices(self):
    """Yields the modules of theirs with a matrix, and its link."""
    for link in self._links:
      kernels = link.ours and all(n.endswith("/kernel") for n in link.ours)
      if kernels and link.theirs.endswith(".weight"):
        yield link.theirs.removesuffix(".weight"), link

  def _take(
    self, name: str, shapes: Sequence[tuple[int, ...]] | None
  ) -> np.ndarray | None:
    """A tensor by its name, with or without the prefix of the family.

    Args:
      name: The name.
      shapes: The shapes that it may have by adapter_config.json and the base;
        None if these do not say it.
    """
    for known in (name, name.removeprefix(self._family.prefix)):
      if known in self.tensors:
        found = self.tensors.pop(known)
        if shapes is not None and found.shape not in shapes:
          raise self._misshaped(known, found.shape, shapes)
        return found.read().astype(np.float32)
    return None

  def _taken(self, name: str, shapes: Sequence[tuple[int, ...]]) -> np.ndarray:
    found = self._take(name, shapes)
    if found is None:
      raise UserError(f"{str(self.folder)!r} lacks the tensor {name}")
    return found

  def _shape(self, name: str) -> tuple[int, ...]:
    if name not in self._base:
      raise UserError(
        f"{str(self.folder)!r} is of another base, {self.said.get(BASE)!r}: "
        f"this one has no {name}"
      )
    return self._base[name].shape

  def _misshaped(self, name, shape, allowed) -> UserError:
    numbers = [
      f"{setting} = {self.said[setting]}"
      for setting in _NEEDED[self.said["peft_type"]]
    ]
    return UserError(
      f"{str(self.folder)!r} is of another base, {self.said.get(BASE)!r}, or "
      f"damaged: its {name} has the shape {tuple(shape)}, and by {CONFIG} "
      f"({', '.join(numbers)}) and this base it has "
      f"{' or '.join(map(str, allowed[:2]))}"
    )

  def _patterns(self, places) -> list[str]:
    return list(
      dict.fromkeys(re.sub(r"\blayers_\d+/", "layers/", p) for p in places)
    )

  def _fill(
    self,
    found: dict[str, np.ndarray],
    names: Sequence[str],
    added: Sequence[str],
    rank: int = 0,
  ) -> None:
    """Adds what changes nothing in the layers that theirs leave out."""
    for kernel, tensor in self._base.items():
      place = kernel.removesuffix("/kernel")
      if place == kernel or self._patterns([place])[0] not in names:
        continue
      width, features = tensor.shape
      unchanged = {
        "lora_a": ("lora_a", np.zeros((width, rank), np.float32)),
        "lora_b": ("lora_b", np.zeros((rank, features), np.float32)),
        "dora_scale": ("dora_scale", np.ones(features, np.float32)),
        "scaled_output": ("ia3_scale", np.ones(features, np.float32)),
        "scaled_input": ("ia3_scale", np.ones(width, np.float32)),
      }
      for name, value in map(unchanged.get, added):
        found.setdefault(f"{place}/{name}", value)


def write(
  folder: pathlib.Path,
  model: nn.Module,
  parameters: Mapping[str, Tensor],
  family: Family,
  config: Mapping[str, Any],
  base_path: str,
) -> Sequence[Tensor]:
  """Writes a directory of the method in a model.

  Args:
    folder: The folder, which exists.
    model: A model with one method, without networks of prefixes.
    parameters: Its parameters, layers unstacked.
    family: The family of the base.
    config: The config.json of the base.
    base_path: The name that a reader loads the base by.

  Returns:
    The tensors of the directory.

  Raises:
    UserError: `peft` has no such method, or there are several.
  """
  links = family.links(config)
  loaded = _Loaded(parameters)
  parts = [
    part
    for _, part in substitution.named_parts(model)
    if isinstance(part, Substitute)
  ]
  found = [
    [method for kind, method in _METHODS.items() if isinstance(part, kind)]
    for part in parts
  ]
  methods = {method for some in found for method in some}
  if len(methods) != 1 or not all(found):
    listed = ", ".join(substitution.substitutes(model)) or "nothing"
    raise UserError(
      f"a directory of `peft` has one method, LoRA, DoRA, IA3, a prompt or "
      f"prefixes; this model has {listed}"
    )
  said, tensors = methods.pop()(model, loaded, links, config)
  heads = {
    link.theirs: link.layout.join([loaded[name] for name in link.ours])
    for link in links
    if link.ours and all(map(_HEADS.fullmatch, link.ours))
  }
  if heads:
    said["modules_to_save"] = sorted({n.partition(".")[0] for n in heads})
  said |= {
    BASE: base_path,
    "inference_mode": True,
    "task_type": _task_type(model),
  }
  writing.write_json(folder / CONFIG, said)
  prefix, of_heads = _PREFIX, _PREFIX
  if "prompt_embeddings" in tensors:
    prefix, of_heads = "", _PREFIX_OF_HEADS
  named = {f"{prefix}{name}": array for name, array in tensors.items()} | {
    f"{of_heads}{name}": array for name, array in heads.items()
  }
  written = {
    name: Tensor.of(np.ascontiguousarray(array, np.float32))
    for name, array in named.items()
  }
  safetensors.write(folder / WEIGHTS, written)
  return list(written.values())


class _Loaded(dict):
  """Arrays by name, each read when it is first asked for."""

  def __init__(self, tensors: Mapping[str, Tensor]):
    super().__init__()
    self.tensors = tensors

  def __missing__(self, name: str) -> np.ndarray:
    self[name] = self.tensors[name].read().astype(np.float32)
    return self[name]


def _write_lora(model, loaded, links, config):
  del config
  parts = [
    part
    for _, part in substitution.named_parts(model)
    if isinstance(part, lora.Lora)
  ]
  scale = parts[0].scale
  dora = isinstance(parts[0], lora.Dora)
  tensors, matrices_of = {}, {}
  for link in links:
    places = [name.removesuffix("/kernel") for name in link.ours]
    has = [f"{place}/lora_a" in loaded.tensors for place in places]
    if not any(has):
      continue
    module = link.theirs.removesuffix(".weight")
    of_each = [
      (loaded[f"{place}/lora_a"], loaded[f"{place}/lora_b"])
      for place, there in zip(places, has, strict=True)
      if there
    ]
    first = of_each[0][0]
    shared = all(np.array_equal(a, first) for a, _ in of_each)
    matrices = [first] if shared else [a for a, _ in of_each]
    rank = sum(a.shape[1] for a in matrices)
    columns, begin = [], 0
    for place, there in zip(places, has, strict=True):
      width = loaded.tensors[f"{place}/kernel"].shape[1]
      block = np.zeros((rank, width), np.float32)
      if there:
        b = loaded[f"{place}/lora_b"]
        block[begin : begin + len(b)] = b
        begin += 0 if shared else len(b)
      columns.append(block)
    matrices_of[module] = (
      np.concatenate(matrices, axis=1),
      np.concatenate(columns, axis=1),
    )
    if dora:
      tensors[f"{module}.lora_magnitude_vector"] = np.concatenate(
        [
          _lengths(loaded[f"{place}/kernel"])
          * (loaded[f"{place}/dora_scale"] if there else 1)
          for place, there in zip(places, has, strict=True)
        ]
      )
  rank = max(len(b) for _, b in matrices_of.values())
  for module, (a, b) in matrices_of.items():  # All of one rank, by zeros.
    more = rank - len(b)
    tensors[f"{module}.lora_A.weight"] = np.pad(a, ((0, 0), (0, more))).T
    tensors[f"{module}.lora_B.weight"] = np.pad(b, ((0, more), (0, 0))).T
  fused = any(len(link.ours) > 1 for link in links if link.ours)
  return {
    "peft_type": "LORA",
    "r": rank,
    "lora_alpha": scale * rank,
    "target_modules": sorted(matrices_of),
    "lora_dropout": parts[0].dropout.rate,
    "use_dora": dora,
    "use_rslora": False,
    "fan_in_fan_out": fused,
    "bias": "none",
  }, tensors


def _write_ia3(model, loaded, links, config):
  del config
  inputs = {
    name
    for name, part in substitution.named_parts(model)
    if isinstance(part, ia3.ScaledInput)
  }
  tensors, of_inputs = {}, []
  for link in links:
    places = [name.removesuffix("/kernel") for name in link.ours]
    if not any(f"{place}/ia3_scale" in loaded.tensors for place in places):
      continue
    module = link.theirs.removesuffix(".weight")
    is_input = re.sub(r"layers_\d+", "layers", places[0]) in inputs
    if is_input:
      vector = loaded[f"{places[0]}/ia3_scale"][None]
      of_inputs.append(module)
    else:
      vector = np.concatenate(
        [
          loaded[f"{place}/ia3_scale"]
          if f"{place}/ia3_scale" in loaded.tensors
          else np.ones(loaded.tensors[f"{place}/kernel"].shape[1], np.float32)
          for place in places
        ]
      )[:, None]
    tensors[f"{module}.ia3_l"] = vector
  return {
    "peft_type": "IA3",
    "target_modules": sorted(n.removesuffix(".ia3_l") for n in tensors),
    "feedforward_modules": sorted(of_inputs),
    "fan_in_fan_out": any(len(link.ours) > 1 for link in links if link.ours),
  }, tensors


def _write_prompt(model, loaded, links, config):
  del links, config
  # What it began at is added here, as the embedder does.
  embedder = model.token_embedder.clone(parent=None, name=None)
  params = {
    name.removeprefix("token_embedder/"): loaded[name]
    for name in loaded.tensors
    if name.startswith("token_embedder/")
  }
  vectors = embedder.apply(
    {"params": params}, method=type(embedder).prompt_vectors
  )
  return {
    "peft_type": "PROMPT_TUNING",
    "num_virtual_tokens": len(vectors),
    "num_transformer_submodules": 1,
    "token_dim": vectors.shape[1],
    **_sizes(model),
  }, {"prompt_embeddings": np.asarray(vectors)}


def _write_prefix(model, loaded, links, config):
  del links, config
  places = sorted(
    _places(loaded.tensors, "/prefix/key"),
    key=lambda name: int(re.search(r"\d+", name)[0]),
  )
  *_, stack = model.offers.stacks.values()
  kind = "self_attention" if model.offers.has_decoder else "attention"
  if len(places) != stack.num_layers or any(
    place.rpartition("/")[2] != kind for place in places
  ):
    raise UserError(
      "`peft` has prefixes in every self-attention of a decoder, or of an "
      f"encoder alone, and these are in {', '.join(places[:3])}, ...; bind "
      f"PREFIX_ATTENTIONS = '.*{kind}'"
    )
  of_both = len(model.offers.sides) == 2
  parts = []
  for place in places:
    parts += [loaded[f"{place}/prefix/{name}"] for name in ("key", "value")]
    if of_both:  # See `_Reader.prefix`; with as many layers none is repeated.
      parts += [np.zeros_like(parts[-1])] * 2
  vectors = np.concatenate(parts, axis=1)
  attention = getattr(stack.layer, kind)
  if not stack.biased and (stack.position_bias or attention.position_bias):
    raise UserError(
      "`transformers` gives the scores of a prefix a relative position bias, "
      "and this model does not; train it with "
      "positions_after_prefix.biased = True"
    )
  heads = attention.num_kv_heads or attention.num_heads
  return {
    "peft_type": "PREFIX_TUNING",
    "num_virtual_tokens": len(vectors),
    "num_transformer_submodules": 2 if of_both else 1,
    "prefix_projection": False,
    **_sizes(model),
    "num_layers": len(parts) // 2,
    "token_dim": heads * attention.head_dim,
    "num_attention_heads": heads,
  }, {"prompt_embeddings": vectors}


_METHODS = {
  lora.Lora: _write_lora,
  ia3.ScaledOutput: _write_ia3,
  ia3.ScaledInput: _write_ia3,
  prompts.PromptedEmbed: _write_prompt,
  prefixes.Prefixed: _write_prefix,
  prefixes.Offset: _write_prefix,
}


def _sizes(model: nn.Module) -> dict[str, int]:
  *_, stack = model.offers.stacks.values()
  layer = stack.layer
  attention = getattr(layer, "self_attention", None) or layer.attention
  return {
    "num_layers": stack.num_layers,
    "num_attention_heads": attention.num_heads,
  }


def _task_type(model: nn.Module) -> str:
  """The kind of class that `peft` wraps."""
  if model.offers.has_decoder:
    return "CAUSAL_LM" if model.offers.continues else "SEQ_2_SEQ_LM"
  kinds = {"classes": "SEQ_CLS", "tags": "TOKEN_CLS", "spans": "QUESTION_ANS"}
  found = (kinds[name] for name in model.offers.heads if name in kinds)
  return next(found, "FEATURE_EXTRACTION")


def _places(names, suffix: str) -> list[str]:
  return [n.removesuffix(suffix) for n in names if n.endswith(suffix)]


def _lengths(kernel: np.ndarray) -> np.ndarray:
  return np.sqrt(np.sum(kernel * kernel, axis=-2))


def _expression(names: Sequence[str]) -> str:
  return "|".join(map(re.escape, names)).replace("\\", "") or "none"
