"""`DecodingOptions` in the words of a generation_config.json."""

from collections.abc import Callable
from typing import Any

from transformer_zoo.decoding.options import DecodingOptions
from transformer_zoo.decoding.options import GREEDY


def attributes_of(
  decoding: DecodingOptions,
  eos_id: int | None,
  report: Callable[[str], None],
) -> dict[str, Any]:
  """What `generate` of `transformers` is to do by default.

  `generation_defaults.options` reads the same options out of them.

  Args:
    decoding: how a run decodes.
    eos_id: of its vocabulary; None where that has none.
    report: called with what `transformers` has no words for.

  Returns:
    Attributes; none for greedy search without constraints.
  """
  found = {**_search(decoding, report), **_constraints(decoding, report)}
  if decoding.max_length is not None:
    found["max_new_tokens"] = decoding.max_length
  if decoding.end_ids:
    ends = decoding.end_ids if eos_id is None else decoding.ends(eos_id)
    found["eos_token_id"] = list(ends)
  if decoding.forced_end and eos_id is not None:
    found["forced_eos_token_id"] = eos_id
  return found


def _search(decoding, report) -> dict[str, Any]:
  if decoding.num_beams > 1 and decoding.beam_rules != "transformers":
    report(
      f"generation_config.json says greedy search: {decoding.num_beams} beams "
      f"by the rules {decoding.beam_rules!r} are not those of `transformers`"
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


def _constraints(decoding, report) -> dict[str, Any]:
  found = {}
  if decoding.min_length > 1:
    found["min_new_tokens"] = decoding.min_length - 1  # Without EOS.
  for name in ("no_repeat_ngram_size", "repetition_penalty"):
    if getattr(decoding, name) != getattr(GREEDY, name):
      found[name] = getattr(decoding, name)
  if decoding.forbidden_ids:
    found["bad_words_ids"] = [[i] for i in decoding.forbidden_ids]
  if len(decoding.forced_prefix) == 1:
    found["forced_bos_token_id"] = decoding.forced_prefix[0]
  elif decoding.forced_prefix:
    report(
      f"generation_config.json leaves out forced_prefix="
      f"{decoding.forced_prefix}: `transformers` forces one token"
    )
  return found
