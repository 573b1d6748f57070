"""Attributes of config.json: each is understood, or refused by name.

A row (`Attribute`) says once what an attribute is bound to and where its value
lies in a model, so that reading and writing a config.json follow from the same
list.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
import contextlib
import dataclasses
import operator
import types
from typing import Any

from transformer_zoo import schemas
from transformer_zoo.errors import UserError
from transformer_zoo.interop.huggingface.parts import Parts
from transformer_zoo.interop.huggingface.parts import PLACES

Windows = tuple[int | None, ...]
# The value of an attribute that is not written.
OMITTED = object()
# Names of activations in `transformers` -> names in `feed_forward.ACTIVATIONS`.
ACTIVATIONS = {
  "relu": "relu",
  "gelu": "gelu_exact",
  "gelu_python": "gelu_exact",
  # One function, written down in four ways.
  "gelu_new": "gelu",
  "gelu_fast": "gelu",
  "gelu_accurate": "gelu",
  "gelu_pytorch_tanh": "gelu",
  "silu": "silu",
  "swish": "silu",
  "sigmoid": "sigmoid",
  "tanh": "tanh",
  "linear": "linear",
}
# Attributes of training, generation, storage and names: the logits of a model
# do not depend on them.
_WITHOUT_EFFECT = frozenset(
  """
  _attn_implementation _attn_implementation_autoset
  _attn_implementation_internal _commit_hash _experts_implementation
  _experts_implementation_internal _flash_attn_2_enabled _name_or_path
  _num_labels _output_attentions architectures attn_implementation author
  chunk_size_feed_forward created_date dtype finetuning_task
  gradient_checkpointing id2label initializer_range is_decoder label2id license
  model_type name_or_path num_labels output_attentions output_hidden_states
  prefix return_dict task_specific_params tf_legacy_loss
  tie_last_hidden_states tokenizer_class torch_dtype torchscript
  transformers_version unsloth_fixed unsloth_version use_bfloat16 use_cache
  xla_device

  bos_token_id cls_token_id decoder_start_token_id eos_token_id pad_token_id
  sep_token_id

  assistant_confidence_threshold assistant_early_exit
  assistant_ensemble_weight assistant_lookbehind bad_words_ids
  begin_suppress_tokens cache_config cache_implementation compile_config
  constraints continuous_batching_config disable_compile diversity_penalty
  do_sample dola_layers early_stopping encoder_no_repeat_ngram_size
  encoder_repetition_penalty epsilon_cutoff eta_cutoff
  exponential_decay_length_penalty force_bos_token_to_be_generated
  force_words_ids forced_bos_token_id forced_decoder_ids forced_eos_token_id
  generation_kwargs guidance_scale is_assistant length_penalty low_memory
  max_cache_len max_length max_matching_ngram_size max_new_tokens max_time
  min_length min_new_tokens min_p no_repeat_ngram_size num_assistant_tokens
  num_assistant_tokens_schedule num_beam_groups num_beams num_return_sequences
  output_logits output_past output_scores penalty_alpha prefill_chunk_size
  prompt_lookup_num_tokens remove_invalid_values renormalize_logits
  repetition_penalty return_dict_in_generate return_legacy_cache sequence_bias
  speculation_type stop_strings suppress_tokens target_lookbehind temperature
  token_healing top_h top_k top_p typical_p use_mtp watermarking_config
  """.split()
)
_ALLOWED = {
  "add_cross_attention": (False,),
  "cross_attention_hidden_size": (None,),
  "per_layer_config": (None,),
  # Labels that do not exclude each other have no softmax.
  "problem_type": (None, "single_label_classification", "regression"),
  "pruned_heads": ({}, None),
  "quantization_config": (None,),
  "tie_encoder_decoder": (False,),
  "transformers_weights": (None, "model.safetensors"),
}
_DROPOUT = ("dropout", "dropout_rate", "_pdrop")


@dataclasses.dataclass(frozen=True)
class Attribute:
  """An attribute of config.json, and its place in our configuration and model.

  Attributes:
    name: The name of the attribute here, and in config.json unless `written`.
    default: The value of an absent attribute. A value that is given has the
      same type.
    bound: The macro or parameter of gin that takes the value, several of them,
      or a function from the values of all attributes to bindings.
    of: The path of the value in the `Parts` of a model, "mlp.d_ff", or a
      function of them, whose value `OMITTED` is not written; None for the place
      of what is bound (`PLACES`), or an attribute that is never written.
    part: The path of a part without which the attribute is not written.
    kind: The type of an attribute that may be null, None for all others.
    values: The values of ours by theirs; None where they are the same, or for
      activations where one is bound.
    absent: A function from the values of all attributes to the one that null
      stands for, or None.
    read: A function from a config.json and the default to the value, for an
      attribute that is more than its own value; None for all others.
    least: The smallest whole number.
    negative_is_null: Whether a smaller number stands for null.
    counts_rows: Whether it counts the rows of a table, which a conversion may
      change; VOCAB_SIZE and MAX_POSITIONS always do.
    written: The name in config.json, if it is another one.
    spellings: Further names in a config.json that is read.
  """

  name: str
  default: Any = None
  bound: str | Sequence[str] | Callable[[Mapping[str, Any]], dict] = ()
  of: str | Callable[[Parts], Any] | None = None
  _: dataclasses.KW_ONLY
  part: str | None = None
  kind: type | None = None
  values: Mapping[Any, Any] | None = None
  absent: Callable[[Mapping[str, Any]], Any] | None = None
  read: Callable[[Mapping[str, Any], Any], Any] | None = None
  least: int = 1
  negative_is_null: bool = False
  counts_rows: bool = False
  written: str | None = None
  spellings: Sequence[str] = ()

  @property
  def place(self) -> str | Callable[[Parts], Any] | None:
    """`of`, or what follows from the binding."""
    if self.of is None and isinstance(self.bound, str):
      return PLACES[self.bound]
    return self.of

  @property
  def table(self) -> Mapping[Any, Any] | None:
    """`values`, or what follows from the binding."""
    if self.values is None and str(self.bound).endswith(".activation"):
      return ACTIVATIONS
    return self.values

  @property
  def theirs(self) -> str:
    """The name in a config.json that is written."""
    return self.written or self.name

  @property
  def is_dropout(self) -> bool:
    """Whether it is the rate of a dropout, by its names."""
    return any(name.endswith(_DROPOUT) for name in (self.name, self.theirs))

  def typed(self, model_type: str, spelling: str, value: Any) -> Any:
    """The value as its type, if that is right; null is a dropout of 0."""
    if value is None and self.kind is not None:
      return None
    if self.negative_is_null and isinstance(value, int) and value < self.least:
      return None
    if value is None and self.is_dropout:
      return 0.0
    wanted = self.kind or type(self.default)
    check_type(
      model_type, spelling, value, wanted, or_null=self.kind is not None
    )
    if wanted is int:
      check_range(model_type, spelling, value, self.least)
    return float(value) if wanted is float else value

  def bindings(self, found: Mapping[str, Any]) -> dict[str, Any]:
    """The bindings of a config.json with these values of its attributes."""
    if callable(self.bound):
      return self.bound(found)
    names = (self.bound,) if isinstance(self.bound, str) else self.bound
    return dict.fromkeys(names, self.our_value(found)) if names else {}

  def our_value(self, found: Mapping[str, Any]) -> Any:
    """Our value of the attribute.

    Raises:
      UserError: There is none, as of an activation that is not built here.
    """
    value = found[self.name]
    if self.table is None:
      return value
    check_allowed(found["model_type"], self.theirs, value, self.table)
    return self.table[value]

  def described(self, parts: Parts) -> dict[str, Any]:
    """The attribute of a model by its name; empty if it is not written.

    Raises:
      UserError: Theirs cannot have the value of the model.
    """
    place = self.place
    if place is None or self.part and not _has(parts, self.part):
      return {}
    value = _get(parts, place)
    if value is OMITTED:
      return {}
    if self.table is not None:
      value = their_value(parts.kind, self.table, value)
    return {self.theirs: value}


def _has(parts: Parts, path: str) -> bool:
  found = parts
  for name in path.split("."):
    if found is not None:
      found = getattr(found, name)
  return found is not None


def _get(parts: Parts, of: str | Callable[[Parts], Any]) -> Any:
  return of(parts) if callable(of) else operator.attrgetter(of)(parts)


@dataclasses.dataclass(frozen=True)
class Attributes:
  """The attributes of a class of configurations that not all classes have.

  Attributes:
    rows: The attributes that a model is built from.
    allowed: The values by name that ask for nothing that is not built here.
    without_effect: The names of attributes that no logit depends on.
  """

  rows: Sequence[Attribute]
  allowed: Mapping[str, tuple] = dataclasses.field(default_factory=dict)
  without_effect: Collection[str] = ()

  def __getitem__(self, name: str) -> Attribute:
    return next(row for row in self.rows if row.name == name)

  def __contains__(self, name: str) -> bool:
    return any(row.name == name for row in self.rows)

  def changed(
    self,
    *rows: Attribute,
    without: Collection[str] = (),
    written: Mapping[str, str] = types.MappingProxyType({}),
    spellings: Mapping[str, str] = types.MappingProxyType({}),
    allowed: Mapping[str, tuple] = types.MappingProxyType({}),
    without_effect: Collection[str] = (),
    **defaults: Any,
  ) -> "Attributes":
    """Returns the attributes of a class that is like this one.

    Args:
      *rows: Attributes in place of attributes of the same name, or more of
        them.
      without: The names of attributes that the class has not.
      written: The name in config.json by name.
      spellings: One more name in config.json by name.
      allowed: See the class; more than here.
      without_effect: See the class; more than here.
      **defaults: The default by name.
    """
    kept = {row.name: row for row in self.rows if row.name not in without}
    kept |= {row.name: row for row in rows}
    for name, default in defaults.items():
      kept[name] = dataclasses.replace(kept[name], default=default)
    for name, theirs in written.items():
      kept[name] = dataclasses.replace(kept[name], written=theirs)
    for name, more in spellings.items():
      known = (*kept[name].spellings, more)
      kept[name] = dataclasses.replace(kept[name], spellings=known)
    return Attributes(
      tuple(kept.values()),
      {**self.allowed, **allowed},
      (*self.without_effect, *without_effect),
    )

  def read(self, config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the value of every row by its name, and `model_type`.

    Args:
      config: The contents of a config.json.

    Raises:
      UserError: An attribute is unknown, has a value that is not built here, of
        another type or out of range, or two spellings of it disagree.
    """
    kind = config.get("model_type")
    allowed = {**_ALLOWED, **self.allowed}
    rows = {
      spelling: row
      for row in self.rows
      if row.read is None
      for spelling in (row.theirs, *row.spellings)
    }
    found = {}
    for spelling, value in config.items():
      if spelling in rows:
        row = rows[spelling]
        value = row.typed(kind, spelling, value)
        if found.setdefault(row.name, value) != value:
          raise UserError(
            f"config.json of a {kind} model says {row.theirs} twice, as "
            f"{schemas.shown(found[row.name])} and as {spelling}="
            f"{schemas.shown(value)}; remove one of them"
          )
      elif spelling in allowed:
        check_allowed(kind, spelling, value, allowed[spelling])
      elif (
        spelling not in _WITHOUT_EFFECT and spelling not in self.without_effect
      ):
        raise UserError(
          f"config.json of a {kind} model has the attribute {spelling!r} "
          f"({schemas.shown(value)}), which is not understood here; remove it "
          "if no output of the model depends on it"
        )
    found = {row.name: row.default for row in self.rows} | found
    found["model_type"] = kind
    for row in self.rows:
      if row.read is not None:
        found[row.name] = row.read(config, row.default)
      if row.absent is not None and found[row.name] is None:
        found[row.name] = row.absent(found)
    return found

  def bindings(self, found: Mapping[str, Any]) -> dict[str, Any]:
    """The bindings of a config.json, of the values that `read` returns.

    Raises:
      UserError: An attribute asks for what is not built here.
    """
    bound = {}
    for row in self.rows:
      bound |= row.bindings(found)
    return bound

  @property
  def sizes(self) -> list[str]:
    """The names of the attributes that count the rows of tables."""
    return [
      row.theirs
      for row in self.rows
      if row.counts_rows or row.bound in ("VOCAB_SIZE", "MAX_POSITIONS")
    ]

  def described(self, parts: Parts) -> dict[str, Any]:
    """The attributes of a model of ours.

    Raises:
      UserError: Theirs cannot have the value of the model.
    """
    found = {}
    for row in self.rows:
      found |= row.described(parts)
    return found


def check_type(
  kind: str, name: str, value: Any, wanted: type, *, or_null: bool = False
) -> None:
  """Refuses an attribute whose value is of another type.

  Args:
    kind: The model_type of the configuration.
    name: The name of the attribute.
    value: The value of the attribute.
    wanted: The type: bool, dict, float (any number that float32 holds), int,
      list or str.
    or_null: Whether the sentence names null among the allowed values.
  """
  if not schemas.fits(value, wanted):
    takes = schemas.described((wanted, None) if or_null else wanted)
    raise UserError(
      f"config.json of a {kind} model has {name}={schemas.shown(value)}; it "
      f"takes {takes}"
    )


def check_range(kind: str, name: str, value: int, least: int) -> None:
  """Refuses a whole number that is too small or too large."""
  allowed = range(least, schemas.LARGEST + 1)
  if value not in allowed:
    raise UserError(
      f"config.json of a {kind} model has {name}={value!r}; it takes "
      + schemas.described(allowed)
    )


def check_allowed(
  kind: str, name: str, value: Any, allowed: Collection
) -> None:
  """Refuses an attribute whose value asks for what is not built here."""
  if value not in [*allowed]:  # Which may be a table's keys, it a list.
    listed = ", ".join(map(repr, allowed))
    raise UserError(
      f"config.json of a {kind} model has {name}={schemas.shown(value)}, which "
      f"is not built here; allowed: {listed}"
    )


def heads(
  name: str,
  default: int,
  width: str,
  *,
  number: str = "NUM_HEADS",
  size: str = "HEAD_DIM",
  of: str | Callable[[Parts], int] = "attention.num_heads",
  spellings: Sequence[str] = (),
) -> Attribute:
  """The row of the number of heads that divide the width.

  Args:
    name: The name of the attribute.
    default: The value of an absent attribute.
    width: The name of the attribute of the width.
    number: The macro or parameter of the number of heads.
    size: The macro or parameter of the size of a head.
    of: See `Attribute`; `dividing` checks that they divide it.
    spellings: See `Attribute`.
  """

  def bound(found):
    check_multiple(found["model_type"], found[width], found[name])
    return {number: found[name], size: found[width] // found[name]}

  return Attribute(name, default, bound, of, spellings=spellings)


def dividing(width: str) -> Callable[[Parts], int]:
  """`Attribute.of` heads, of a class whose heads all divide the width.

  Args:
    width: The name of the attribute of the width.
  """

  def of(parts):
    number = parts.attention.num_heads
    if parts.attention.head_dim * number != parts.tokens.features:
      raise UserError(
        f"{parts.kind} models have heads that divide {width}; set HEAD_DIM to "
        "EMBED_DIM / NUM_HEADS"
      )
    return number

  return of


def implied(name: str, of: Callable[[Mapping[str, Any]], int]) -> Attribute:
  """The row of a number that follows from others; another one is refused.

  Args:
    name: The name of the attribute, which may be null.
    of: A function from the values of all attributes to the number.
  """

  def bound(found):
    if found[name] is not None:
      check_allowed(found["model_type"], name, found[name], (of(found),))
    return {}

  return Attribute(name, None, bound, kind=int)


def size_of_heads(found: Mapping[str, Any]) -> int:
  """The size of heads that share `hidden_size`."""
  return found["hidden_size"] // found["num_attention_heads"]


def check_multiple(kind: str, width: int, heads: int) -> None:
  """Refuses a width that a class loads only as a multiple of the heads."""
  if width % heads:
    raise UserError(
      f"{kind} models have a hidden_size that is a multiple of "
      f"num_attention_heads; {width} is no multiple of {heads}"
    )


def activation(found: Mapping[str, Any], name: str) -> str:
  """Returns our name of the activation that an attribute names."""
  check_allowed(found["model_type"], name, found[name], ACTIVATIONS)
  return ACTIVATIONS[found[name]]


def their_value(kind: str, values: Mapping[Any, Any], value: Any) -> Any:
  """Returns their first value of one of ours, the name of an activation."""
  for theirs, ours in values.items():
    if ours == value:
      return theirs
  raise UserError(f"{kind} models have no activation {value!r}")


@contextlib.contextmanager
def counterpart(kind: str) -> Iterator[None]:
  """Refuses a model that lacks a part which `kind` models have."""
  try:
    yield
  except AttributeError as error:
    raise UserError(
      f"a {kind} model cannot compute what this model does: its "
      f"{type(error.obj).__name__} has no {error.name!r}"
    ) from error


def padding(bound: str, default: int | None = None) -> Attribute:
  """The row of `pad_token_id`.

  Args:
    bound: The parameter that takes it.
    default: The value of a config.json without one; None for its EOS.
  """
  return Attribute(
    "pad_token_id", default, bound, "model.pad_id", read=padding_id
  )


# What a decoder that begins with padding is first fed. Another one is no matter
# of the model's.
STARTS_WITH_PADDING = Attribute(
  "decoder_start_token_id", of="model.pad_id", read=lambda config, default: None
)


def tied(parts: Parts) -> bool:
  """`Attribute.of` a softmax that shares its matrix with the embeddings."""
  softmax = getattr(parts.softmax, "softmax", parts.softmax)
  return type(softmax).__name__ == "TiedLogits"


def windows_of_layers(banded: Sequence[bool], width: int | None) -> Windows:
  """Returns `Windows.sizes`: the shortest repeated pattern of all layers.

  Args:
    banded: Whether a layer sees the last tokens alone, of each layer.
    width: The number of tokens that such a layer sees.
  """
  for length in range(1, len(banded)):
    if all(b == banded[i % length] for i, b in enumerate(banded)):
      banded = banded[:length]
      break
  return tuple(width if b else None for b in banded)


def bands(parts: Parts) -> tuple[list[bool], int | None]:
  """Returns whether each layer is banded, and the width of the bands.

  Raises:
    UserError: The layers have several widths.
  """
  windows = parts.windows
  repeated = [
    windows[layer % len(windows)] for layer in range(parts.stack.num_layers)
  ]
  widths = set(repeated) - {None}
  if len(widths) > 1:
    raise UserError(f"{parts.kind} models have one window, not {windows}")
  return [w is not None for w in repeated], widths.pop() if widths else None


def padding_id(config: Mapping[str, Any], default: int | None = None) -> int:
  """The id of padding: its own, or else the id of EOS, or else 0.

  `Vocabulary.pad_id` follows the same rule: GPT-2 and others pad with EOS.

  Args:
    config: The contents of a config.json.
    default: The `pad_token_id` of a config.json without one.
  """
  for name, otherwise in {
    "pad_token_id": default,
    "eos_token_id": None,
  }.items():
    value = config.get(name, otherwise)
    first = next(iter(value), None) if isinstance(value, list) else value
    if first is not None and first >= 0:
      return first
  return 0


def num_labels(config: Mapping[str, Any], default: int = 2) -> int:
  """The number of labels of a class with a head.

  Args:
    config: The contents of a config.json.
    default: The number where nothing is said; `transformers` does not write
      what its class of configurations has.
  """
  if (labels := config.get("id2label")) is not None:
    return max(1, len(labels))
  numbers = (config.get(name) for name in ("num_labels", "_num_labels"))
  return next((n for n in numbers if n is not None), default)
