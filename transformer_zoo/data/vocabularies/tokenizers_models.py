"""WordPiece, byte-level BPE and tokenizer.json, by the `tokenizers` library.

Special pieces that are written out in a text ("[SEP]", "<|endoftext|>") are
text like any other, so that no document can end itself; sentinels are read, as
SeqIO reads them. In a prompt, which a user writes, all of them are read.
"""

from collections.abc import Iterator, Sequence
import contextlib
import functools
import json
import os
from typing import Any, TYPE_CHECKING

import numpy as np

from transformer_zoo import schemas
from transformer_zoo.data.vocabularies import files
from transformer_zoo.data.vocabularies import llama_prompts
from transformer_zoo.data.vocabularies import tokenizer as tokenizer_lib
from transformer_zoo.errors import UserError

if TYPE_CHECKING:
  import tokenizers

# google-research/bert, tokenization.py: longer words are unknown.
_LONGEST_WORD = 100
_END_OF_WORD = "</w>"
_SPACE = "Ġ"  # as a byte-level BPE writes it
_PANIC = "PanicException"  # Which no module exports.


class TokenizersModel:
  """Encodes and decodes; the attributes are those of every tokenizer.

  Attributes:
    is_stated: Whether a file of `files.SAYING` beside this one states other
      special ids than the file itself (chat models end a turn).
  """

  def __init__(
    self,
    tokenizer: "tokenizers.Tokenizer",
    path: str,
    extra_ids: int | None,
    lower_case: bool = False,
    passed_over: Sequence[str] = (),
  ):
    """Adds sentinels and finds the special ids.

    Args:
      tokenizer: The tokenizer of the library, which is changed in place.
      path: The path of the file, for error messages.
      extra_ids: sentinels to add behind the pieces; None for none.
      lower_case: True if the tokenizer lowers the case; kept as an attribute.
      passed_over: The pieces of the file that the tokenizer leaves out; kept as
        an attribute.

    Raises:
      UserError: it has sentinels already.
    """
    # Imported here: only vocabularies of these kinds need the package.
    from tokenizers import AddedToken

    self.lower_case = lower_case
    self.extra_ids = extra_ids or 0
    if self.extra_ids:
      if tokenizer.token_to_id("<extra_id_0>") is not None:
        raise UserError(
          f"The vocabulary file {path!r} has sentinels of its own, so that "
          f"extra_ids={extra_ids} cannot be added; use extra_ids=0."
        )
      tokenizer.add_tokens(
        [
          AddedToken(f"<extra_id_{i}>", normalized=False)
          for i in reversed(range(self.extra_ids))
        ]
      )
    tokenizer.encode_special_tokens = True
    self._tokenizer = tokenizer
    self._path, self._folder = path, os.path.dirname(path)
    self.size = 1 + max(tokenizer.get_vocab().values())
    self.sentinel_ids = tokenizer_lib.find_sentinels(tokenizer.token_to_id)
    id_of = tokenizer.token_to_id
    by_name = tokenizer_lib.find_special(id_of, self.sentinel_ids)
    stated = files.stated_ids(self._folder, id_of)
    self.special = tokenizer_lib.find_special(
      id_of, self.sentinel_ids, **stated
    )
    self.passed_over = tuple(passed_over)
    self.is_stated = self.special != by_name or bool(passed_over)
    self._unwritten = self.special.unwritten | by_name.unwritten

  def encode(self, text: str) -> list[int]:
    """Returns the ids of `text`."""
    with self._refused("a text"):
      return self._tokenizer.encode(text, add_special_tokens=False).ids

  def encode_with_places(
    self, text: str
  ) -> tuple[list[int], list[tuple[int, int]]]:
    """Returns the ids of `text`, and the characters that each piece is."""
    with self._refused("a text"):
      found = self._tokenizer.encode(text, add_special_tokens=False)
    return found.ids, found.offsets

  def encode_prompt(self, text: str) -> list[int]:
    """Returns the ids of a text whose special pieces are no text."""
    with self._refused("a text"):
      return self._of_prompts.encode(text, add_special_tokens=False).ids

  def _refused(self, what: str) -> contextlib.AbstractContextManager[None]:
    return refused(f"The rules of {self._path!r} fail on {what}")

  @functools.cached_property
  def _of_prompts(self) -> "tokenizers.Tokenizer":
    # A copy: the switch is the whole tokenizer's.
    copy = type(self._tokenizer).from_str(self._tokenizer.to_str())
    copy.encode_special_tokens = False
    llama_prompts.like_theirs(copy, self._folder)
    return copy

  def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
    """Returns the ids of each text, on the library's threads."""
    with self._refused("a text"):
      found = self._tokenizer.encode_batch_fast(
        list(texts), add_special_tokens=False
      )
    return [encoding.ids for encoding in found]

  def encode_arrays(self, texts: Sequence[str]) -> list[np.ndarray]:
    """Returns the ids of each text, int32 [tokens]."""
    return [np.array(ids, np.int32) for ids in self.encode_batch(texts)]

  def decode(self, ids: Sequence[int]) -> str:
    """Returns the text of the ids, all below `size`."""
    written = [i for i in ids if i not in self._unwritten]
    with self._refused("ids"):
      return self._tokenizer.decode(written, skip_special_tokens=False)

  def to_json(self) -> str:
    """Returns a tokenizer.json of the pieces and the sentinels."""
    return self._tokenizer.to_str(pretty=True)

  def pieces(self) -> list[str | None]:
    """Returns the piece of each id, None for those without."""
    return [self._tokenizer.id_to_token(i) for i in range(self.size)]


def wordpiece(
  path: str, extra_ids: int | None, lower_case: bool | None
) -> TokenizersModel:
  """Returns BERT's tokenizer over a list of pieces.

  BERT's basic tokenisation (cleaning, splitting at punctuation and around
  Chinese characters; without case, accents go too), then greedy WordPiece.

  Args:
    path: one piece a line, its id the number of the line.
    extra_ids: The number of sentinels, as in `TokenizersModel`.
    lower_case: None to find out: a list without any capital letter is one of
      text without case.

  Raises:
    UserError: the file is no such list.
  """
  import tokenizers
  from tokenizers import decoders
  from tokenizers import models
  from tokenizers import normalizers
  from tokenizers import pre_tokenizers

  ids = {piece: i for i, piece in enumerate(_lines(path))}
  if "[UNK]" not in ids:
    raise UserError(
      f"The vocabulary file {path!r} is no WordPiece list: [UNK] is missing."
    )
  if lower_case is None:
    lower_case = _is_without_case(ids)
  tokenizer = tokenizers.Tokenizer(
    models.WordPiece(
      ids, unk_token="[UNK]", max_input_chars_per_word=_LONGEST_WORD
    )
  )
  tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lower_case)
  tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
  tokenizer.decoder = decoders.WordPiece()
  return TokenizersModel(tokenizer, path, extra_ids, lower_case)


def stated_case(path: str) -> bool | None:
  """Returns `do_lower_case` of a tokenizer_config.json beside a vocab.txt."""
  return files.tokenizer_config(os.path.dirname(path)).get("do_lower_case")


def byte_level_bpe(
  vocab: str, merges: str, extra_ids: int | None
) -> TokenizersModel:
  """Returns GPT-2's tokenizer, without a space added in front of the text.

  Args:
    vocab: vocab.json, from pieces to ids.
    merges: merges.txt, a merge a line, the first one goes first.
    extra_ids: The number of sentinels, as in `TokenizersModel`.

  Raises:
    UserError: the files do not fit each other, or are of words (GPT's).
  """
  import tokenizers
  from tokenizers import decoders
  from tokenizers import models
  from tokenizers import pre_tokenizers

  with refused(
    f"The vocabulary files {vocab!r} and {merges!r} are no byte-level BPE"
  ):
    model = models.BPE.from_file(vocab, merges)
  tokenizer = tokenizers.Tokenizer(model)
  ids_of_pieces = tokenizer.get_vocab()
  pieces = "\n".join([*ids_of_pieces, ""])
  if f"{_END_OF_WORD}\n" in pieces and _SPACE not in pieces:
    raise UserError(
      f"The vocabulary file {vocab!r} is no byte-level BPE: its words end with "
      f"{_END_OF_WORD}, as GPT's; name the tokenizer.json of the same model, "
      "which says how its text is split."
    )
  tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
  tokenizer.decoder = decoders.ByteLevel()
  stated = files.stated_pieces(os.path.dirname(vocab)).values()
  tokenizer.add_special_tokens([p for p in {*stated} if p in ids_of_pieces])
  return TokenizersModel(tokenizer, vocab, extra_ids)


def tokenizer_json(path: str, extra_ids: int | None) -> TokenizersModel:
  """Returns the tokenizer of a tokenizer.json, whichever its model.

  It is without special pieces that a config.json beside it has no rows for, if
  nothing needs them: many copies of Llama 2 have such a <pad>.

  Raises:
    UserError: the library cannot read it, or it lacks the piece that stands for
      unknown words.
  """
  import tokenizers
  from tokenizers import models

  content = schemas.read(path, schemas.TOKENIZER)
  beyond = _beyond_rows(content, os.path.dirname(path))
  added = [
    token
    for token in content.get("added_tokens") or ()
    if token["content"] not in beyond
  ]
  content["added_tokens"] = added
  for token in added:
    if token["content"].startswith(tokenizer_lib.SENTINEL):
      token["special"] = False  # Read in a text, as all sentinels are.
  with refused(f"The vocabulary file {path!r} is no tokenizer.json"):
    tokenizer = tokenizers.Tokenizer.from_str(json.dumps(content))
  model = tokenizer.model
  # The library itself complains at the first unknown word of a text.
  if isinstance(model, models.WordPiece) and (
    model.token_to_id(model.unk_token) is None
  ):
    raise UserError(
      f"The vocabulary file {path!r} lacks the piece {model.unk_token!r} among "
      "those of its WordPiece model, whose unk_token it is; add the piece, or "
      "name another one that the model has."
    )
  tokenizer.no_padding()
  tokenizer.no_truncation()
  return TokenizersModel(tokenizer, path, extra_ids, passed_over=beyond)


@contextlib.contextmanager
def refused(sentence: str) -> Iterator[None]:
  """Raises UserError for errors of the library, with their reason.

  They are plain ones, and panics of Rust, which are no `Exception`.

  Args:
    sentence: What failed, without a full stop.
  """
  try:
    yield
  except BaseException as error:
    if not isinstance(error, Exception) and type(error).__name__ != _PANIC:
      raise
    raise UserError(f"{sentence} ({error}).") from None


def _beyond_rows(content: dict[str, Any], folder: str) -> list[str]:
  """Special pieces without rows in a model, where all others have one.

  Args:
    content: The content of a tokenizer.json.
    folder: The folder of the file, which may have a config.json.

  Returns:
    None of them where one ends or begins texts.
  """
  rows = files.stated_rows(folder)
  added = content.get("added_tokens") or ()
  beyond = [t for t in added if rows is not None and t["id"] >= rows]
  pieces = [token["content"] for token in beyond]
  stated = files.stated_pieces(folder)
  used = json.dumps(content.get("post_processor"), ensure_ascii=False)
  if (
    not all(token.get("special") for token in beyond)
    or not {stated.get("eos"), stated.get("bos")}.isdisjoint(pieces)
    or any(json.dumps(piece, ensure_ascii=False) in used for piece in pieces)
  ):
    return []
  ids = (content.get("model") or {}).get("vocab") or ()
  numbers = ids.values() if isinstance(ids, dict) else range(len(ids))
  return [] if beyond and max(numbers, default=0) >= rows else pieces


def _lines(path: str) -> list[str]:
  try:
    with open(path, encoding="utf-8") as file:
      return file.read().removesuffix("\n").split("\n")
  except UnicodeDecodeError as error:
    raise UserError(
      f"The vocabulary file {path!r} is not UTF-8 ({error.reason} at byte "
      f"{error.start}); write it anew in that encoding."
    ) from None


def _is_without_case(pieces: dict[str, int]) -> bool:
  return all(piece == piece.lower() or piece[0] == "[" for piece in pieces)
