"""Options of decoding: one validated set."""

from collections.abc import Iterable, Sequence
import dataclasses
import math
import numbers

import gin
import numpy as np

from transformer_zoo.errors import nearest
from transformer_zoo.errors import UserError

# Rules of a beam search -> its usual exponent of the length penalty.
BEAM_RULES = {"t5x": 0.6, "transformers": 1.0}
_WHOLE = (
  *("max_length", "min_length", "num_beams", "top_k", "no_repeat_ngram_size"),
  *("num_return", "seed", "forced_last"),
)
_REAL = (
  *("alpha", "temperature", "top_p", "min_p", "typical_p"),
  "repetition_penalty",
)
_FLAGS = (
  *("renormalize", "forced_after_start", "forced_end", "start_before_prompt"),
  "skip_special_tokens",
)
_IDS = ("forbidden_ids", "end_ids", "forced_prefix")
# Beyond it penalties of outputs of 1,000 tokens leave float32.
_LARGEST_ALPHA = 10
# What logits may be divided or multiplied by, or they leave float32.
_LEAST, _MOST = 1e-30, 1e30


@gin.register
@dataclasses.dataclass(frozen=True)
class DecodingOptions:
  """Greedy search unless a temperature or several beams are given.

  Attributes:
    max_length: the most tokens that are made, EOS counted; None takes the
      length of the targets.
    min_length: the fewest, EOS counted.
    num_beams: 4 in T5's translation and summarisation (Raffel et al. 2020,
      section 3.1.3).
    alpha: exponent of the length penalty that a beam's log-probability is
      divided by; None is 0.6 by the rules `t5x`, 1 by `transformers`.
    beam_rules: `t5x` divides by ((5 + n) / 6)^alpha, n tokens with EOS, and
      searches on until no unfinished beam can enter the best; `transformers`
      divides by n^alpha, lets only the first `num_beams` candidates finish, and
      counts what reaches the largest length as finished.
    early_stopping: of the rules `transformers`: False stops where the best
      beam, were it to end now, is worse than the worst finished one; True as
      soon as `num_beams` have finished; "never" where none can get better.
    renormalize: whether a beam's tokens have the probabilities that they have
      among those that are allowed (`renormalize_logits` of `transformers`);
      otherwise what is forbidden keeps its own.
    temperature: logits are divided by it and a token is drawn; 0 draws nothing.
    top_k: draws among the k likeliest tokens.
    top_p: draws among the likeliest tokens that together have probability p
      (Holtzman et al. 2020).
    min_p: draws among the tokens of at least p times the probability of the
      likeliest (Nguyen et al. 2025).
    typical_p: as top_p, of the tokens whose information is nearest to the
      expected one (Meister et al. 2023).
    no_repeat_ngram_size: no output has an n-gram of this size twice, nor one of
      the prompt that it continues (as in `transformers`); inputs of an encoder
      do not count.
    repetition_penalty: what was read or made before is less likely: its logit,
      or of a beam its log-probability, is divided by this where positive and
      multiplied where negative (Keskar et al. 2019, section 4.1, as in
      `transformers`). Inputs of an encoder do not count.
    forbidden_ids: never made, as the padding of Marian, which its published
      configurations list as `bad_words_ids`.
    end_ids: what ends an output besides EOS: chat models list several
      (`eos_token_id` of `transformers`).
    forced_prefix: ids that every output begins with; they cost nothing.
    forced_after_start: whether `forced_prefix` comes only where one token was
      read before, not a longer prompt (`forced_bos_token_id` of `transformers`
      for a language model).
    forced_end: whether the last token that there is room for is EOS, which then
      costs nothing (`forced_eos_token_id` of `transformers`).
    forced_last: The id of that last token if it is another one; None if it is
      EOS or free.
    start_before_prompt: whether a decoder-only model reads the token that its
      training sequences begin with before a prompt; False as `transformers`
      uses GPT.
    skip_special_tokens: Whether special tokens are left out of the text that is
      written, the unknown piece, masks and sentinels too, as `batch_decode` of
      `transformers` does; True for directories of others. False leaves out
      what pads, begins and ends a text.
    num_return: outputs per input, best first; drawn ones as they were drawn.
    seed: draws depend on it, the example's number and the position alone.
  """

  max_length: int | None = None
  min_length: int = 0
  num_beams: int = 1
  alpha: float | None = None
  beam_rules: str = "t5x"
  early_stopping: bool | str = False
  renormalize: bool = False
  temperature: float = 0.0
  top_k: int | None = None
  top_p: float | None = None
  min_p: float | None = None
  typical_p: float | None = None
  no_repeat_ngram_size: int | None = None
  repetition_penalty: float = 1.0
  forbidden_ids: Sequence[int] = ()
  end_ids: Sequence[int] = ()
  forced_prefix: Sequence[int] = ()
  forced_after_start: bool = False
  forced_end: bool = False
  forced_last: int | None = None
  start_before_prompt: bool = True
  skip_special_tokens: bool = False
  num_return: int = 1
  seed: int = 0

  def __post_init__(self):
    self._check_kinds()
    for name in _IDS:
      object.__setattr__(self, name, tuple(getattr(self, name)))
    for name in ("max_length", "num_beams", "top_k", "no_repeat_ngram_size",
                 "num_return"):  # fmt: skip
      value = getattr(self, name)
      if value is not None and value < 1:
        raise UserError(f"{name}={value}; it has to be at least 1")
    for name in ("min_length", "temperature"):
      if getattr(self, name) < 0:
        raise UserError(
          f"{name}={getattr(self, name)}; it has to be at least 0"
        )
    if self.sampled and not _LEAST <= self.temperature <= _MOST:
      raise UserError(
        f"temperature={self.temperature}; it has to be 0, which draws nothing, "
        f"or from {_LEAST} to {_MOST}"
      )
    for name in ("top_p", "min_p", "typical_p"):
      value = getattr(self, name)
      if value is not None and not 0 < value <= 1:
        raise UserError(f"{name}={value}; it has to be above 0 and at most 1")
    if not _LEAST <= self.repetition_penalty <= _MOST:
      raise UserError(
        f"repetition_penalty={self.repetition_penalty}; it has to be from "
        f"{_LEAST} to {_MOST}, and 1 changes nothing"
      )
    if self.forced_end and self.forced_last is not None:
      raise UserError(
        f"forced_end=True and forced_last={self.forced_last} both say what the "
        "last token is; leave one of them out"
      )
    self._check_beams()
    self._check_draws()
    if self.max_length is not None:
      self._check_lengths(self.max_length)

  @property
  def sampled(self) -> bool:
    """Whether tokens are drawn."""
    return self.temperature > 0

  @property
  def length_exponent(self) -> float:
    """`alpha`, or what is usual."""
    return BEAM_RULES[self.beam_rules] if self.alpha is None else self.alpha

  def with_length(self, length: int) -> "DecodingOptions":
    """These options with a `max_length`: `length` where they have none.

    Raises:
      UserError: the smallest length or the forced prefix exceeds it.
    """
    return dataclasses.replace(self, max_length=self.max_length or length)

  def limits(self, target_lengths_B: np.ndarray) -> np.ndarray:
    """The most tokens of each output: as many as there is room for.

    Args:
      target_lengths_B: tokens of the targets that outputs are compared with.
    """
    return np.full_like(target_lengths_B, np.iinfo(np.int32).max)

  def ends(self, eos_id: int) -> tuple[int, ...]:
    """All ids that end an output, EOS first."""
    return (eos_id, *(i for i in self.end_ids if i != eos_id))

  def before_end(self, ids: Sequence[int]) -> Sequence[int]:
    """Returns the ids of an output before the first of its `end_ids`."""
    places = (n for n, i in enumerate(ids) if i in self.end_ids)
    return ids[: next(places, len(ids))]

  def check_prefix(self, length: int) -> None:
    """Checks the forced prefixes of examples.

    Args:
      length: ids of the longest.

    Raises:
      UserError: with `forced_prefix` it exceeds the largest length.
    """
    forced = len(self.forced_prefix) + length
    if forced > self.max_length:
      raise UserError(
        f"an output is to begin with {forced} ids, more than the largest "
        f"length, {self.max_length}; shorten its prefix or raise max_length"
      )

  def _check_kinds(self):
    for names, kind, called in (
      (_WHOLE, numbers.Integral, "a whole number"),
      (_REAL, numbers.Real, "a finite number"),
      (_FLAGS, (bool, np.bool_), "True or False"),
    ):
      for name in names:
        value = getattr(self, name)
        if value is None and getattr(type(self), name) is None:
          continue
        if not isinstance(value, kind) or not math.isfinite(value):
          raise UserError(f"{name}={value!r}; it has to be {called}")
    for name in _IDS:
      value = getattr(self, name)
      if not isinstance(value, Iterable) or not all(
        isinstance(each, numbers.Integral) for each in value
      ):
        raise UserError(f"{name}={value!r}; it has to be a list of ids")
    if not -(2**63) <= self.seed < 2**63:
      raise UserError(f"seed={self.seed}; it has to fit in 64 bits")

  def _check_beams(self):
    if self.beam_rules not in tuple(BEAM_RULES):
      raise UserError(
        f"there are no beam_rules {self.beam_rules!r}"
        + nearest(str(self.beam_rules), BEAM_RULES)
      )
    if self.early_stopping not in (False, True, "never"):
      raise UserError(
        f"early_stopping={self.early_stopping!r}; allowed: False, True, 'never'"
      )
    if self.early_stopping is not False and self.beam_rules != "transformers":
      raise UserError(
        "early_stopping belongs to beam_rules='transformers'; the rules "
        "'t5x' stop where no beam can get better"
      )
    if self.renormalize and self.num_beams == 1:
      raise UserError(
        "renormalize changes how beams compare, but num_beams is 1; set "
        "num_beams or leave renormalize out"
      )
    if self.num_beams == 1:
      if self.alpha is not None:
        raise UserError(
          f"alpha={self.alpha} is a length penalty among beams, but num_beams "
          "is 1; set num_beams or leave alpha out"
        )
      return
    if abs(self.length_exponent) > _LARGEST_ALPHA:
      raise UserError(
        f"alpha={self.alpha}; it has to be from {-_LARGEST_ALPHA} to "
        f"{_LARGEST_ALPHA}"
      )
    if self.sampled:
      raise UserError(
        f"temperature={self.temperature} with num_beams={self.num_beams}: a "
        "beam search draws no tokens; leave one of the two out"
      )
    if self.num_return > self.num_beams:
      raise UserError(
        f"num_return={self.num_return} is more than num_beams="
        f"{self.num_beams}; a beam search has as many outputs as beams"
      )

  def _check_draws(self):
    if self.sampled:
      return
    for name in ("top_k", "top_p", "min_p", "typical_p"):
      value = getattr(self, name)
      if value is not None:
        raise UserError(
          f"{name}={value} limits what is drawn, but nothing is drawn; set a "
          "temperature (1.0 leaves the model's distribution) or leave it out"
        )
    if self.num_beams == 1 and self.num_return > 1:
      raise UserError(
        f"num_return={self.num_return}, but greedy search has one output; set "
        "a temperature or num_beams"
      )

  def _check_lengths(self, max_length):
    if self.min_length > max_length:
      raise UserError(
        f"min_length={self.min_length} is more than the largest length, "
        f"{max_length}"
      )
    if len(self.forced_prefix) > max_length:
      raise UserError(
        f"forced_prefix has {len(self.forced_prefix)} ids, more than the "
        f"largest length, {max_length}"
      )
    outputs = max(self.num_beams, self.num_return)
    if outputs * max_length >= 2**31:
      raise UserError(
        f"num_beams={self.num_beams}, num_return={self.num_return} and the "
        f"largest length, {max_length}: outputs times length has to be below "
        "2**31; choose smaller ones"
      )


GREEDY = DecodingOptions()
