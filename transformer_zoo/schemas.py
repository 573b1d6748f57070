"""Schemas of JSON files, which are checked before anything reads a field.

A schema is a table {name: kind}; names that it lacks may have any value. A kind
is `bool`, `int`, `float` (any number), `str`, `list` or `dict`; None for null;
a text or a `range` for itself or one of its numbers; `[kind]` for a list of
one kind; a table of fields, where the name `str` stands for all other names;
`Required(kind)` for a field that may not be absent; or a tuple of alternatives.
"""

from collections.abc import Mapping
import dataclasses
import json
import os
from typing import Any

from transformer_zoo.errors import UserError


@dataclasses.dataclass(frozen=True)
class Required:
  """The kind of a field that has to be there."""

  kind: Any


Schema = Mapping[str, Any]

# The largest index of an array on a device.
LARGEST = 2**31 - 1
_LARGEST_FLOAT = float.fromhex("0x1.fffffep+127")  # Of float32.
_ID = range(LARGEST + 1)
# Some configurations have -1 for no id.
_ID_OR_NONE = (range(-1, LARGEST + 1), None)
_SIZE = (range(1, LARGEST + 1), None)
_SWITCH = (bool, None)
_TEXT = (str, None)
_NUMBER = (int, None)
_REAL = (float, None)
_ADDED_TOKEN = {
  "content": Required(str),
  "lstrip": _SWITCH,
  "normalized": _SWITCH,
  "rstrip": _SWITCH,
  "single_word": _SWITCH,
  "special": _SWITCH,
}
_PIECE = (str, _ADDED_TOKEN, None)

# config.json, whatever the family; the family's own attributes are in its
# `attributes.Attributes`.
CONFIG = {
  "architectures": ([str], None),
  "decoder_start_token_id": (_ID, None),
  "eos_token_id": (*_ID_OR_NONE, [_ID]),
  "id2label": (dict, None),
  "is_encoder_decoder": _SWITCH,
  "model_type": _TEXT,
  "num_labels": _SIZE,
  "_num_labels": _SIZE,
  "pad_token_id": _ID_OR_NONE,
  "tokenizer_class": _TEXT,
  "vocab_size": (_ID, None),
}
GENERATION_CONFIG = {
  "bad_words_ids": ([[_ID]], None),
  "decoder_start_token_id": (_ID, None),
  "do_sample": _SWITCH,
  "early_stopping": (bool, "never", None),
  "eos_token_id": (*_ID_OR_NONE, [_ID]),
  "forced_bos_token_id": _ID_OR_NONE,
  "forced_eos_token_id": (*_ID_OR_NONE, [_ID]),
  "length_penalty": _REAL,
  "max_length": _NUMBER,
  "max_new_tokens": _NUMBER,
  "min_length": _NUMBER,
  "min_new_tokens": _NUMBER,
  "min_p": _REAL,
  "no_repeat_ngram_size": _NUMBER,
  "num_beams": _NUMBER,
  "num_return_sequences": _NUMBER,
  "renormalize_logits": _SWITCH,
  "repetition_penalty": _REAL,
  "temperature": _REAL,
  "top_k": _NUMBER,
  "top_p": _REAL,
  "typical_p": _REAL,
}
SPECIAL_TOKENS_MAP = {
  "additional_special_tokens": ([_PIECE], None),
  "bos_token": _PIECE,
  "cls_token": _PIECE,
  "eos_token": _PIECE,
  "mask_token": _PIECE,
  "pad_token": _PIECE,
  "sep_token": _PIECE,
  "unk_token": _PIECE,
}
TOKENIZER_CONFIG = {
  **SPECIAL_TOKENS_MAP,
  "add_bos_token": _SWITCH,
  "add_eos_token": _SWITCH,
  "add_prefix_space": _SWITCH,
  "added_tokens_decoder": ({str: _ADDED_TOKEN}, None),
  "clean_text": _SWITCH,
  "do_lower_case": _SWITCH,
  "extra_ids": (_ID, None),
  "extra_special_tokens": ([_PIECE], {str: _PIECE}, None),
  "keep_accents": _SWITCH,
  "legacy": _SWITCH,
  "mask_token_sent": _TEXT,
  "model_specific_special_tokens": ({str: _PIECE}, None),
  "offset": (_ID, None),
  "split_by_punct": _SWITCH,
  "split_special_tokens": _SWITCH,
  "src_lang": _TEXT,
  "strip_accents": _SWITCH,
  "tokenize_chinese_chars": _SWITCH,
  "tokenizer_class": _TEXT,
}
# adapter_config.json of `peft` and of `adapters`, which differ in peft_type.
ADAPTER_CONFIG = {
  "base_model_name_or_path": _TEXT,
  "config": ({"non_linearity": _TEXT, "architecture": _TEXT}, None),
  "lora_alpha": _REAL,
  "lora_dropout": _REAL,
  "model_name": _TEXT,
  "num_layers": _SIZE,
  "num_transformer_submodules": _NUMBER,
  "num_virtual_tokens": _SIZE,
  "peft_type": _TEXT,
  "r": _SIZE,
}
# The `tokenizers` library checks the rest of a tokenizer.json.
TOKENIZER = {
  "added_tokens": (
    [
      {
        "content": Required(str),
        "id": Required(_ID),
        "special": _SWITCH,
      }
    ],
    None,
  ),
  "model": {"vocab": (dict, list, None)},
}
# vocab.json and added_tokens.json.
IDS = {str: _ID}
SHARDS_INDEX = {"weight_map": Required({str: str})}


def read(path: str | os.PathLike[str], schema: Schema) -> dict[str, Any]:
  """Reads a JSON file that holds a table.

  Args:
    path: The path of the file.
    schema: The schema of the table.

  Raises:
    UserError: There is no such file, it is damaged, or a value in it is not of
      its kind.
  """
  path = os.fspath(path)
  try:
    with open(path, "rb") as file:
      text = file.read()
  except OSError as error:
    raise UserError(f"cannot read {path!r} ({error.strerror})") from error
  return parsed(text, schema, repr(path))


def parsed(text: str | bytes, schema: Schema, where: str) -> dict[str, Any]:
  """Reads a JSON text that holds a table, as `read` does a file.

  Args:
    text: The text, in UTF-8 if it is bytes.
    schema: The schema of the table.
    where: What the text is, for the sentence: "line 3 of 'a.jsonl'".
  """
  try:
    content = json.loads(text if isinstance(text, str) else text.decode())
  except RecursionError:
    raise UserError(
      f"{where} is no JSON object: its lists and tables are nested too deeply"
    ) from None
  except ValueError as error:
    raise UserError(f"{where} is no JSON ({error})") from error
  if not isinstance(content, dict):
    raise UserError(f"{where} is no JSON object, a table of names and values")
  check(content, schema, where)
  return content


def check(content: Mapping[str, Any], schema: Schema, where: str) -> None:
  """Refuses a table with a value that is not of its kind.

  Args:
    content: The table.
    schema: Its schema.
    where: What the table is, for the sentence: "'a/config.json'".

  Raises:
    UserError: The first such value, by its name.
  """
  _check_table(content, schema, where, "")


def fits(value: Any, kind: Any) -> bool:
  """Whether a value is of a kind; fields of tables are not looked at."""
  if isinstance(kind, tuple):
    return any(fits(value, one) for one in kind)
  if kind is None or isinstance(kind, str):
    return value == kind
  if kind in (int, float):
    is_number = isinstance(value, (int, float) if kind is float else int)
    return is_number and _is_finite(value)
  if isinstance(kind, range):
    return isinstance(value, int) and _is_finite(value) and value in kind
  kinds = {Mapping: dict, list: list}
  of = next((k for t, k in kinds.items() if isinstance(kind, t)), kind)
  return isinstance(value, of)


def described(kind: Any) -> str:
  """Returns the words for a kind: "a whole number or null"."""
  if isinstance(kind, tuple):
    return " or ".join(dict.fromkeys(map(described, kind)))
  if kind is None:
    return "null"
  if isinstance(kind, str):
    return repr(kind)
  if isinstance(kind, range):
    return f"a whole number from {kind.start} to {kind.stop - 1}"
  if isinstance(kind, list):
    return "a list"
  return "a table" if isinstance(kind, Mapping) else _NAMES[kind]


def shown(value: Any) -> str:
  """Returns a value as a sentence shows it, without the end of a long one."""
  text = repr(value)
  return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


_NAMES = {
  bool: "true or false",
  dict: "a table",
  float: "a number",
  int: "a whole number",
  list: "a list",
  str: "a text",
}
# The characters of a value that a sentence shows.
_SHOWN = 200


def _is_finite(value: Any) -> bool:
  return not isinstance(value, bool) and abs(value) <= _LARGEST_FLOAT


def _check_table(content, schema, where, place) -> None:
  dot = f"{place}." if place else ""
  for name, kind in schema.items():
    if isinstance(kind, Required):
      kind = kind.kind
      if name not in content:
        raise UserError(f"{where} lacks {dot}{name}; it is {described(kind)}")
    if name is str:
      for other, value in content.items():
        if other not in schema:
          _check_value(value, kind, where, f"{dot}{other}")
    elif name in content:
      _check_value(content[name], kind, where, f"{dot}{name}")


def _check_value(value, kind, where, place) -> None:
  kinds = kind if isinstance(kind, tuple) else (kind,)
  found = [one for one in kinds if fits(value, one)]
  if not found:
    raise UserError(
      f"{where} has {place}={shown(value)}; it takes {described(kind)}"
    )
  if isinstance(found[0], Mapping):
    _check_table(value, found[0], where, place)
  elif isinstance(found[0], list):
    for index, one in enumerate(value):
      _check_value(one, found[0][0], where, f"{place}[{index}]")
