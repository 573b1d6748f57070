"""Exchange of `DecodingOptions` with generation_config.json, both ways.

A directory without a generation_config.json says in config.json how to decode;
beside one, config.json says nothing of it, as in `transformers`.
"""

import ast
from collections.abc import Callable, Mapping, Sequence
import contextlib
import pathlib
import sys
from typing import Any

from transformer_zoo import schemas
from transformer_zoo.decoding.options import DecodingOptions
from transformer_zoo.decoding.options import GREEDY
from transformer_zoo.errors import UserError
from transformer_zoo.interop.huggingface import attributes
from transformer_zoo.interop.huggingface import directory
from transformer_zoo.interop.huggingface import family_of
from transformer_zoo.interop.huggingface import writing

_BAD_WORDS = "bad_words_ids"
# What else changes outputs, and the values with which it does not.
_NOT_BUILT = {
  "begin_suppress_tokens": (),
  "constraints": (),
  "diversity_penalty": (0.0,),
  "dola_layers": (),
  "encoder_no_repeat_ngram_size": (0,),
  "encoder_repetition_penalty": (1.0,),
  "epsilon_cutoff": (0.0,),
  "eta_cutoff": (0.0,),
  "exponential_decay_length_penalty": (),
  "force_words_ids": (),
  "forced_decoder_ids": (),
  "guidance_scale": (1.0,),
  "max_time": (),
  "num_beam_groups": (1,),
  "penalty_alpha": (0.0,),
  "sequence_bias": (),
  "stop_strings": (),
  "suppress_tokens": (),
  "top_h": (),
  "watermarking_config": (),
}
_OF_BEAMS = ("alpha", "beam_rules", "early_stopping", "renormalize")
_OF_DRAWS = ("temperature", "top_k", "top_p", "min_p", "typical_p")
# Of `transformers`, where a directory that draws tokens does not say it.
_USUAL_TOP_K = 50


def options(
  folder: pathlib.Path, *, eos_id: int | None = None, continues: bool = False
) -> dict[str, Any]:
  """Fields of `DecodingOptions` that a directory gives other values.

  Bad words of several ids, several forced last tokens, and options that are not
  built here are passed over with a sentence on stderr.

  Args:
    folder: The folder of generation_config.json or config.json; without either
      no field is returned.
    eos_id: The id of EOS in the vocabulary there, which ends outputs anyway;
      None if there is no vocabulary.
    continues: Whether outputs continue the prompt, whose tokens count in
      `min_length` of `transformers`.

  Raises:
    UserError: The file is damaged, its bad words are no ids, or an attribute
      that takes a number has another value.
  """
  path, content = _read(folder)
  if path is None:
    return {}
  found = {**_searched(path, content)}
  found["min_length"] = _min_length(path, content, continues)
  found["no_repeat_ngram_size"] = content.get("no_repeat_ngram_size") or None
  if content.get("forced_bos_token_id") is not None:
    found["forced_prefix"] = (content["forced_bos_token_id"],)
    found["forced_after_start"] = continues
  found["repetition_penalty"] = content.get("repetition_penalty") or 1.0
  found["forbidden_ids"] = _forbidden_ids(path, content)
  ends = tuple(end for end in _ends(content) if end is not None)
  if len(ends) > 1 or (eos_id is not None and {*ends} - {eos_id}):
    found["end_ids"] = ends
  last = content.get("forced_eos_token_id")
  last = last[0] if isinstance(last, list) and len(last) == 1 else last
  end = _ends(content)[0] if eos_id is None else eos_id
  if last is not None and last == end:
    found["forced_end"] = True
  elif isinstance(last, list):
    _say(f"forced_eos_token_id {last} in {str(path)!r}, as it is several")
  else:
    found["forced_last"] = last
  _say_what_is_not_built(path, content)
  return {
    name: value
    for name, value in found.items()
    if value != getattr(GREEDY, name)
  }


def instead(overrides: Sequence[str]) -> list[str]:
  """Overrides that reset the options of another search than the user's.

  A user who asks for one beam, or a temperature, of a directory or run with
  `num_beams` and `alpha` need not reset these by hand.

  Args:
    overrides: The overrides of the user, `NAME=VALUE`; the returned ones come
      before them.
  """
  given = {}
  for override in overrides:
    name, _, value = map(str.strip, override.partition("="))
    scope, _, name = name.rpartition("DecodingOptions.")
    if name in ("num_beams", "temperature") and not scope:
      # Text that is no number is refused where all is loaded.
      with contextlib.suppress(ValueError, SyntaxError):
        given[name] = ast.literal_eval(value)
  beams, temperature = given.get("num_beams"), given.get("temperature")
  other = []
  if beams == 1 or temperature:
    other += _OF_BEAMS
  if (beams == 1 and not temperature) or (beams is None and temperature == 0):
    other.append("num_return")  # Greedy search has one output.
  if temperature and beams is None:
    other.append("num_beams")
  if temperature == 0 or (beams not in (None, 1) and temperature is None):
    other += _OF_DRAWS
  return [
    f"DecodingOptions.{name}={getattr(GREEDY, name)!r}"
    for name in other
    if name not in given
  ]


def longest(folder: pathlib.Path, *, continues: bool = False) -> int | None:
  """The largest number of tokens of outputs in a directory; None without one.

  Args:
    folder: The folder of `options`.
    continues: Whether outputs continue the prompt, which `max_length` then
      counts too, so that it is not used.

  Raises:
    UserError: The file is damaged.
  """
  _, content = _read(folder)
  if content.get("max_new_tokens"):
    return content["max_new_tokens"]
  if continues:
    return None
  # What the decoder is fed first counts.
  length = content.get("max_length")
  return length - 1 if length and length > 1 else None


def start_id(folder: pathlib.Path) -> int | None:
  """The first id that a decoder beside an encoder is fed; None for padding.

  Raises:
    UserError: A file is damaged.
  """
  files = {
    directory.CONFIG: schemas.CONFIG,
    writing.GENERATION_CONFIG: schemas.GENERATION_CONFIG,
  }
  said = {
    name: schemas.read(folder / name, schema)
    for name, schema in files.items()
    if (folder / name).is_file()
  }
  starts = [content.get("decoder_start_token_id") for content in said.values()]
  start = next((i for i in reversed(starts) if i is not None), None)
  if start is None and (config := said.get(directory.CONFIG)):
    start = family_of(config).first_fed(config)
  padding = attributes.padding_id(said.get(directory.CONFIG, {}), default=0)
  return None if start == padding else start


def _read(folder: pathlib.Path) -> tuple[pathlib.Path | None, dict[str, Any]]:
  files = (folder / writing.GENERATION_CONFIG, folder / directory.CONFIG)
  path = next((file for file in files if file.is_file()), None)
  if path is None:
    return None, {}
  return path, schemas.read(path, schemas.GENERATION_CONFIG)


def _min_length(path, content: Mapping[str, Any], continues: bool) -> int:
  """The fewest tokens, EOS counted."""
  shortest = content.get("min_length") or 0
  if continues and shortest:
    _say(f"min_length={shortest} in {str(path)!r}, which counts the prompt")
    shortest = 0
  new = content.get("min_new_tokens")  # EOS is not among them.
  return max(shortest, new + 1) if new else shortest


def _searched(path, content: Mapping[str, Any]) -> dict[str, Any]:
  """The search or the draws of outputs, and the number that is returned."""
  found = _search(path, content)
  several = content.get("num_return_sequences") or 1
  if found and several > 1:
    found["num_return"] = several
  elif several > 1:
    _say(
      f"num_return_sequences={several} in {str(path)!r}, as greedy search has "
      "one output"
    )
  return found


def _search(path, content: Mapping[str, Any]) -> dict[str, Any]:
  beams = content.get("num_beams") or 1
  if beams > 1 and not content.get("do_sample"):
    penalty = content.get("length_penalty")
    return {
      "num_beams": beams,
      "beam_rules": "transformers",
      "early_stopping": content.get("early_stopping") or False,
      "alpha": None if penalty == 1.0 else penalty,
      "renormalize": bool(content.get("renormalize_logits")),
    }
  if not content.get("do_sample"):
    return {}
  temperature = content.get("temperature", 1.0)
  if temperature == 0:
    _say(f"do_sample in {str(path)!r}, for at temperature 0 nothing is drawn")
    return {}
  top_k = content.get("top_k")
  return {
    "temperature": 1.0 if temperature is None else temperature,
    "top_k": _USUAL_TOP_K if top_k is None else top_k or None,
    "top_p": _below_one(content.get("top_p")),
    "min_p": content.get("min_p") or None,
    "typical_p": _below_one(content.get("typical_p")),
  }


def _below_one(share: float | None) -> float | None:
  return share if share is not None and share < 1 else None


def _forbidden_ids(path, content) -> tuple[int, ...]:
  """Single bad words; the end of a text is never forbidden."""
  words = content.get(_BAD_WORDS) or []
  if not all(words):
    raise UserError(f"{_BAD_WORDS} in {str(path)!r} has a word without ids")
  longer = [word for word in words if len(word) > 1]
  if longer:
    _say(
      f"{len(longer)} of the {len(words)} {_BAD_WORDS} in {str(path)!r}, which "
      "are of several ids; single ones alone are forbidden here"
    )
  return tuple(
    word[0]
    for word in words
    if len(word) == 1 and word[0] not in _ends(content)
  )


def _ends(content: Mapping[str, Any]) -> list[int | None]:
  """The ids that end outputs; [None] if there are none."""
  ends = content.get("eos_token_id")
  return (ends or [None]) if isinstance(ends, list) else [ends]


def _say_what_is_not_built(path, content) -> None:
  if content.get("do_sample") and (content.get("num_beams") or 1) > 1:
    _say(f"num_beams in {str(path)!r}, where tokens are drawn (do_sample)")
  others = [
    f"{name}={content[name]!r}"
    for name, neutral in _NOT_BUILT.items()
    if content.get(name) and content[name] not in neutral
  ]
  if others:
    _say(f"{', '.join(others)} in {str(path)!r}, which decoding here has not")


def _say(what: str) -> None:
  print(f"passed over: {what}", file=sys.stderr)


def attributes_of(
  decoding: DecodingOptions,
  eos_id: int | None,
  report: Callable[[str], None],
  *,
  continues: bool = False,
) -> dict[str, Any]:
  """Attributes of a generation_config.json for the options of a run.

  `options` reads the same options from them.

  Args:
    decoding: The options of the run.
    eos_id: The id of EOS in the vocabulary of the run; None if it has none.
    report: A function that is called with a sentence on each option that
      `transformers` has no attribute for.
    continues: Whether outputs continue the prompt, behind which `transformers`
      forces no first token.

  Returns:
    The attributes by name; none for greedy search without constraints.
  """
  found = {
    **_search_attributes(decoding, report),
    **_constraint_attributes(decoding, report, continues),
  }
  if decoding.max_length is not None:
    found["max_new_tokens"] = decoding.max_length
  if decoding.end_ids:
    ends = decoding.end_ids if eos_id is None else decoding.ends(eos_id)
    found["eos_token_id"] = list(ends)
  last = eos_id if decoding.forced_end else decoding.forced_last
  if last is not None:
    found["forced_eos_token_id"] = last
  return found


def _search_attributes(decoding, report) -> dict[str, Any]:
  if decoding.num_beams > 1 and decoding.beam_rules != "transformers":
    report(
      f"generation_config.json says greedy search: {decoding.num_beams} beams "
      f"by the rules {decoding.beam_rules!r} do not exist in `transformers`"
    )
    return {}
  found = {}
  if decoding.num_return > 1:
    found["num_return_sequences"] = decoding.num_return
  if decoding.num_beams > 1:
    found["num_beams"] = decoding.num_beams
    found["early_stopping"] = decoding.early_stopping
    found["length_penalty"] = float(decoding.length_exponent)
    if decoding.renormalize:
      found["renormalize_logits"] = True
  if decoding.sampled:
    found["do_sample"] = True
    found["temperature"] = decoding.temperature
    found["top_k"] = decoding.top_k or 0  # 50 where it is left out.
    for name in ("top_p", "min_p", "typical_p"):
      if getattr(decoding, name) is not None:
        found[name] = getattr(decoding, name)
  return found


def _constraint_attributes(decoding, report, continues) -> dict[str, Any]:
  found = {}
  if decoding.min_length > 1:
    found["min_new_tokens"] = decoding.min_length - 1  # Without EOS.
  for name in ("no_repeat_ngram_size", "repetition_penalty"):
    if getattr(decoding, name) != getattr(GREEDY, name):
      found[name] = getattr(decoding, name)
  if decoding.forbidden_ids:
    found["bad_words_ids"] = [[i] for i in decoding.forbidden_ids]
  of_any_prompt = continues and not decoding.forced_after_start
  if len(decoding.forced_prefix) == 1 and not of_any_prompt:
    found["forced_bos_token_id"] = decoding.forced_prefix[0]
  elif decoding.forced_prefix:
    report(
      f"generation_config.json leaves out forced_prefix="
      f"{decoding.forced_prefix}: `transformers` forces one token, and none "
      "behind a prompt"
    )
  return found
