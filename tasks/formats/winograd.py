"""Winograd schemas in text-to-text form: to whom does a pronoun refer?

`judged` asks whether a given noun is the referent; the others ask for the
referent itself, with the pronoun between asterisks, and so train and score
together (WSC, DPR, WNLI). The strings are those of t5
`data/preprocessors.py`, also where a span holds a character that means
something in a regular expression: t5 takes spans as patterns.
"""

import seqio
import tensorflow as tf

from tasks.formats import labelled_text
from tasks.formats import winograd_pairs

# Two texts of SuperGLUE whose pronoun is not the word that the row points to,
# with X where it is.
_BLANKED = (
  (
    "The boy continued to whip the pony , and eventually the pony threw him "
    'over. John laughed out quite loud. "Good for him," he said. ',
    "The boy continued to whip the pony , and eventually the pony threw him "
    'over. John laughed out quite loud. "Good for X ," he said.',
  ),
  (
    "When they had eventually calmed down a bit , and had gotten home, Mr. "
    "Farley put the magic pebble in an iron safe . Some day they might want to "
    "use it , but really for now, what more could they wish for?",
    "When they had eventually calmed down a bit , and had gotten home, Mr. "
    "Farley put the magic pebble in an iron safe . Some day they might want to "
    "use X , but really for now, what more could they wish for?",
  ),
)


@seqio.map_over_dataset
def judged(example: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
  """Marks a noun and a pronoun; does the pronoun refer to the noun?

      {'text': 'The fish ate the worm . It was hungry.', 'label': 0,
       'span1_text': 'the worm', 'span1_index': 3,
       'span2_text': 'It', 'span2_index': 6, 'idx': 497}
      -> 'wsc text: The fish ate * the worm * . # It # was hungry.', 'False'

  A span that does not stand where its index says stays unmarked. From t5
  `preprocessors.wsc`, which the published mixtures do not use.

  Args:
    example: a row of SuperGLUE's WSC; the indices count words.

  Returns:
    `inputs`, `targets` (`<unk>` where the label is hidden) and `idx`.
  """
  noun, pronoun = example["span1_index"], example["span2_index"]
  # The asterisks around the noun are words as well.
  pronoun += 2 * tf.cast(noun < pronoun, tf.int32)
  text = _mark(example["text"], noun, example["span1_text"], "*")
  text = _mark(text, pronoun, example["span2_text"], "#")
  return {
    "inputs": tf.strings.join(["wsc text:", text], separator=" "),
    "targets": labelled_text.label_word(example["label"], ("False", "True")),
    "idx": example["idx"],
  }


def schema(
  dataset: tf.data.Dataset, correct_only: bool = False
) -> tf.data.Dataset:
  """Marks a pronoun; the target is the noun that the row proposes.

      {'text': 'The fish ate the worm . It was hungry.', 'label': 0,
       'span1_text': 'the worm', 'span2_text': 'It', 'span2_index': 6,
       'idx': 497}
      -> 'wsc: The fish ate the worm . *It* was hungry.', 'the worm'

  From t5 `preprocessors.wsc_simple`.

  Args:
    dataset: rows of SuperGLUE's WSC.
    correct_only: keep the rows whose noun is the referent, which are those to
      train on.

  Returns:
    `inputs`, `targets`, `label` and `idx` of each row.

  Raises:
    tf.errors.InvalidArgumentError: when read, a row whose word at
      `span2_index` is not its pronoun, or is the first word.
  """
  if correct_only:
    dataset = dataset.filter(
      lambda example: tf.cast(example.get("label", False), tf.bool)
    )
  return dataset.map(_schema, num_parallel_calls=tf.data.AUTOTUNE)


@seqio.map_over_dataset
def definite_pronoun(example: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
  """Marks the first pronoun of its kind; the target is what it refers to.

      {'sentence': 'Bob asked Tom if he can lend some money.',
       'pronoun': 'he', 'candidates': ['Bob', 'Tom'], 'label': 1}
      -> 'wsc: Bob asked Tom if *he* can lend some money.', 'Tom'

  A pronoun without a space before it, or without a space, a full stop or a
  comma behind it, stays unmarked. From t5
  `preprocessors.definite_pronoun_resolution_simple`.

  Args:
    example: a row of the Definite Pronoun Resolution data.

  Returns:
    `inputs` and `targets`.
  """
  pattern = tf.strings.join([" (", example["pronoun"], ")([ .,])"])
  text = tf.strings.regex_replace(
    example["sentence"], pattern, r" *\1*\2", replace_global=False
  )
  return {
    "inputs": tf.strings.join(["wsc:", text], separator=" "),
    "targets": example["candidates"][example["label"]],
  }


@seqio.map_over_dataset
def entailment_pair(example: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
  """Recasts a pair of WNLI: what does the hypothesis put for the pronoun?

      {'sentence1': 'The drain is clogged with hair. It has to be cleaned.',
       'sentence2': 'The drain has to be cleaned.', 'label': 1, 'idx': 39}
      -> 'wsc: The drain is clogged with hair. *It* has to be cleaned.',
         'The drain'

  For evaluation: the rules of `winograd_pairs` were checked by t5's authors on
  validation and test alone. From t5 `preprocessors.wnli_simple`.

  Args:
    example: a row of GLUE's WNLI.

  Returns:
    `inputs`, `targets`, `premise`, `hypothesis`, `label` and `idx`.
  """
  premise, hypothesis = example["sentence1"], example["sentence2"]
  marked, referent = tf.numpy_function(
    winograd_pairs.recast, [premise, hypothesis], [tf.string, tf.string]
  )
  return {
    "inputs": tf.strings.join(
      ["wsc:", tf.ensure_shape(marked, [])], separator=" "
    ),
    "targets": tf.ensure_shape(referent, []),
    "premise": premise,
    "hypothesis": hypothesis,
    "label": example.get("label", 0),
    "idx": example["idx"],
  }


def _mark(
  text: tf.Tensor, index: tf.Tensor, span: tf.Tensor, mark: str
) -> tf.Tensor:
  """Puts `mark` before and behind the span that starts at word `index`."""
  # A span is put into the pattern as a replacement, as in t5: a backslash in it
  # is an escape.
  span = tf.strings.regex_replace("W", "W", span)
  pattern = tf.strings.join(
    [r"^((?:\S+\s){", tf.strings.as_string(index), "})(", span, ")"]
  )
  return tf.strings.regex_replace(text, pattern, rf"\1{mark} \2 {mark}")


def _schema(example: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
  """Formats one row for `schema`."""
  text, index = example["text"], example["span2_index"]
  pronoun = example["span2_text"]
  words = tf.strings.split(text, sep=" ")
  in_text = [
    tf.debugging.assert_positive(
      index, "span2_index is the first word of the text, or none"
    ),
    tf.debugging.assert_less(
      index, tf.size(words), "span2_index is behind the last word of the text"
    ),
  ]
  with tf.control_dependencies(in_text):
    before, word, after = words[:index], words[index], words[index + 1 :]
  is_known = tf.reduce_any([tf.equal(text, found) for found, _ in _BLANKED])
  is_pronoun = tf.debugging.Assert(
    tf.equal(word, pronoun) | is_known,
    ["span2_text is not the word at span2_index:", pronoun, word],
  )
  with tf.control_dependencies([is_pronoun]):
    blanked = tf.strings.join(
      [
        tf.strings.reduce_join(before, separator=" "),
        "X",
        tf.strings.reduce_join(after, separator=" "),
      ],
      separator=" ",
    )
  for found, written in _BLANKED:
    blanked = tf.where(tf.equal(text, found), written, blanked)
  # Every X that is a word, as in t5.
  marked = tf.strings.regex_replace(blanked, " X ", " *" + pronoun + "* ")
  return {
    "inputs": tf.strings.join(["wsc:", marked], separator=" "),
    "targets": example["span1_text"],
    "label": example.get("label", 0),
    "idx": example["idx"],
  }
