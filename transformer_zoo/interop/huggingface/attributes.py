"""Attributes of config.json: each is understood, or refused by name."""

from collections.abc import Collection, Iterator, Mapping, Sequence
import contextlib
import dataclasses
from typing import Any

from flax import linen as nn

from transformer_zoo import schemas
from transformer_zoo.errors import UserError

Windows = tuple[int | None, ...]
# Names of activations in `transformers` -> those of `feed_forward.ACTIVATIONS`.
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
_THEIR_ACTIVATIONS = {
  "relu": "relu",
  "gelu_exact": "gelu",
  "gelu": "gelu_new",
  "silu": "silu",
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
class Attributes:
  """The attributes that a class of configurations has, beyond those of all.

  Attributes:
    defaults: The values of absent attributes by name, of all that a model is
      built from; a value that is given has the same type, and is at least 1 if
      it is a whole number.
    optional: The types of the attributes that may be null by name, among them
      all whose default is None.
    may_be_zero: The names of whole numbers that may be 0.
    allowed: The values by name that ask for nothing that is not built here.
    without_effect: The names of attributes that no logit depends on.
    renamed: The name of an attribute by another spelling of it.
  """

  defaults: Mapping[str, Any]
  allowed: Mapping[str, tuple] = dataclasses.field(default_factory=dict)
  without_effect: Collection[str] = ()
  renamed: Mapping[str, str] = dataclasses.field(default_factory=dict)
  optional: Mapping[str, type] = dataclasses.field(default_factory=dict)
  may_be_zero: Collection[str] = ()

  def read(self, config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the value of every name in `defaults`.

    Args:
      config: The contents of a config.json.

    Raises:
      UserError: An attribute is unknown, has a value that is not built here, of
        another type or out of range, or two spellings of it disagree.
    """
    kind = config.get("model_type")
    allowed = {**_ALLOWED, **self.allowed}
    found = {}
    for spelling, value in config.items():
      name = self.renamed.get(spelling, spelling)
      if name in self.defaults:
        value = self._typed(kind, spelling, value)
        if found.setdefault(name, value) != value:
          raise UserError(
            f"config.json of a {kind} model says {name} twice, as "
            f"{schemas.shown(found[name])} and as {spelling}="
            f"{schemas.shown(value)}; remove one of them"
          )
      elif name in allowed:
        check_allowed(kind, name, value, allowed[name])
      elif name not in _WITHOUT_EFFECT and name not in self.without_effect:
        raise UserError(
          f"config.json of a {kind} model has the attribute {name!r} "
          f"({schemas.shown(value)}), which is not understood here; remove it "
          "if no output of the model depends on it"
        )
    return {**self.defaults, **found}

  def _typed(self, kind: str, spelling: str, value: Any) -> Any:
    """The value as its type, if that is right; null is a dropout of 0."""
    name = self.renamed.get(spelling, spelling)
    if value is None and name in self.optional:
      return None
    if value is None and name.endswith(_DROPOUT):
      return 0.0
    wanted = self.optional.get(name, type(self.defaults[name]))
    check_type(kind, spelling, value, wanted, or_null=name in self.optional)
    if wanted is int:
      least = 0 if name in self.may_be_zero else 1
      check_range(kind, spelling, value, least)
    return float(value) if wanted is float else value


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


def check_multiple(kind: str, width: int, heads: int) -> None:
  """Refuses a width that a class loads only as a multiple of the heads."""
  if width % heads:
    raise UserError(
      f"{kind} models have a hidden_size that is a multiple of "
      f"num_attention_heads; {width} is no multiple of {heads}"
    )


def activation(kind: str, name: str, value: str) -> str:
  """Returns our name of an activation of theirs."""
  check_allowed(kind, name, value, ACTIVATIONS)
  return ACTIVATIONS[value]


def their_activation(kind: str, name: str) -> str:
  """Returns their name of an activation of ours."""
  if name not in _THEIR_ACTIVATIONS:
    raise UserError(f"{kind} models have no activation {name!r}")
  return _THEIR_ACTIVATIONS[name]


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


def windows_of_layers(banded: Sequence[bool], width: int | None) -> Windows:
  """Returns `Stack.windows`: the shortest repeated pattern of all layers.

  Args:
    banded: Whether a layer sees the last tokens alone, of each layer.
    width: The number of tokens that such a layer sees.
  """
  for length in range(1, len(banded)):
    if all(b == banded[i % length] for i, b in enumerate(banded)):
      banded = banded[:length]
      break
  return tuple(width if b else None for b in banded)


def windows_of_stack(
  kind: str, stack: nn.Module
) -> tuple[list[bool], int | None]:
  """Returns whether each layer is banded, and the width of the bands.

  Raises:
    UserError: The layers have several widths.
  """
  repeated = [
    stack.windows[layer % len(stack.windows)]
    for layer in range(stack.num_layers)
  ]
  widths = set(repeated) - {None}
  if len(widths) > 1:
    raise UserError(f"{kind} models have one window, not {stack.windows}")
  return [w is not None for w in repeated], widths.pop() if widths else None


def padding_id(config: Mapping[str, Any], default: int | None = None) -> int:
  """The id of padding: its own, else that of EOS, else 0.

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
