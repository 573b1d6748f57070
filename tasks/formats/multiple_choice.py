"""Multiple-choice questions as text, as t5 writes COPA's.

    'copa choice1: A choice2: B premise: P question: effect' -> 'choice2'

The t5 package has COPA alone. Here the choices are numbered in the same way,
and the longest field stands last, so that a trimmed example keeps its choices.
"""

import seqio
import tensorflow as tf

from tasks.formats import labelled_text

CHOICES = ("choice1", "choice2", "choice3", "choice4")
_LETTERS = ("A", "B", "C", "D")


@seqio.map_over_dataset
def hellaswag(example: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
  """Writes a description with numbered endings; the right one is the target.

      {'activity_label': 'Roofing', 'context': 'He sits down. He',
       'endings': ['eats.', 'flies.', 'sings.', 'falls.'], 'label': 3, ...}
      -> 'hellaswag choice1: eats. choice2: flies. choice3: sings.
          choice4: falls. activity_label: Roofing context: He sits down. He',
         'choice4'

  Args:
    example: a row of HellaSwag.

  Returns:
    `inputs`, `targets` (`<unk>` for a hidden label), and the row's `source_id`.
  """
  endings = example["endings"]
  choices = _number(endings, tf.range(1, tf.size(endings) + 1))
  return {
    "inputs": tf.strings.join(
      [
        "hellaswag",
        tf.strings.reduce_join(choices, separator=" "),
        "activity_label:",
        example["activity_label"],
        "context:",
        example["context"],
      ],
      separator=" ",
    ),
    "targets": labelled_text.label_word(example["label"], CHOICES),
    "source_id": example["source_id"],
  }


def hellaswag_endings(example: dict[str, tf.Tensor]) -> tf.Tensor:
  """Returns the endings of a row of HellaSwag."""
  return example["endings"]


def race(dataset: tf.data.Dataset) -> tf.data.Dataset:
  """Writes each question about an article as an example.

      {'article': 'It rained.', 'questions': ['How was it?'],
       'options': [['dry', 'wet', 'hot', 'cold']], 'answers': ['B'],
       'example_id': 'high1.txt'}
      -> 'race question: How was it? choice1: dry choice2: wet choice3: hot
          choice4: cold article: It rained.', 'choice2'

  Args:
    dataset: rows of RACE: an article and its questions.

  Returns:
    `inputs`, `targets`, and `idx`: the article's id and the question's place.
  """

  def questions(example):
    options = example["options"]
    numbers = tf.ragged.range(options.row_lengths()) + 1
    choices = options.with_values(_number(options.values, numbers.values))
    inputs = tf.strings.join(
      [
        "race question:",
        example["questions"],
        tf.strings.reduce_join(choices, axis=-1, separator=" "),
        "article:",
        example["article"],
      ],
      separator=" ",
    )
    is_answer = example["answers"][:, tf.newaxis] == tf.constant(_LETTERS)
    answer = tf.gather(CHOICES, tf.argmax(tf.cast(is_answer, tf.int32), axis=1))
    places = tf.strings.as_string(tf.range(tf.size(answer)))
    return {
      "inputs": inputs,
      "targets": tf.where(tf.reduce_any(is_answer, axis=1), answer, "<unk>"),
      "idx": tf.strings.join([example["example_id"], places], separator="/"),
    }

  dataset = dataset.map(
    questions, num_parallel_calls=tf.data.experimental.AUTOTUNE
  )
  return dataset.unbatch()


def race_questions(dataset: tf.data.Dataset) -> tf.data.Dataset:
  """Returns each question about an article as a row, in the order of `race`.

  Args:
    dataset: rows of RACE: an article and its questions.

  Returns:
    `article`, `question` and `options` of each question.
  """

  def questions(example):
    options = example["options"]
    number = options.nrows()
    return {
      "article": tf.repeat(example["article"], number),
      "question": example["questions"],
      "options": options,
    }

  return dataset.map(questions).unbatch()


def race_choices(example: dict[str, tf.Tensor]) -> tf.Tensor:
  """Returns the question with each of its options, of `race_questions`."""
  return tf.strings.join(
    [example["question"], example["options"]], separator=" "
  )


def copa_premise(example: dict[str, tf.Tensor]) -> tf.Tensor:
  """Returns the premise of a row of COPA and what is asked about it."""
  asks_cause = tf.equal(example["question"], "cause")
  question = tf.where(
    asks_cause, "What was the cause of this?", "What happened as a result?"
  )
  return tf.strings.join([example["premise"], question], separator=" ")


def _number(choices: tf.Tensor, numbers: tf.Tensor) -> tf.Tensor:
  """Returns `choice1: <the first>` and so on."""
  return tf.strings.join(
    ["choice", tf.strings.as_string(numbers), ": ", choices]
  )
