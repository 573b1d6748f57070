"""SentencePiece models, unigram or BPE, with sentinels.

Encoding and decoding equal `seqio.SentencePieceVocabulary`: the sentinels
`<extra_id_0>`, `<extra_id_1>`, ... are added to the model as user-defined
pieces in reverse order, so that `<extra_id_0>` has the highest id
(seqio/vocabularies.py, `_load_model_internal`).

Three numbers for one T5 vocabulary: 32,000 pieces in the file, 32,100 ids with
the 100 sentinels (`size`), and 32,128 rows in the published embedding tables,
which are padded to a multiple of 128.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
import contextlib
import functools
import os
import re
import threading
from typing import Any, TYPE_CHECKING
import unicodedata

import numpy as np

from transformer_zoo.data.vocabularies import files
from transformer_zoo.data.vocabularies import tokenizer as tokenizer_lib
from transformer_zoo.data.vocabularies import tokenizer_classes
from transformer_zoo.errors import UserError

if TYPE_CHECKING:
  import sentencepiece

# Loading a serialized model is not thread-safe in SentencePiece.
_load_lock = threading.Lock()
DEFAULT_EXTRA_IDS = 100  # T5's; none where the file has its own, or a mask


def read(
  path: str, extra_ids: int | None, lower_case: bool | None
) -> tokenizer_lib.Tokenizer:
  """Returns the tokenizer of a model file.

  Args:
    path: The model file.
    extra_ids: sentinels to add; None for what the files beside it say.
    lower_case: text is read without case and accents; None for what the files
      beside it say.

  Raises:
    UserError: The file is no such model, or the files beside it say something
      that is not known here.
  """
  stated = tokenizer_classes.stated(
    os.path.dirname(path), "Unigram", lower_case
  )
  if stated is not None:
    from transformer_zoo.data.vocabularies import tokenizers_models

    with _is_read(path):
      model = _contents(path)
    return tokenizers_models.unigram(path, model, stated, extra_ids)
  if extra_ids is None:
    extra_ids = files.stated_extra_ids(path)
  return SentencePieceModel(path, extra_ids, bool(lower_case))


class SentencePieceModel(tokenizer_lib.Tokenizer):
  """Encodes and decodes; the attributes are documented in `Tokenizer`.

  Its `rules` are the pieces that the files beside the model add.
  """

  def __init__(self, path: str, extra_ids: int | None, lower_case: bool):
    """Reads the model file.

    Args:
      path: the model file.
      extra_ids: sentinels to add; None for 100, or for none where the file has
        sentinels (mT5, umT5) or a mask (ALBERT, XLNet) of its own.
      lower_case: text is read without case and accents, as ALBERT's uncased
        models read it.

    Raises:
      UserError: the file is no such model, or has sentinels already.
    """
    folder = os.path.dirname(path)
    t5 = tokenizer_classes.t5(folder)
    further = t5 and functools.partial(self._added_by, t5, folder)
    self._processor, self.extra_ids = load(path, extra_ids, further)
    self.lower_case = lower_case
    processor = self._processor
    self.size = processor.GetPieceSize()
    self.sentinel_ids = tokenizer_lib.find_sentinels(self._id_of)
    own = {
      "pad": _existing(processor.pad_id()),
      "eos": _existing(processor.eos_id()),
      "unk": _existing(processor.unk_id()),
      "bos": _existing(processor.bos_id()),
    }
    stated = files.stated_ids(folder, self._id_of)
    for role, piece in (t5.special() if t5 else {}).items():
      if role in ("cls", "sep", "mask"):
        stated[role] = self._id_of(piece)
    by_itself = tokenizer_lib.find_special(
      self._id_of, self.sentinel_ids, **own
    )
    self.special = tokenizer_lib.find_special(
      self._id_of, self.sentinel_ids, **{**own, **stated}
    )
    self.is_stated = bool(
      self.special != by_itself or self.rules or self.passed_over
    )
    if not lower_case:
      self.encode = processor.EncodeAsIds  # not one call more than necessary
    if t5 is not None and t5.reads_special:
      self._read_in_prompts(self._special_names, "never", self.encode)
    if files.tokenizer_config(os.path.dirname(path)) and not self.extra_ids:
      self._encode_prompts_as_llamas(path)

  def encode(self, text: str) -> list[int]:
    """Returns the ids of `text`."""
    return self._processor.EncodeAsIds(without_case(text))

  def encode_with_places(
    self, text: str
  ) -> tuple[list[int], list[tuple[int, int]]]:
    """Returns the ids of `text`, and the characters that each piece is."""
    if not self.lower_case:
      found = self._processor.Encode(text, return_type="offset_mapping")
      places = found["offsets"]
    else:
      found, places = self._without_case(text)
    return found["ids"], [self._of_one_word(text, *place) for place in places]

  def _without_case(
    self, text: str
  ) -> tuple[dict[str, Any], list[tuple[int, int]]]:
    # Which character of the text each one is that the model reads.
    parts = [without_case(character) for character in text]
    origins = [i for i, part in enumerate(parts) for _ in part]
    found = self._processor.Encode("".join(parts), return_type="offset_mapping")
    places, last = [], 0
    for start, end in found["offsets"]:
      if start < end:
        place = origins[start], origins[end - 1] + 1
      else:
        place = last, last
      places.append(place)
      last = place[1]
    return found, places

  def _of_one_word(self, text: str, start: int, end: int) -> tuple[int, int]:
    """Leaves out the words before a piece that normalise to nothing."""
    surface = text[start:end]
    if not re.search(r"\S\s", surface):
      return start, end
    for word in re.finditer(r"\s*\S+\s*", surface):
      read = word.group().strip()
      read = without_case(read) if self.lower_case else read
      if self._processor.Normalize(read).strip("▁"):
        break
      start += len(word.group())
    return start, end

  def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
    """Returns the ids of each text, on one thread."""
    return self._encode(texts, int)

  def encode_arrays(self, texts: Sequence[str]) -> list[np.ndarray]:
    """Returns the ids of each text, int32 [tokens], on one thread."""
    return self._encode(texts, "numpy")

  def _encode(self, texts: Sequence[str], return_type: Any) -> list[Any]:
    if self.lower_case:
      texts = [without_case(text) for text in texts]
    return self._processor.Encode(
      list(texts), num_threads=1, return_type=return_type
    )

  def _encode_prompts_as_llamas(self, path: str) -> None:
    """Sets `encode_prompt` if the files beside the model name Llama's class."""
    # Most models have no such files beside them.
    from transformer_zoo.data.vocabularies import llama_prompts

    folder = os.path.dirname(path)
    scheme = llama_prompts.prepend_scheme(folder)
    if scheme is not None and is_llamas(path):
      pieces = llama_prompts.special_pieces(folder)
      encode = _without_prefix(path).EncodeAsIds
      self._read_in_prompts(pieces, scheme, encode)

  def _read_in_prompts(
    self,
    names: Sequence[str],
    scheme: str,
    encode: Callable[[str], Sequence[int]],
  ) -> None:
    """Sets `encode_prompt`; arguments as `llama_prompts.encode` has them."""
    from transformer_zoo.data.vocabularies import llama_prompts

    ids = {name: (self._id_of(f"▁{name}"), self._id_of(name)) for name in names}
    special = {name: i if j is None else j for name, (i, j) in ids.items()}
    self.encode_prompt = functools.partial(
      llama_prompts.encode,
      scheme=scheme,
      special={name: i for name, i in special.items() if i is not None},
      encode_as_it_is=encode,
    )

  def _added_by(
    self, t5: tokenizer_classes.Stated, folder: str, names: Collection[str]
  ) -> list[tuple[str, bool]]:
    """Finds the pieces that T5's class adds to the pieces of the model.

    Returns:
      Names, and whether the class takes the piece for a special one.
    """
    found, passed_over = t5.within_rows(
      folder, len(names), names.__contains__, own=()
    )
    self.passed_over = tuple(passed_over)
    special = t5.special()
    # Where the model has none, it pads and ends texts with other pieces.
    absent = {special.get(role) for role in ("pad", "eos", "unk", "bos")}
    absent -= {*names}
    found = [piece for piece in found if piece["content"] not in absent]
    added = [
      (piece["content"], piece.get("special", False))
      for piece in found
      if piece["content"] not in names
    ]
    self.rules = str(added) if added else ""
    self._special_names = [
      *(piece["content"] for piece in found),
      *(name for name in names if name.startswith(tokenizer_lib.SENTINEL)),
    ]
    return added

  def decode(self, ids: Sequence[int]) -> str:
    """Returns the text of the ids, all below `size`."""
    if self.is_stated:  # Such a piece may be one that is written.
      ids = [i for i in ids if i not in self.special.unwritten]
    return self._processor.DecodeIds(ids)

  def pieces(self) -> list[str | None]:
    """Returns the piece of each id."""
    return self._processor.IdToPiece(list(range(self.size)))

  def _id_of(self, piece: str) -> int | None:
    found = self._processor.PieceToId(piece)
    return found if self._processor.IdToPiece(found) == piece else None


def without_case(text: str) -> str:
  """Returns the text as ALBERT's uncased models read it.

  Quotes of Penn Treebank style become plain ones, accents and capitals go
  (google-research/albert, tokenization.py, `preprocess_text`).
  """
  text = text.replace("``", '"').replace("''", '"')
  text = unicodedata.normalize("NFKD", text)
  return "".join(c for c in text if not unicodedata.combining(c)).lower()


def is_llamas(path: str) -> bool:
  """Whether a model cuts texts as `LlamaTokenizer` of `transformers` does.

  That is BPE, bytes for what it has no piece for, and the text as it is.
  """
  from sentencepiece import sentencepiece_model_pb2

  model = _contents(path)
  trainer, normalizer = model.trainer_spec, model.normalizer_spec
  return (
    trainer.model_type == sentencepiece_model_pb2.TrainerSpec.BPE
    and trainer.byte_fallback
    and normalizer.name == "identity"
    and normalizer.add_dummy_prefix
    and not normalizer.remove_extra_whitespaces
  )


def is_t5s(path: str) -> bool:
  """Whether a model cuts texts as `T5Tokenizer` of `transformers` does.

  That is a unigram model without bytes, whose <unk> is 2, and words that one
  space stands before.
  """
  from sentencepiece import sentencepiece_model_pb2

  model = _contents(path)
  trainer, normalizer = model.trainer_spec, model.normalizer_spec
  unknown = sentencepiece_model_pb2.ModelProto.SentencePiece.UNKNOWN
  return (
    trainer.model_type == sentencepiece_model_pb2.TrainerSpec.UNIGRAM
    and not trainer.byte_fallback
    and [i for i, p in enumerate(model.pieces) if p.type == unknown] == [2]
    and normalizer.add_dummy_prefix
    and normalizer.remove_extra_whitespaces
  )


def _contents(path: str) -> Any:
  from sentencepiece import sentencepiece_model_pb2

  with open(path, "rb") as file:
    return sentencepiece_model_pb2.ModelProto.FromString(file.read())


def _without_prefix(path: str) -> "sentencepiece.SentencePieceProcessor":
  """The model, which puts no space before a text."""
  import sentencepiece

  model = _contents(path)
  model.normalizer_spec.add_dummy_prefix = False
  with _load_lock:
    return sentencepiece.SentencePieceProcessor(
      model_proto=model.SerializeToString()
    )


def _existing(special: int) -> int | None:
  """SentencePiece says -1 for an id that a model lacks."""
  return None if special < 0 else special


@contextlib.contextmanager
def _is_read(path: str) -> Iterator[None]:
  """Names a file that is no model."""
  try:
    yield
  except UserError:
    raise
  except Exception as error:  # protobuf and SentencePiece raise their own
    raise UserError(
      f"The vocabulary file {path!r} is not a SentencePiece model "
      f"({type(error).__name__})."
    ) from error


def load(
  path: str,
  extra_ids: int | None,
  further: Callable[[Collection[str]], list[tuple[str, bool]]] | None = None,
) -> tuple["sentencepiece.SentencePieceProcessor", int]:
  """Returns the model with its sentinels, and how many were added.

  Args:
    path: The model file.
    extra_ids: sentinels to add, as in `SentencePieceModel`.
    further: Returns further pieces, and whether they are text like any other
      where they are written out, for the names of those that are there.

  Raises:
    UserError: the file is no such model, or has sentinels already.
  """
  # Both are slow to import, the second one for protobuf.
  import sentencepiece
  from sentencepiece import sentencepiece_model_pb2

  with _load_lock, _is_read(path):
    processor = sentencepiece.SentencePieceProcessor()
    model = _contents(path)
    extra_ids = _number_to_add(model, path, extra_ids)
    kinds = sentencepiece_model_pb2.ModelProto.SentencePiece
    added = [
      (f"▁{tokenizer_lib.SENTINEL}{i}>", False) for i in range(extra_ids)
    ][::-1]
    if further is not None:
      sentinel = f"▁{tokenizer_lib.SENTINEL}"
      names = [*(piece.piece for piece in model.pieces), *(p for p, _ in added)]
      added += further(
        {p[1:] if p.startswith(sentinel) else p: None for p in names}
      )
    for piece, is_text in added:
      kind = kinds.CONTROL if is_text else kinds.USER_DEFINED
      model.pieces.add(piece=piece, score=0.0, type=kind)
    processor.LoadFromSerializedProto(model.SerializeToString())
  return processor, extra_ids


def _number_to_add(model: Any, path: str, extra_ids: int | None) -> int:
  pieces = {piece.piece for piece in model.pieces}
  has_sentinels = not pieces.isdisjoint({"<extra_id_0>", "▁<extra_id_0>"})
  if extra_ids is None:
    has_own = has_sentinels or not pieces.isdisjoint({"[MASK]", "<mask>"})
    return 0 if has_own else DEFAULT_EXTRA_IDS
  if extra_ids and has_sentinels:
    raise UserError(
      f"The vocabulary file {path!r} has sentinels of its own, so that "
      f"extra_ids={extra_ids} cannot be added; use extra_ids=0."
    )
  return extra_ids
