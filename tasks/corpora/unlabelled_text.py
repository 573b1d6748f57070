"""Unlabelled text under span corruption, in T5's vocabulary.

The files of a corpus are JSON Lines in a data folder (`zoo --data_dir`), with
the document in `text`:

    {"title": "Anarchism", "text": "Anarchism is a political philosophy ..."}
    -> 'Anarchism is a <extra_id_0> philosophy ...', '<extra_id_0> political'

Documents are joined before they are cut into examples, so an example may hold
the end of one and the beginning of the next.
"""

from collections.abc import Callable, Mapping, Sequence
import functools
from typing import Any

import seqio

from tasks.sources.text_files import TextFilesDataSource
from tasks.vocabulary import t5_features
from tasks.your_data.registration import checks_arguments
from transformer_zoo.corruption import SpanCorruption
from transformer_zoo.data.prepare.sentences import TokenizeSentences
from transformer_zoo.data.prepare.seqio_corruption import CorruptionStep
from transformer_zoo.errors import UserError


@checks_arguments
def register_text_task(
  name: str,
  split_to_pattern: Mapping[str, str | Sequence[str]],
  *,
  corruption: Any = None,
  output_features: Mapping[str, seqio.Feature] | None = None,
  text_key: str = "text",
  documents: str = "lines",
  sentences: str | None = None,
) -> seqio.Task:
  """Registers a task over files of text: plain, JSON Lines, Parquet or Arrow.

  Args:
    name: the task's name.
    split_to_pattern: a glob pattern per split, or several (corpora that are
      joined), absolute or relative to a data folder; or a folder that
      `datasets` saved.
    corruption: an object of `transformer_zoo.corruption`; by default T5's span
      corruption, 15 % in spans of 3.
    output_features: `inputs` and `targets`; by default in T5's vocabulary.
    text_key: The field of a JSON object, or the column of a Parquet or Arrow
      file, that holds the document.
    documents: The documents of plain text: 'lines', or 'paragraphs' between
      blank lines.
    sentences: language, as in 'en', whose sentences are tokenised one by one,
      for objectives that ask where they end; by default whole documents are.

  Returns:
    the task.

  Raises:
    UserError: there are no files, `documents` is something else, or the
      language no string.
    ValueError: a task of that name exists.
  """
  if not split_to_pattern:
    raise UserError(
      f"Task {name!r} has no files; give a glob pattern per split, as "
      "{'train': 'corpus/train*'}."
    )
  return seqio.TaskRegistry.add(
    name,
    source=TextFilesDataSource(split_to_pattern, text_key, documents),
    preprocessors=steps(corruption or SpanCorruption(), sentences),
    output_features=output_features or t5_features(),
  )


def steps(
  corruption: Any, sentences: str | None = None
) -> list[Callable[..., Any]]:
  """Returns the steps of an unlabelled task, from `text` to ids with EOS.

  `prepare` knows the first two and does them without TensorFlow.

  Args:
    corruption: an object of `transformer_zoo.corruption`. A run may take
      another (`CORRUPTION`): the prepared files are the same.
    sentences: The language of the sentences, as in `register_text_task`.
  """
  # Whole documents as strings beside their tokens would fill the memory.
  tokenize = functools.partial(
    seqio.preprocessors.tokenize, copy_pretokenized=False
  )
  return [
    functools.partial(seqio.preprocessors.rekey, key_map={"targets": "text"}),
    tokenize if sentences is None else TokenizeSentences(sentences),
    CorruptionStep(corruption),
    seqio.preprocessors.append_eos_after_trim,
  ]


# Encyclopaedia articles, about 16 M tokens.
register_text_task(
  "wikipedia_text_span_corruption",
  {
    "train": "text/wikipedia/train*.jsonl.gz",
    "validation": "text/wikipedia/validation*.jsonl.gz",
  },
)

# Whole books of Project Gutenberg, about 18 M tokens.
register_text_task(
  "books_text_span_corruption",
  {
    "train": "text/books/train*.jsonl.gz",
    "validation": "text/books/validation*.jsonl.gz",
  },
)

# Both: in the place of Wikipedia with the Toronto Books Corpus (Raffel et al.
# 2020, table 8), which is no longer given out.
register_text_task(
  "wikipedia_books_text_span_corruption",
  {
    "train": ["text/wikipedia/train*.jsonl.gz", "text/books/train*.jsonl.gz"],
    "validation": [
      "text/wikipedia/validation*.jsonl.gz",
      "text/books/validation*.jsonl.gz",
    ],
  },
)

# Reviews of films, about 7 M tokens.
register_text_task(
  "reviews_text_span_corruption",
  {
    "train": "text/reviews/train*.jsonl.gz",
    "validation": "text/reviews/validation*.jsonl.gz",
  },
)

# Reuters-21578, about 4 M tokens.
register_text_task(
  "newswire_text_span_corruption",
  {
    "train": "text/newswire/train*.jsonl.gz",
    "validation": "text/newswire/validation*.jsonl.gz",
  },
)

# A thousand documents of C4: for a look at web text, too few to train on.
register_text_task(
  "c4_sample_text_span_corruption",
  {
    "train": "text/c4_sample/train*.jsonl.gz",
    "validation": "text/c4_sample/validation*.jsonl.gz",
  },
)

# WikiText-2 with its official splits, about 3 M tokens.
register_text_task(
  "wikitext2_text_span_corruption",
  {
    "train": "text/wikitext2/train*.jsonl.gz",
    "validation": "text/wikitext2/validation*.jsonl.gz",
    "test": "text/wikitext2/test*.jsonl.gz",
  },
)
