"""The corpus of the miniature world with more and with fewer documents.

`mini_corpus_200k` and `mini_corpus_400k`, for larger models, have 2 and 4 times
the documents of `mini_corpus`, among them its own; `mini_corpus_25k`, for a
first look, has its first quarter. Validation has the same 600. They lie apart
from `tasks/miniature`, by whose code the data of the suite is recognised.
"""

import itertools

import seqio
import tensorflow as tf

from tasks.miniature import corpus  # noqa: F401  # Registers `mini_corpus`.
from tasks.miniature import source
from tasks.miniature.documents import domains

_DOMAIN = "chronicle"


def corpus_source(count: int) -> source.GeneratedSource:
  """Returns the source of `count` documents for training."""
  first = source.NUM_DOCUMENTS["train"]
  held_out = source.NUM_DOCUMENTS["validation"]
  # Start and number; those behind `first` follow the held-out ones.
  parts = {
    "train": (
      (0, min(first, count)),
      (first + held_out, max(0, count - first)),
    ),
    "validation": ((first, held_out),),
  }

  def read(split, shuffle_files=False, seed=None):
    del shuffle_files, seed  # Documents are in random order already.
    texts = itertools.chain.from_iterable(
      domains.documents(_DOMAIN, start=start, count=number)
      for start, number in parts[split]
    )
    return tf.data.Dataset.from_tensor_slices({"text": list(texts)})

  sizes = {"train": count, "validation": held_out}
  return source.GeneratedSource(read, f"{_DOMAIN}, {parts}", sizes)


def _add(name: str, count: int) -> None:
  """Registers the task of `mini_corpus` over so many documents."""
  corpus_task = seqio.TaskRegistry.get("mini_corpus")
  seqio.TaskRegistry.add(
    name,
    source=corpus_source(count),
    preprocessors=corpus_task.preprocessors,
    output_features=source.FEATURES,
  )


_add("mini_corpus_25k", 25_000)
_add("mini_corpus_200k", 200_000)
_add("mini_corpus_400k", 400_000)
