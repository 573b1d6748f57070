"""Words with tags into text and back: entities stand in marked brackets.

    EU      I-ORG
    rejects O
    German  I-MISC
    call    O
    -> 'EU rejects German call', '[ EU | ORG ] rejects [ German | MISC ] call'

The form of TANL (Paolini et al. 2021). A word that is nothing but `[`, `]` or
`|` signs gets one more of them in the targets, so that every target can be read
back: `evaluation/answers/tagged_text.py`.
"""

from collections.abc import Sequence

import seqio
import tensorflow as tf


@seqio.map_over_dataset
def bracketed(
  example: dict[str, tf.Tensor],
  benchmark: str,
  tags_key: str = "tags",
  tag_names: Sequence[str] | None = None,
) -> dict[str, tf.Tensor]:
  """Writes a tagged sentence as text, its entities in brackets.

      {'tokens': ['EU', 'rejects'], 'tags': ['I-ORG', 'O']}
      -> 'conll2003 sentence: EU rejects', '[ EU | ORG ] rejects'

  Args:
    example: `tokens` and their tags in IOB1 or IOB2.
    benchmark: first word of the inputs.
    tags_key: the field with the tags.
    tag_names: The names of the tags, if these are numbers.

  Returns:
    `inputs`, `targets`, and for scoring `tokens` and `tags`.
  """
  tokens, tags = example["tokens"], example[tags_key]
  if tag_names is not None:
    tags = tf.gather(tf.constant(list(tag_names)), tags)
  return {
    "inputs": tf.strings.join(
      [f"{benchmark} sentence: ", tf.strings.reduce_join(tokens, separator=" ")]
    ),
    "targets": tf.strings.reduce_join(
      _with_brackets(tokens, tags), separator=" "
    ),
    "tokens": tokens,
    "tags": tags,
  }


def _with_brackets(tokens: tf.Tensor, tags: tf.Tensor) -> tf.Tensor:
  """Returns the words, escaped, the first and last of each entity marked."""
  for sign in (r"\[", r"\]", r"\|"):
    tokens = tf.strings.regex_replace(tokens, f"^({sign}+)$", rf"\1{sign[1]}")
  kinds = tf.strings.regex_replace(tags, "^(O$|[BI]-)", "")
  inside = kinds != ""
  before = tf.concat([[""], kinds[:-1]], 0)
  begins = inside & (
    tf.strings.regex_full_match(tags, "B-.*") | (kinds != before)
  )
  # Before a word that begins an entity or is in none, and at the end.
  ends = inside & tf.concat([(begins | ~inside)[1:], [True]], 0)
  after = tf.strings.join([" | ", kinds, " ]"])
  return tf.strings.join(
    [tf.where(begins, "[ ", ""), tokens, tf.where(ends, after, "")]
  )
