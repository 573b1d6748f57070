"""A trainer for each kind of vocabulary, which writes the files of its kind."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
import dataclasses
import io
import itertools
import json
import pathlib
import re

from transformer_zoo.data.vocabularies.training import bpe
from transformer_zoo.errors import UserError

# The special pieces of each kind, in the order of their ids, by the model that
# has them; the first is the default. Those behind "..." get the last ids.
SPECIAL_TOKENS = {
  "unigram": {
    "t5": ["<pad>", "</s>", "<unk>"],
    "albert": ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"],
  },
  "wordpiece": {"bert": ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]},
  "byte_bpe": {
    "roberta": ["<s>", "<pad>", "</s>", "<unk>", "...", "<mask>"],
    "gpt2": ["...", "<|endoftext|>"],
  },
}
SPECIAL_TOKENS["bpe"] = SPECIAL_TOKENS["unigram"]
KINDS = ("unigram", "bpe", "wordpiece", "byte_bpe")
_THREADS = 16  # part of the result: sums over threads are in their order
_LONGEST_LINE = 1 << 14  # bytes; SentencePiece passes over longer ones
_LONGEST_WORD = 100  # characters; WordPiece reads longer ones as unknown
_CONTINUES = "##"
# SentencePiece's names for the pieces that it treats apart.
_ROLES = {
  "pad_id": "<pad>",
  "eos_id": "</s>",
  "unk_id": "<unk>",
  "bos_id": "<s>",
}


@dataclasses.dataclass(frozen=True)
class Settings:
  """The settings of a vocabulary to be learned.

  Attributes:
    kind: one of `KINDS`; 'unigram' and 'bpe' are SentencePiece models.
    size: pieces, the special ones included, sentinels not.
    special_tokens: The family of special pieces, a key of `SPECIAL_TOKENS`.
    character_coverage: the share of the text's characters that are pieces; the
      rest is unknown. Nothing is unknown to 'byte_bpe'.
    byte_fallback: True to spell characters unknown to a SentencePiece model in
      bytes.
    lower_case: text is read without case; 'byte_bpe' cannot.
  """

  kind: str
  size: int
  special_tokens: str
  character_coverage: float = 0.9995
  byte_fallback: bool = False
  lower_case: bool = False

  @property
  def special(self) -> list[str]:
    """The special pieces."""
    return SPECIAL_TOKENS[self.kind][self.special_tokens]


def train(
  lines: Sequence[str], settings: Settings, folder: pathlib.Path
) -> None:
  """Learns a vocabulary and writes its files into `folder`.

  Args:
    lines: The lines of text; their order decides between equally frequent
      pairs.
    settings: The settings of the vocabulary.
    folder: gets sentencepiece.model, or vocab.txt with tokenizer_config.json,
      or vocab.json with merges.txt.

  Raises:
    UserError: the text does not allow a vocabulary of that size.
  """
  if settings.kind == "wordpiece":
    _train_wordpiece(lines, settings, folder)
  elif settings.kind == "byte_bpe":
    _train_byte_bpe(lines, settings, folder)
  else:
    _train_sentencepiece(lines, settings, folder)


def _train_sentencepiece(
  lines: Sequence[str], settings: Settings, folder: pathlib.Path
) -> None:
  import sentencepiece  # slow to import

  special = settings.special
  ids = {
    role: special.index(piece) if piece in special else -1
    for role, piece in _ROLES.items()
  }
  model = io.BytesIO()
  try:
    sentencepiece.SentencePieceTrainer.Train(
      sentence_iterator=iter(lines),
      model_writer=model,
      model_type=settings.kind,
      vocab_size=settings.size,
      character_coverage=settings.character_coverage,
      byte_fallback=settings.byte_fallback,
      normalization_rule_name=(
        "nmt_nfkc_cf" if settings.lower_case else "nmt_nfkc"
      ),
      control_symbols=[piece for piece in special if piece.startswith("[")],
      max_sentence_length=_LONGEST_LINE,
      num_threads=_THREADS,
      minloglevel=2,
      **ids,
    )
  except (RuntimeError, OSError) as error:  # the library raises plain ones
    raise UserError(_reason(str(error), settings.size)) from None
  (folder / "sentencepiece.model").write_bytes(model.getvalue())


def _reason(message: str, size: int) -> str:
  """Says in a sentence what SentencePiece found wrong."""
  if most := re.search(r"size too high.*<= (\d+)", message):
    return _too_large(size, int(most[1]))
  if least := re.search(
    r"smaller than required_chars\. *\d+ vs (\d+)", message
  ):
    return _too_small(size, int(least[1]))
  return (
    f"SentencePiece cannot learn a vocabulary of {size:,} pieces: {message}"
  )


def _train_wordpiece(
  lines: Sequence[str], settings: Settings, folder: pathlib.Path
) -> None:
  from tokenizers import normalizers
  from tokenizers import pre_tokenizers

  normalizer = normalizers.BertNormalizer(lowercase=settings.lower_case)
  splitter = pre_tokenizers.BertPreTokenizer()
  words = _count_words(
    lines,
    lambda line: splitter.pre_tokenize_str(normalizer.normalize_str(line)),
  )
  alphabet = _alphabet(words, settings.character_coverage)
  words = {
    (word[0], *(_CONTINUES + character for character in word[1:])): count
    for word, count in words.items()
    if len(word) <= _LONGEST_WORD and alphabet.issuperset(word)
  }
  letters = sorted({piece for word in words for piece in word})
  pieces, _ = _learn(
    words,
    [*settings.special, *letters],
    settings.size,
    lambda first, second: first + second.removeprefix(_CONTINUES),
  )
  _write_lines(folder / "vocab.txt", pieces)
  config = {"do_lower_case": settings.lower_case}
  (folder / "tokenizer_config.json").write_text(json.dumps(config) + "\n")


def _train_byte_bpe(
  lines: Sequence[str], settings: Settings, folder: pathlib.Path
) -> None:
  from tokenizers import pre_tokenizers

  splitter = pre_tokenizers.ByteLevel(add_prefix_space=False)
  words = _count_words(lines, splitter.pre_tokenize_str)
  gap = settings.special.index("...")
  before, after = settings.special[:gap], settings.special[gap + 1 :]
  pieces, merges = _learn(
    words, [*before, *sorted(splitter.alphabet())], settings.size, after=after
  )
  ids = {piece: i for i, piece in enumerate(pieces)}
  text = json.dumps(ids, ensure_ascii=False)
  (folder / "vocab.json").write_text(text + "\n", encoding="utf-8")
  _write_lines(folder / "merges.txt", ["#version: 0.2", *map(" ".join, merges)])


def _learn(
  words: dict[Sequence[str], int],
  first_pieces: list[str],
  size: int,
  join: Callable[[str, str], str] = str.__add__,
  after: Sequence[str] = (),
) -> tuple[list[str], list[bpe.Pair]]:
  """Returns `size` pieces, the last ones `after`, and the merges to them."""
  pieces = dict.fromkeys(first_pieces)
  if size < len(pieces) + len(after):
    raise UserError(_too_small(size, len(pieces) + len(after)))
  merges = []
  learned = bpe.learn(words, join=join)
  while len(pieces) + len(after) < size:
    pair, piece = next(learned, (None, None))
    if pair is None:
      raise UserError(_too_large(size, len(pieces) + len(after)))
    pieces[piece] = None  # two merges may make one piece
    merges.append(pair)
  return [*pieces, *after], merges


def _count_words(
  lines: Iterable[str], split: Callable[[str], list[tuple[str, tuple]]]
) -> Counter[str]:
  words = Counter()
  for line in lines:
    words.update([word for word, _ in split(line)])
  return words


def _alphabet(words: Counter[str], coverage: float) -> set[str]:
  """Returns the most frequent characters, which make up `coverage` of all."""
  characters = Counter()
  for word, count in words.items():
    for character in word:
      characters[character] += count
  ordered = characters.most_common()
  sums = itertools.accumulate((count for _, count in ordered), initial=0)
  enough = coverage * characters.total()
  pairs = zip(ordered, sums, strict=False)
  return {character for (character, _), before in pairs if before < enough}


def _write_lines(path: pathlib.Path, lines: Iterable[str]) -> None:
  path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _too_large(size: int, most: int) -> str:
  return (
    f"the text allows a vocabulary of at most {most:,} pieces, not {size:,}; "
    "use a smaller --size or more text"
  )


def _too_small(size: int, least: int) -> str:
  return (
    f"a vocabulary of {size:,} pieces is too small for the characters of the "
    f"text and the special pieces; use a --size of at least {least:,}, or a "
    "lower --character_coverage"
  )
