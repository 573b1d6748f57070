"""WordPiece, byte-level BPE, tokenizer.json, and SentencePiece by a class.

The `tokenizers` library reads them; a class is one of `tokenizer_classes`.
Special pieces that are written out in a text ("[SEP]", "<|endoftext|>") are
text like any other, so that no document can end itself; sentinels are read, as
SeqIO reads them. In a prompt, which a user writes, all of them are read.
"""

import base64
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
from transformer_zoo.data.vocabularies import tokenizer_classes
from transformer_zoo.errors import UserError

if TYPE_CHECKING:
  import tokenizers

# google-research/bert, tokenization.py: longer words are unknown.
_LONGEST_WORD = 100
_END_OF_WORD = "</w>"
_OF_WORDS = "OpenAIGPTTokenizer"
_SPACE = "Ġ"  # as a byte-level BPE writes it
_PANIC = "PanicException"  # Which no module exports.


class TokenizersModel(tokenizer_lib.Tokenizer):
  """Encodes and decodes; the attributes are documented in `Tokenizer`."""

  def __init__(
    self,
    tokenizer: "tokenizers.Tokenizer",
    path: str,
    extra_ids: int | None,
    *,
    lower_case: bool = False,
    stated: tokenizer_classes.Stated | None = None,
    rules: str = "",
    passed_over: Sequence[str] = (),
    added_special: Sequence[int] = (),
  ):
    """Adds sentinels and finds the special ids.

    Args:
      tokenizer: The tokenizer of the library, which is changed in place.
      path: The path of the file, for error messages.
      extra_ids: sentinels to add behind the pieces; None for none.
      lower_case: True if the tokenizer lowers the case; kept as an attribute.
      stated: The class that reads the files, whose pieces the tokenizer has.
      rules: As the attribute.
      passed_over: The pieces of the file that the tokenizer leaves out; kept as
        an attribute.
      added_special: The ids of added pieces that are special in the file; kept
        as an attribute.

    Raises:
      UserError: it has sentinels already.
    """
    # Imported here: only vocabularies of these kinds need the package.
    from tokenizers import AddedToken
    from tokenizers import models

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
    self._tokenizer = tokenizer
    self._of_texts = tokenizer
    if isinstance(tokenizer.model, models.Unigram):
      self._of_texts = _with_special_pieces_as_text(tokenizer)
    self._of_texts.encode_special_tokens = True
    self._path, self._folder = path, os.path.dirname(path)
    settings = files.tokenizer_config(self._folder)
    self._reads_special = not settings.get("split_special_tokens")
    self.size = 1 + max(tokenizer.get_vocab().values())
    id_of = tokenizer.token_to_id
    self.sentinel_ids = tokenizer_lib.find_sentinels(id_of)
    by_name = tokenizer_lib.find_special(id_of, self.sentinel_ids)
    ids = files.stated_ids(self._folder, id_of)
    if stated is not None and stated.name:
      of_class = {r: id_of(piece) for r, piece in stated.special().items()}
      if stated.rules_of.model == "BPE":
        of_class.pop("unk", None)  # GPT-2's is its EOS, which nothing becomes.
      ids |= {role: i for role, i in of_class.items() if i is not None}
    self.special = tokenizer_lib.find_special(id_of, self.sentinel_ids, **ids)
    self.passed_over = tuple(passed_over)
    added = tokenizer.get_added_tokens_decoder().items()
    self.added_special = frozenset(added_special).union(
      i for i, token in added if token.special
    )
    self.rules = rules
    self.tokenizer_class = (stated and stated.name) or None
    self.is_stated = bool(
      self.special != by_name or self.passed_over or self.rules
    )
    self._unwritten = self.special.unwritten | by_name.unwritten

  def encode(self, text: str) -> list[int]:
    """Returns the ids of `text`."""
    with self._refused("a text"):
      return self._of_texts.encode(text, add_special_tokens=False).ids

  def encode_with_places(
    self, text: str
  ) -> tuple[list[int], list[tuple[int, int]]]:
    """Returns the ids of `text`, and the characters that each piece is."""
    with self._refused("a text"):
      found = self._of_texts.encode(text, add_special_tokens=False)
    return found.ids, found.offsets

  def encode_prompt(self, text: str) -> list[int]:
    """Returns the ids of a text whose special pieces are no text."""
    with self._refused("a text"):
      return self._of_prompts.encode(text, add_special_tokens=False).ids

  def _refused(self, what: str) -> contextlib.AbstractContextManager[None]:
    return refused(f"The rules of {self._path!r} fail on {what}")

  @functools.cached_property
  def _of_prompts(self) -> "tokenizers.Tokenizer":
    if not self._reads_special:
      return self._of_texts
    if self._of_texts is not self._tokenizer:
      return self._tokenizer
    # A copy: the switch is the whole tokenizer's.
    copy = type(self._tokenizer).from_str(self._tokenizer.to_str())
    copy.encode_special_tokens = False
    llama_prompts.like_theirs(copy, self._folder)
    return copy

  def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
    """Returns the ids of each text, on the library's threads."""
    with self._refused("a text"):
      found = self._of_texts.encode_batch_fast(
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
    """Returns a tokenizer.json of the pieces, the sentinels and the rules."""
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
    lower_case: None for what the files beside it say; where they name no class
      and no case, a list without any capital letter is one of text without
      case.

  Raises:
    UserError: the file is no such list, or the files beside it say something
      that is not known here.
  """
  import tokenizers
  from tokenizers import decoders
  from tokenizers import models

  stated = tokenizer_classes.stated(
    os.path.dirname(path), "WordPiece", lower_case
  )
  ids = {piece: i for i, piece in enumerate(_lines(path))}
  unknown = stated.of_model()["unk"]
  if unknown not in ids:
    raise UserError(
      f"The vocabulary file {path!r} is no WordPiece list: {unknown} is "
      "missing."
    )
  if stated.options["do_lower_case"] is None:
    stated.options["do_lower_case"] = _is_without_case(ids)
  tokenizer = tokenizers.Tokenizer(
    models.WordPiece(
      ids, unk_token=unknown, max_input_chars_per_word=_LONGEST_WORD
    )
  )
  tokenizer.decoder = decoders.WordPiece()
  return _of_class(tokenizer, path, extra_ids, stated)


def byte_bpe(
  vocab: str, merges: str, extra_ids: int | None, lower_case: bool | None
) -> TokenizersModel:
  """Returns GPT-2's tokenizer, or another class's.

  Args:
    vocab: vocab.json, from pieces to ids.
    merges: merges.txt, a merge a line, the first one goes first.
    extra_ids: The number of sentinels, as in `TokenizersModel`.
    lower_case: True is refused.

  Raises:
    UserError: the files do not fit each other, are of words (GPT's) and name no
      class, or those beside them say something that is not known here.
  """
  import tokenizers
  from tokenizers import decoders
  from tokenizers import models

  _check_case(lower_case, "byte_bpe")
  stated = tokenizer_classes.stated(os.path.dirname(vocab), "BPE")
  of_words = stated.name == _OF_WORDS
  settings = {}
  if of_words:
    settings = {
      "unk_token": stated.of_model()["unk"],
      "end_of_word_suffix": _END_OF_WORD,
    }
  with refused(
    f"The vocabulary files {vocab!r} and {merges!r} are no byte-level BPE"
  ):
    model = models.BPE.from_file(vocab, merges, **settings)
  tokenizer = tokenizers.Tokenizer(model)
  pieces = "\n".join([*tokenizer.get_vocab(), ""])
  if f"{_END_OF_WORD}\n" in pieces and _SPACE not in pieces and not of_words:
    raise UserError(
      f"The vocabulary file {vocab!r} is no byte-level BPE: its words end with "
      f"{_END_OF_WORD}, as GPT's; name the class {_OF_WORDS} in a "
      "tokenizer_config.json beside it, or the tokenizer.json of the same "
      "model, which says how its text is split."
    )
  tokenizer.decoder = decoders.ByteLevel()
  if of_words:
    tokenizer.decoder = decoders.BPEDecoder(_END_OF_WORD)
  return _of_class(tokenizer, vocab, extra_ids, stated)


def unigram(
  path: str,
  model: Any,
  stated: tokenizer_classes.Stated,
  extra_ids: int | None,
) -> TokenizersModel:
  """Returns the tokenizer of a class over a SentencePiece model.

  Args:
    path: The path of the model, whose neighbours state the rest.
    model: Its content, a `ModelProto`.
    stated: The class, and what the files state for it.
    extra_ids: The number of sentinels, as in `TokenizersModel`.

  Raises:
    UserError: The class cannot read the model.
  """
  import tokenizers
  from tokenizers import decoders
  from tokenizers import models

  spec, rules_of, special = (
    model.trainer_spec,
    stated.rules_of,
    stated.of_model(),
  )
  if spec.model_type != spec.UNIGRAM:
    raise UserError(
      f"The SentencePiece model {path!r} is no unigram model, and "
      f"{stated.name} reads one; name the class that reads it, or a "
      "tokenizer.json."
    )
  rows = [(piece.piece, piece.score, piece.type) for piece in model.pieces]
  own = [(name, score) for name, score, _ in rows]
  with refused(f"{stated.name} does not read the pieces of {path!r}"):
    pieces = rules_of.arrange(own, special, stated.options)
    unknown = rules_of.unknown(pieces, special["unk"], spec.unk_id)
    tokenizer = tokenizers.Tokenizer(
      models.Unigram(pieces, unk_id=unknown, byte_fallback=False)
    )
  tokenizer.decoder = decoders.Metaspace(
    replacement="▁", prepend_scheme="always"
  )
  kinds = type(model).SentencePiece
  as_they_stand = [
    {"content": name, "normalized": False, "special": kind == kinds.CONTROL}
    for name, _, kind in rows
    if kind in (kinds.CONTROL, kinds.USER_DEFINED)
  ]
  charsmap = model.normalizer_spec.precompiled_charsmap or None
  return _of_class(
    tokenizer,
    path,
    extra_ids,
    stated,
    charsmap=charsmap,
    as_they_stand=as_they_stand,
  )


def _of_class(
  tokenizer: "tokenizers.Tokenizer",
  path: str,
  extra_ids: int | None,
  stated: tokenizer_classes.Stated,
  *,
  charsmap: bytes | None = None,
  as_they_stand: Sequence[dict[str, Any]] | None = None,
) -> TokenizersModel:
  """Gives a tokenizer the rules and the pieces of a class."""
  tokenizer.normalizer, tokenizer.pre_tokenizer = stated.rules(charsmap)
  before = tokenizer.get_vocab_size()
  passed_over = _add(tokenizer, path, stated, as_they_stand)
  rules = stated.describe()
  if tokenizer.get_vocab_size() > before:
    rules = f"{rules} {tokenizer.get_added_tokens_decoder()}"
  return TokenizersModel(
    tokenizer,
    path,
    extra_ids,
    lower_case=bool(stated.options.get("do_lower_case")),
    stated=stated,
    rules=rules,
    passed_over=passed_over,
  )


def _add(
  tokenizer: "tokenizers.Tokenizer",
  path: str,
  stated: tokenizer_classes.Stated,
  as_they_stand: Sequence[dict[str, Any]] | None,
) -> list[str]:
  """Adds the pieces of a class and of the files beside a vocabulary.

  Returns:
    The stated pieces that the model beside has no rows for, which are left out
    if nothing needs them.
  """
  from tokenizers import AddedToken

  added, passed_over = stated.within_rows(
    os.path.dirname(path),
    tokenizer.get_vocab_size(),
    lambda name: tokenizer.token_to_id(name) is not None,
    as_they_stand,
  )
  tokenizer.add_tokens([AddedToken(**piece) for piece in added])
  return passed_over


def tokenizer_json(
  path: str, extra_ids: int | None, lower_case: bool | None
) -> TokenizersModel:
  """Returns the tokenizer of a tokenizer.json, of any model.

  It is without special pieces that a config.json beside it has no rows for, if
  nothing needs them: many copies of Llama 2 have such a <pad>. If the files
  beside it name a class of `tokenizer_classes`, the rules are that class's.

  Args:
    path: The file.
    extra_ids: The number of sentinels, as in `TokenizersModel`.
    lower_case: True for a class that has this option.

  Raises:
    UserError: the library cannot read it, it lacks the piece that stands for
      unknown words, or the files beside it say something that is not known
      here.
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
  special = [token["id"] for token in added if token.get("special")]
  for token in added:
    if tokenizer_lib.is_text(token["content"]):
      token["special"] = False
  with refused(f"The vocabulary file {path!r} is no tokenizer.json"):
    tokenizer = tokenizers.Tokenizer.from_str(json.dumps(content))
  model = tokenizer.model
  # The library itself complains at the first unknown word of a text.
  if isinstance(model, models.WordPiece) and (
    model.token_to_id(model.unk_token) is None
  ):
    raise UserError(
      f"The vocabulary file {path!r} lacks the piece {model.unk_token!r}, the "
      "unk_token of its WordPiece model; add the piece, or name another one "
      "that the model has."
    )
  tokenizer.no_padding()
  tokenizer.no_truncation()
  stated = tokenizer_classes.stated(
    os.path.dirname(path),
    type(model).__name__,
    lower_case or None,
    has_rules=True,
  )
  if stated is None:
    _check_case(lower_case, "tokenizer_json")
    return TokenizersModel(
      tokenizer, path, extra_ids, passed_over=beyond, added_special=special
    )
  before = _state(tokenizer)
  rules = stated.rules(_charsmap(content))
  tokenizer.normalizer, tokenizer.pre_tokenizer = rules
  beyond += _add(tokenizer, path, stated, None)
  differs = _state(tokenizer) != before
  return TokenizersModel(
    tokenizer,
    path,
    extra_ids,
    lower_case=bool(differs and stated.options.get("do_lower_case")),
    stated=stated,
    rules=f"{stated.name} {stated.describe()}" if differs else "",
    passed_over=beyond,
    added_special=special,
  )


def _check_case(lower_case: bool | None, kind: str) -> None:
  if lower_case:
    raise UserError(
      f"lower_case is for WordPiece and SentencePiece, not for {kind!r}; "
      "leave it out."
    )


def _state(tokenizer: "tokenizers.Tokenizer") -> list[Any]:
  """Returns the rules and the size of a tokenizer, to compare."""
  parts = (tokenizer.normalizer, tokenizer.pre_tokenizer)
  states = [part and json.loads(part.__getstate__()) for part in parts]
  return [*states, tokenizer.get_vocab_size()]


def _charsmap(content: dict[str, Any]) -> bytes | None:
  """The character map that the normalizer of a tokenizer.json has first."""
  normalizer = content.get("normalizer") or {}
  for part in normalizer.get("normalizers", [normalizer]):
    if part.get("type") == "Precompiled" and part.get("precompiled_charsmap"):
      return base64.b64decode(part["precompiled_charsmap"])
  return None


def _with_special_pieces_as_text(
  tokenizer: "tokenizers.Tokenizer",
) -> "tokenizers.Tokenizer":
  """A copy that finds no special piece in a text.

  A unigram model reads whatever it has a piece for, special or not. The copy
  has a space before their names, which stands in no word.
  """
  import tokenizers
  from tokenizers import AddedToken
  from tokenizers import models

  added = sorted(tokenizer.get_added_tokens_decoder().items())
  special = {token.content for _, token in added if token.special}
  model = json.loads(tokenizer.model.__getstate__())
  pieces = [
    (f" {piece}" if piece in special else piece, score)
    for piece, score in model["vocab"]
  ]
  copy = tokenizers.Tokenizer(
    models.Unigram(pieces, model["unk_id"], model.get("byte_fallback", False))
  )
  copy.normalizer = tokenizer.normalizer
  copy.pre_tokenizer = tokenizer.pre_tokenizer
  copy.add_tokens(
    [
      AddedToken(
        f" {token.content}" if token.special else token.content,
        single_word=token.single_word,
        lstrip=token.lstrip,
        rstrip=token.rstrip,
        normalized=token.normalized,
        special=token.special,
      )
      for _, token in added
    ]
  )
  return copy


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
