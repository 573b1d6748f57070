"""SentencePiece vocabularies with sentinels, without TensorFlow.

Encoding and decoding equal `seqio.SentencePieceVocabulary`: the sentinels
`<extra_id_0>`, `<extra_id_1>`, ... are added to the model as user-defined
pieces in reverse order, so that `<extra_id_0>` has the highest id
(seqio/vocabularies.py, `_load_model_internal`).

Three numbers for one T5 vocabulary: 32,000 pieces in the file, 32,100 ids with
the 100 sentinels (`size`), and 32,128 rows in the published embedding tables,
which are padded to a multiple of 128.
"""

from collections.abc import Iterable
import dataclasses
import functools
import hashlib
import os
import threading
from typing import Any, TYPE_CHECKING

import numpy as np
import sentencepiece

from transformer_zoo.errors import UserError

if TYPE_CHECKING:
  import seqio

# Loading a serialized model is not thread-safe in SentencePiece.
_load_lock = threading.Lock()


@dataclasses.dataclass(frozen=True)
class Vocabulary:
  """A SentencePiece model file and its number of sentinels.

  The file is read at the first use, not at construction.

  Attributes:
    path: the SentencePiece model file, trained with pad 0, EOS 1, unknown 2.
    extra_ids: how many sentinels follow the pieces.
  """

  path: str
  extra_ids: int = 100

  pad_id = 0
  eos_id = 1
  unk_id = 2

  @property
  def size(self) -> int:
    """The number of ids: pieces and sentinels."""
    return self._processor.GetPieceSize()

  @property
  def sentinel_ids(self) -> np.ndarray:
    """Ids of `<extra_id_0>`, `<extra_id_1>`, ...: int32, descending."""
    return self.size - 1 - np.arange(self.extra_ids, dtype=np.int32)

  @property
  def checksum(self) -> str:
    """SHA-256 of the model file, in hexadecimal."""
    return _checksum(*_file_key(self.path))

  def check(self) -> None:
    """Reads the file now.

    Raises:
      UserError: it is absent, or no model of this kind.
    """
    _load(*_file_key(self.path), self.extra_ids)

  def encode(self, text: str) -> list[int]:
    """Returns the ids of `text`, without EOS."""
    return self._processor.EncodeAsIds(text)

  def decode(self, ids: Iterable[int]) -> str:
    """Returns the text of `ids` up to the first EOS.

    Sentinels are written `<extra_id_0>` ...; an id above `size` (a padded row
    of the embedding table) is read as unknown.
    """
    size = self.size
    clean = [int(i) if int(i) < size else self.unk_id for i in ids]
    if self.eos_id in clean:
      clean = clean[: clean.index(self.eos_id) + 1]
    return self._processor.DecodeIds(clean)

  def to_seqio(self) -> "seqio.SentencePieceVocabulary":
    """Returns the same vocabulary for a SeqIO task; imports SeqIO."""
    import seqio  # pylint: disable=g-import-not-at-top

    return seqio.SentencePieceVocabulary(self.path, self.extra_ids)

  @property
  def _processor(self) -> sentencepiece.SentencePieceProcessor:
    return _load(*_file_key(self.path), self.extra_ids)


def from_seqio(vocabulary: Any) -> Vocabulary:
  """Returns the `Vocabulary` of a SeqIO SentencePiece vocabulary.

  Args:
    vocabulary: anything with SeqIO's `sentencepiece_model_file` and
      `extra_ids`; a subclass may find its file lazily.

  Raises:
    UserError: `vocabulary` is of another kind.
  """
  path = getattr(vocabulary, "sentencepiece_model_file", None)
  if path is None:
    raise UserError(
      f"The vocabulary {type(vocabulary).__name__} is not a SentencePiece one; "
      "use transformer_zoo.data.vocabularies.Vocabulary(path).to_seqio()."
    )
  return Vocabulary(os.fspath(path), vocabulary.extra_ids)


def _file_key(path: str) -> tuple[str, int, int]:
  """Path, modification time and size: a rewritten file is read again."""
  try:
    status = os.stat(path)
  except OSError as error:
    raise UserError(
      f"The vocabulary file {os.fspath(path)!r} cannot be read "
      f"({error.strerror})."
    ) from None
  return os.fspath(path), status.st_mtime_ns, status.st_size


@functools.lru_cache(maxsize=8)
def _checksum(path: str, modified: int, size: int) -> str:
  del modified, size  # part of the cache key only
  with open(path, "rb") as file:
    return hashlib.sha256(file.read()).hexdigest()


@functools.lru_cache(maxsize=8)
def _load(
  path: str, modified: int, size: int, extra_ids: int
) -> sentencepiece.SentencePieceProcessor:
  """Reads a model, adds the sentinels, and checks the special ids."""
  del modified, size  # part of the cache key only
  from sentencepiece import sentencepiece_model_pb2  # needs protobuf, slow

  with _load_lock:
    processor = sentencepiece.SentencePieceProcessor()
    try:
      with open(path, "rb") as file:
        model = sentencepiece_model_pb2.ModelProto.FromString(file.read())
      for i in reversed(range(extra_ids)):
        model.pieces.add(
          piece=f"▁<extra_id_{i}>",
          score=0.0,
          type=sentencepiece_model_pb2.ModelProto.SentencePiece.USER_DEFINED,
        )
      processor.LoadFromSerializedProto(model.SerializeToString())
    except Exception as error:  # protobuf and SentencePiece raise their own
      raise UserError(
        f"The vocabulary file {path!r} is not a SentencePiece model "
        f"({type(error).__name__})."
      ) from error
  ids = (processor.pad_id(), processor.eos_id(), processor.unk_id())
  if ids != (Vocabulary.pad_id, Vocabulary.eos_id, Vocabulary.unk_id):
    raise UserError(
      f"The vocabulary file {path!r} has pad, EOS and unknown ids {ids}; "
      "train it with pad_id=0, eos_id=1, unk_id=2."
    )
  return processor
