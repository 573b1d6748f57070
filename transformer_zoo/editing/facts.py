"""Facts as a user states them, and the rows of tokens that a model reads."""

from collections.abc import Iterable, Mapping, Sequence
import dataclasses
import pathlib
from typing import Any

import numpy as np

from transformer_zoo import schemas
from transformer_zoo.data.vocabularies import Vocabulary
from transformer_zoo.errors import UserError

GAP = "{}"
_NARROWEST = 16
_REQUIRED = ("prompt", "subject", "target")
_TEXTS = ("paraphrases", "neighbours", "kept", "generations", "references")
_PAIRS = ("essence", "elsewhere")
_SCHEMA = {
  **dict.fromkeys((*_REQUIRED, "true_target"), str),
  **dict.fromkeys(_TEXTS, [str]),
  **dict.fromkeys(_PAIRS, [[str]]),
}


@dataclasses.dataclass(frozen=True)
class Fact:
  """One fact, in the words of Meng et al. 2022.

  Attributes:
    prompt: The words before the object, `{}` for the subject: "{} works in".
    subject: The subject; its last token is where a model looks the fact up.
    target: The object that the model is to name; a space precedes it.
    true_target: The object that the model names before, or "".
    paraphrases: Whole prompts of the same fact in other words.
    neighbours: Whole prompts of other subjects, whose object is the true one.
    essence: Whole prompts about the subject that other facts answer, with their
      answers; they are to stay.
    kept: Whole prompts about the subject of which ROME is to keep what the
      model says after them, beyond the published algorithm.
    elsewhere: Whole prompts about other things, with their answers, which are
      to stay.
    generations: Whole prompts that the model continues by a text, which is to
      be fluent and consistent with the new fact.
    references: Texts that such a text is compared with, about subjects of which
      the new object is true.
  """

  prompt: str
  subject: str
  target: str
  true_target: str = ""
  paraphrases: tuple[str, ...] = ()
  neighbours: tuple[str, ...] = ()
  essence: tuple[tuple[str, str], ...] = ()
  kept: tuple[str, ...] = ()
  elsewhere: tuple[tuple[str, str], ...] = ()
  generations: tuple[str, ...] = ()
  references: tuple[str, ...] = ()

  def __post_init__(self):
    for name in _REQUIRED:
      value = getattr(self, name)
      if not isinstance(value, str) or not value.strip():
        raise UserError(
          f"the {name} of a fact is {value!r}; give it a text that is not empty"
        )
    if self.prompt.count(GAP) != 1:
      raise UserError(
        f"the prompt {self.prompt!r} has no place for the subject "
        f"{self.subject!r}; write it once as {GAP}"
      )
    for text in self.kept:
      self.with_gap(text)

  @property
  def question(self) -> str:
    """The prompt with its subject."""
    return self.prompt.replace(GAP, self.subject)

  def with_gap(self, text: str) -> str:
    """Returns a text with `{}` in the place of the subject.

    Raises:
      UserError: The subject does not stand in it exactly once.
    """
    return _with_gap(text, self.subject)


def of_words(prompt: str, subject: str, target: str) -> Fact:
  """Makes a fact of a prompt that names its subject, or has `{}` for it.

  Raises:
    UserError: The subject does not stand in the prompt exactly once.
  """
  if GAP not in prompt and subject:
    prompt = _with_gap(prompt, subject)
  return Fact(prompt, subject, target)


def _with_gap(text: str, subject: str) -> str:
  count = text.count(subject)
  if count != 1:
    found = f"{count} times" if count else "nowhere"
    raise UserError(
      f"the subject {subject!r} stands {found} in the prompt {text!r}; "
      f"name words that stand there once, or write {GAP} in their place"
    )
  return text.replace(subject, GAP)


def read(path: str) -> list[Fact]:
  """Reads facts of a .jsonl file, an object with the fields of `Fact` a line.

  Raises:
    UserError: A line is no such object.
  """
  facts = []
  fields = {field.name for field in dataclasses.fields(Fact)}
  lines = pathlib.Path(path).read_text(encoding="utf-8").splitlines()
  for number, line in enumerate(lines, 1):
    if not line.strip():
      continue
    where = f"line {number} of {path!r}"
    content = schemas.parsed(line, _SCHEMA, where)
    missing = [name for name in _REQUIRED if name not in content]
    if set(content) - fields or missing:
      raise UserError(
        f"{where} has {', '.join(content) or 'nothing'}; a "
        f"fact has {', '.join(_REQUIRED)} and perhaps "
        f"{', '.join(sorted(fields - set(_REQUIRED)))}"
      )
    lists = {
      name: tuple(map(_as_tuple, content[name]))
      for name in (*_TEXTS, *_PAIRS)
      if name in content
    }
    facts.append(Fact(**{**content, **lists}))
  return facts


@dataclasses.dataclass(frozen=True)
class Rows:
  """Texts laid out for a model.

  Attributes:
    batch: SeqIO's features, [B, L] each.
    places_B: The place of the last token of each subject among what the decoder
      reads; -1 where no subject was named.
    first_B: The first place among what the decoder reads that belongs to the
      subject; -1 as above.
    weights_BL: 1 where a token of the target is predicted.
    last_B: The place that predicts the first token of the target, the last one
      of the text if there is none.
    lengths_B: The number of tokens in a row, the target included.
  """

  batch: Mapping[str, np.ndarray]
  places_B: np.ndarray
  first_B: np.ndarray
  weights_BL: np.ndarray
  last_B: np.ndarray
  lengths_B: np.ndarray


@dataclasses.dataclass(frozen=True)
class Reader:
  """The ids by which a model reads a text that it continues.

  Attributes:
    vocabulary: The vocabulary.
    start_id: The id that the decoder reads first; None for a model that was
      trained without one (GPT-2).
    encoder_text: What the encoder reads beside; None without an encoder.
  """

  vocabulary: Vocabulary
  start_id: int | None = None
  encoder_text: str | None = None

  def rows(
    self,
    texts: Sequence[str],
    targets: Sequence[str] | None = None,
    subjects: Sequence[tuple[int, int] | None] | None = None,
    *,
    width: int | None = None,
  ) -> Rows:
    """Lays texts out, each followed by its target.

    Args:
      texts: The texts.
      targets: The continuation of each, without the space before it; "" or None
        for nothing.
      subjects: The first character of a subject in its text, and the one after
        its last.
      width: The number of tokens of a row; the least power of two if None.

    Raises:
      UserError: A text has no token, is longer than `width`, or its tokens
        change with what follows.
    """
    targets = targets or [""] * len(texts)
    subjects = subjects or [None] * len(texts)
    encoded = [
      self._encoded(*each)
      for each in zip(texts, targets, subjects, strict=True)
    ]
    shift = 0 if self.start_id is None else 1
    longest = max(len(ids) for ids, _, _ in encoded) + shift
    if width is None:
      width = max(_NARROWEST, 1 << (longest - 1).bit_length())
    if longest > width:
      raise UserError(
        f"a text has {longest} tokens, more than the {width} of a row; shorten "
        "it"
      )
    pad_id = self.vocabulary.pad_id
    read_BL = np.full((len(texts), width), pad_id, np.int32)
    predicted_BL = np.full((len(texts), width), pad_id, np.int32)
    weights_BL = np.zeros((len(texts), width), np.float32)
    first_B, places_B, last_B, lengths_B = np.full((4, len(texts)), -1)
    for row, (ids, before, span) in enumerate(encoded):
      if shift:
        read_BL[row, 0] = self.start_id
      read_BL[row, shift : shift + len(ids)] = ids
      first = 1 - shift
      # A decoder hides what it reads before padding; nothing reads the last.
      said = [*ids[first:], ids[-1]]
      predicted_BL[row, : len(said)] = said
      last_B[row] = before + shift - 1
      weights_BL[row, last_B[row] : last_B[row] + len(ids) - before] = 1
      lengths_B[row] = len(ids) + shift
      if span is not None:
        first_B[row], places_B[row] = span[0] + shift, span[1] + shift - 1
    batch = {
      "decoder_input_tokens": read_BL,
      "decoder_target_tokens": predicted_BL,
      "decoder_loss_weights": weights_BL,
    }
    if self.encoder_text is not None:
      ids = self.vocabulary.encode_prompt(self.encoder_text)
      if self.vocabulary.eos_id is not None:
        ids = [*ids, self.vocabulary.eos_id]
      batch["encoder_input_tokens"] = np.tile(
        np.array(ids, np.int32), (len(texts), 1)
      )
    return Rows(batch, places_B, first_B, weights_BL, last_B, lengths_B)

  def of_facts(
    self, facts: Iterable[tuple[str, str, str]], *, width: int | None = None
  ) -> Rows:
    """Lays out prompts with `{}`, their subjects and their targets."""
    texts, targets, spans = [], [], []
    for prompt, subject, target in facts:
      start = prompt.index(GAP)
      texts.append(prompt.replace(GAP, subject))
      targets.append(target)
      spans.append((start, start + len(subject)))
    return self.rows(texts, targets, spans, width=width)

  def _encoded(self, text, target, span):
    """The ids, how many are of the text, and which are of the subject."""
    whole = f"{text} {target}" if target else text
    ids = self.vocabulary.encode(whole)
    before = self._count(ids, text, whole)
    if before == 0 and self.start_id is None:
      raise UserError(
        f"the text {text!r} has no token, and the model reads no start token; "
        "begin with a word"
      )
    if span is not None:
      start, stop = span
      span = (
        self._count(ids, text[:start].rstrip(), whole),
        self._count(ids, text[:stop], whole),
      )
    return ids, before, span

  def _count(self, ids: Sequence[int], part: str, whole: str) -> int:
    """The number of tokens of a text that begins another one."""
    known = self.vocabulary.encode(part) if part else []
    if list(ids[: len(known)]) != list(known):
      raise UserError(
        f"the vocabulary reads {part!r} otherwise where {whole!r} goes on; end "
        "subject and prompt at the end of a word"
      )
    return len(known)


def _as_tuple(value: Any) -> Any:
  return tuple(value) if isinstance(value, list) else value
