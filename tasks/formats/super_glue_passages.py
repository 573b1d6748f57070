"""The two sets of SuperGLUE that are read from a passage, as text.

Strings and side fields are as in t5 `data/preprocessors.py`.
"""

import seqio
import tensorflow as tf

from tasks.formats import labelled_text


@seqio.map_over_dataset
def multirc(example: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
  """Writes a question and one candidate answer as text: is it right?

      {'question': 'Who sang?', 'answer': 'Ann', 'label': 1,
       'paragraph': '<b>Sent 1: </b>Ann sang.<br><b>Sent 2: </b>Bob left.',
       'idx': {'paragraph': 2, 'question': 5, 'answer': 9}}
      -> 'multirc question: Who sang? answer: Ann paragraph: Sent 1: Ann sang.
          Sent 2: Bob left.', 'True'

  The bold and line-break marks of HTML go, which the T5 paper's Appendix D
  still shows. From t5 `preprocessors.glue`.

  Args:
    example: a row of MultiRC.

  Returns:
    `inputs`, `targets` (`<unk>` where the label is hidden), and the three
    numbers as `idx/paragraph`, `idx/question` and `idx/answer`; the answers to
    one question are scored together.
  """
  names = ("question", "answer", "paragraph")
  return {
    "inputs": _without_marks(
      labelled_text.join_fields("multirc", names, example)
    ),
    "targets": labelled_text.label_word(example["label"], ("False", "True")),
    "idx/paragraph": example["idx"]["paragraph"],
    "idx/question": example["idx"]["question"],
    "idx/answer": example["idx"]["answer"],
  }


def plain_paragraph(example: dict[str, tf.Tensor]) -> tf.Tensor:
  """Returns the paragraph of a row of MultiRC without the marks of HTML."""
  return _without_marks(example["paragraph"])


def _without_marks(text: tf.Tensor) -> tf.Tensor:
  text = tf.strings.regex_replace(text, "<br>", " ")
  return tf.strings.regex_replace(text, "</?b>", "")


def record(dataset: tf.data.Dataset) -> tf.data.Dataset:
  r"""Writes a passage and a sentence with a gap as text, once for each answer.

      {'passage': 'Ann met Bo.\n@highlight\nBo sang',
       'entities': ['Ann', 'Bo'], 'answers': ['Bo'],
       'query': 'It was @placeholder who sang.',
       'idx': {'passage': 2, 'query': 5}}
      -> 'record query: It was @placeholder who sang. entities: Ann, Bo passage:
          Ann met Bo. Bo sang', 'Bo'

  A highlight becomes one more sentence: a full stop is put before it where the
  text has no closing mark. From t5 `preprocessors.record`.

  Args:
    dataset: rows of ReCoRD.

  Returns:
    For each answer of a row, or once with the target `<unk>` where it has none
    (the test set): `inputs`, `targets`, `answers` (all of them), `idx/passage`
    and `idx/query`; the examples of one query are scored as one.
  """
  return dataset.flat_map(_record)


def _record(example: dict[str, tf.Tensor]) -> tf.data.Dataset:
  """Formats one row for `record`."""
  passage = tf.strings.regex_replace(
    example["passage"], "([.?!\"'])\n@highlight\n", r"\1 "
  )
  passage = tf.strings.regex_replace(passage, "\n@highlight\n", ". ")
  entities = tf.strings.reduce_join(example["entities"], separator=", ")
  fields = {"query": example["query"], "entities": entities, "passage": passage}
  answers = example["answers"]
  common = {
    "inputs": labelled_text.join_fields("record", list(fields), fields),
    "answers": answers,
    "idx/passage": example["idx"]["passage"],
    "idx/query": example["idx"]["query"],
  }
  targets = tf.cond(
    tf.size(answers) > 0, lambda: answers, lambda: tf.constant(["<unk>"])
  )
  return tf.data.Dataset.from_tensor_slices(targets).map(
    lambda target: common | {"targets": target}
  )
