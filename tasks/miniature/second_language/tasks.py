"""The tasks in talu and about it, in each of three vocabularies.

`_own` and `_extended` are the vocabularies of `vocabulary.py`; without an end,
the suite's. Validation is in talu throughout; `en_talu_nli` is trained in
English.
"""

from collections.abc import Callable, Mapping
import functools
import inspect

import seqio
import tensorflow as tf

from tasks.miniature import source
from tasks.miniature.examples import splits
from tasks.miniature.second_language import vocabulary
from tasks.miniature.second_language import writing
from tasks.your_data.prompted import register_prompts
from transformer_zoo.corruption.span_corruption import SpanCorruption
from transformer_zoo.data import vocabularies
from transformer_zoo.data.prepare.seqio_corruption import CorruptionStep
from transformer_zoo.evaluation.answers import post_processors
from transformer_zoo.evaluation.metrics import classification

_STREAM = 20
_INPUTS = "talu_nli claim: {claim} premise: {premise}"


def _corpus(language: str) -> source.GeneratedSource:
  """Documents `{"text"}` of a language."""

  def read(split, shuffle_files=False, seed=None):
    del shuffle_files, seed  # Documents are in random order already.
    train = source.NUM_DOCUMENTS["train"]
    texts = writing.documents(
      language,
      start=0 if split == "train" else train,
      count=source.NUM_DOCUMENTS[split],
    )
    return tf.data.Dataset.from_tensor_slices({"text": texts})

  return source.GeneratedSource(read, language, source.NUM_DOCUMENTS)


def _rows(convert: Callable, of_train: str) -> source.GeneratedSource:
  """Examples of entailment, in talu outside of `train`.

  Args:
    convert: The function (raw example, language) to a row.
    of_train: The language of `train`, "talu" or "english".
  """

  def read(split, shuffle_files=False, seed=None):
    del shuffle_files, seed  # The examples are in random order already.
    language = of_train if split == "train" else "talu"
    rows = [
      convert(row, language)
      for row in splits.examples(
        writing.entailment, stream=_STREAM, split=split
      )
    ]
    return tf.data.Dataset.from_tensor_slices(
      {field: [row[field] for row in rows] for field in rows[0]}
    )

  return source.GeneratedSource(
    read, inspect.getsource(convert) + of_train, splits.SIZES
  )


def _fields(row: Mapping[str, str], language: str) -> dict[str, str]:
  """What the templates of prompts name."""
  prefix = "talu_" if language == "talu" else ""
  return {
    "premise": row[language],
    "claim": row[f"{prefix}claim"],
    "label": row["label"],
  }


def _texts(row: Mapping[str, str], language: str) -> dict[str, str]:
  """The row as text to text."""
  fields = _fields(row, language)
  return {"inputs": _INPUTS.format(**fields), "targets": fields["label"]}


def _register(end: str, path: str) -> None:
  """Registers all tasks in a vocabulary."""
  of_file = vocabularies.Vocabulary(path).to_seqio()
  features = {
    name: seqio.Feature(vocabulary=of_file, add_eos=True)
    for name in ("inputs", "targets")
  }
  for name, language in {
    "talu_corpus": "talu",
    "mini_english": "english",
  }.items():
    seqio.TaskRegistry.add(
      name + end,
      source=_corpus(language),
      preprocessors=(
        functools.partial(
          seqio.preprocessors.rekey,
          key_map={"inputs": None, "targets": "text"},
        ),
        seqio.preprocessors.tokenize,
        CorruptionStep(SpanCorruption()),
        seqio.preprocessors.append_eos_after_trim,
      ),
      output_features=features,
    )
  for name, of_train in {"talu_nli": "talu", "en_talu_nli": "english"}.items():
    seqio.TaskRegistry.add(
      name + end,
      source=_rows(_texts, of_train),
      preprocessors=(
        seqio.preprocessors.tokenize,
        seqio.preprocessors.append_eos_after_trim,
      ),
      output_features=features,
      postprocess_fn=functools.partial(
        post_processors.string_label_to_class_id,
        label_classes=list(writing.LABELS),
      ),
      metric_fns=[classification.accuracy],
    )
  register_prompts(
    "talu_nli.yaml", _rows(_fields, "talu"), features=features, suffix=end
  )


_register("", source.vocabulary.PATH)
_register("_own", vocabulary.OWN)
_register("_extended", vocabulary.EXTENDED)
