"""Tokenises unlabelled text without TensorFlow, where its steps allow that.

To hand documents over costs TensorFlow as much as to tokenise them.
The ids are those that the task's steps give (`tokenizing_test.py`).
"""

import collections
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent import futures

import numpy as np

from transformer_zoo.data.prepare import sentences
from transformer_zoo.data.prepare.shards import Documents
from transformer_zoo.data.vocabularies import Vocabulary

_BATCH_CHARACTERS = 1 << 17
_BATCH_DOCUMENTS = 1024


def tokenize(
  texts: Iterable[str],
  vocabulary: Vocabulary,
  *,
  language: str | None = None,
  threads: Callable[[], int] = lambda: 1,
) -> Iterator[Documents]:
  """Yields documents as ids, in their order.

  Args:
    texts: documents.
    vocabulary: theirs.
    language: split them into sentences of this language; None: do not.
    threads: A function that returns how many threads may tokenise now; it is
      called for every batch. The calling thread reads ahead meanwhile.
  """
  pending = collections.deque()
  with futures.ThreadPoolExecutor() as executor:
    for batch in _batches(texts):
      while len(pending) >= threads():
        yield pending.popleft().result()
      pending.append(executor.submit(_encode, batch, vocabulary, language))
    while pending:
      yield pending.popleft().result()


def _encode(
  texts: Sequence[str], vocabulary: Vocabulary, language: str | None
) -> Documents:
  if language is not None:
    return Documents(*sentences.encode(texts, vocabulary, language))
  ids = vocabulary.encode_arrays(texts)
  lengths = np.array([len(some) for some in ids], np.int32)
  return Documents(np.concatenate(ids), lengths)


def _batches(texts: Iterable[str]) -> Iterator[list[str]]:
  batch, size = [], 0
  for text in texts:
    batch.append(text)
    size += len(text)
    if size >= _BATCH_CHARACTERS or len(batch) == _BATCH_DOCUMENTS:
      yield batch
      batch, size = [], 0
  if batch:
    yield batch
