r"""Sets as a language model is asked without fine-tuning (GPT, section 5).

Radford et al. 2018 compare log-likelihoods: of what follows a pronoun once each
referent stands in its place, and of a sentence with a threshold. The examples
are made for rank classification, `(idx, is_correct)` each.
"""

from collections.abc import Sequence

import seqio
import tensorflow as tf


def substituted(
  dataset: tf.data.Dataset,
  text: str,
  candidates: str | Sequence[str],
  mark: str,
) -> tf.data.Dataset:
  r"""Puts each candidate in the place of a mark; the targets are the rest.

      {'sentence': 'The cup did not fit the bag as _ was too big.',
       'option1': 'the cup', 'option2': 'the bag', 'label': 0}
      -> 'The cup did not fit the bag as the cup', ' was too big.'
         'The cup did not fit the bag as the bag', ' was too big.'

  Args:
    dataset: Rows with a `label`, the index of the right candidate or its text.
    text: The field of the text.
    candidates: The field with the list of candidates, or a field for each.
    mark: The regular expression of what stands in their place.

  Returns:
    The dataset of an example for each candidate.
  """

  def write(row, example):
    before = tf.strings.regex_replace(example[text], f"(?s){mark}.*$", "")
    after = tf.strings.regex_replace(
      example[text], f"(?s)^.*?{mark}", "", replace_global=False
    )
    if isinstance(candidates, str):
      words = example[candidates]
    else:
      words = tf.stack([example[field] for field in candidates])
    label = example["label"]
    places = tf.range(tf.size(words))
    if label.dtype == tf.string:
      is_correct = tf.equal(words, label)
    else:
      is_correct = tf.equal(places, tf.cast(label, tf.int32))
    return tf.data.Dataset.from_tensor_slices(
      {
        "inputs": tf.strings.join([before, words]),
        "targets": tf.repeat(tf.strings.strip(after), tf.size(words)),
        "idx": tf.stack([tf.repeat(row, tf.size(words)), places], axis=1),
        "is_correct": is_correct,
      }
    )

  rows = dataset.enumerate()
  rows = rows.map(lambda row, example: (tf.cast(row, tf.int32), example))
  return rows.flat_map(write)


@seqio.map_over_dataset
def mark_pronoun(example: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
  """Writes _ for the first pronoun of its kind in Definite Pronouns.

      {'sentence': 'Bob asked Tom if he can lend some money.',
       'pronoun': 'he', 'candidates': ['Bob', 'Tom'], 'label': 1}
      -> 'Bob asked Tom if _ can lend some money.'

  Args:
    example: A row of the Definite Pronoun Resolution data.
  """
  pattern = tf.strings.join([r"\b", example["pronoun"], r"\b"])
  sentence = tf.strings.regex_replace(
    example["sentence"], pattern, "_", replace_global=False
  )
  return {**example, "sentence": sentence}


def judged(
  dataset: tf.data.Dataset, sentence: str, acceptable: int | str
) -> tf.data.Dataset:
  """Makes a sentence the targets, behind nothing; it is right if acceptable.

      {'sentence': 'There dances a man.', 'label': 1}
      -> '', 'There dances a man.', is_correct, idx [0, 0]

  Args:
    dataset: Rows with a `label`.
    sentence: The field of the sentence.
    acceptable: The label of acceptable sentences.
  """

  def write(row, example):
    return {
      "inputs": "",
      "targets": example[sentence],
      "idx": tf.stack([tf.cast(row, tf.int32), 0]),
      "is_correct": tf.equal(example["label"], acceptable),
    }

  return dataset.enumerate().map(write)
