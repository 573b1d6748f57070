"""Raw examples into T5's text-to-text form: formatters that sources share.

Each is a SeqIO preprocessor over a dataset of raw examples; the strings equal
`t5/data/preprocessors.py`, character by character. Where the T5 paper's
Appendix D differs (MNLI's premise first, COPA's target "True", WiC's `pos`),
the code is followed: it made the published models.
"""

from collections.abc import Sequence

import seqio
import tensorflow as tf


@seqio.map_over_dataset
def labelled(
  example: dict[str, tf.Tensor],
  benchmark: str,
  label_classes: Sequence[str],
  feature_names: Sequence[str] | None = None,
) -> dict[str, tf.Tensor]:
  """Writes a classification example as text, its label as a word.

      {'question1': 'How so?', 'question2': 'Why not?', 'label': 0, 'idx': 7}
      -> 'qqp question1: How so? question2: Why not?', 'not_duplicate'

  From t5 `preprocessors.glue`.

  Args:
    example: strings, an integer `label`, and mostly `idx`.
    benchmark: first word of the inputs.
    label_classes: the target words in the order of the labels; label -1 (a
      hidden one) becomes `<unk>`.
    feature_names: the strings in order; without it, all in alphabetical order.

  Returns:
    `inputs`, `targets`, and `idx` where the example has one.
  """
  names = feature_names or sorted(set(example) - {"idx", "label"})
  index = {"idx": example["idx"]} if "idx" in example else {}
  return {
    "inputs": join_fields(benchmark, names, example),
    "targets": label_word(example["label"], label_classes),
    **index,
  }


@seqio.map_over_dataset
def similarity(
  example: dict[str, tf.Tensor], benchmark: str
) -> dict[str, tf.Tensor]:
  """Writes a scored sentence pair as text, its score to the nearest 0.2.

      {'sentence1': 'A man sings.', 'sentence2': 'Who sings?', 'label': 2.57}
      -> 'stsb sentence1: A man sings. sentence2: Who sings?', '2.6'

  Halves go to the even fifth (0.5 -> 0.4, 1.5 -> 1.6), as `tf.round` does. 26
  targets from 0.0 to 5.0, where the T5 paper counts 21 from 1.0. From t5
  `preprocessors.stsb`.

  Args:
    example: `sentence1`, `sentence2`, a float `label` from 0 to 5, and `idx`.
    benchmark: first word of the inputs.

  Returns:
    `inputs`, `targets` and `idx`.
  """
  return {
    "inputs": join_fields(benchmark, ["sentence1", "sentence2"], example),
    "targets": tf.strings.as_string(
      tf.round(example["label"] * 5) / 5, precision=1
    ),
    "idx": example["idx"],
  }


def join_fields(
  benchmark: str, names: Sequence[str], example: dict[str, tf.Tensor]
) -> tf.Tensor:
  """Returns the string `benchmark name: value name: value`."""
  parts = [benchmark]
  for name in names:
    parts += [f"{name}:", example[name]]
  return tf.strings.join(parts, separator=" ")


def label_word(label: tf.Tensor, label_classes: Sequence[str]) -> tf.Tensor:
  """Returns the target word of an integer label; `<unk>` for -1 (hidden).

  Raises:
    tf.errors.InvalidArgumentError: when read, a label that is no class.
  """
  classes = ", ".join(label_classes)
  is_label = tf.debugging.Assert(
    (label >= -1) & (label < len(label_classes)),
    [f"label is neither -1 (hidden) nor one of {classes}:", label],
  )
  with tf.control_dependencies([is_label]):
    return tf.gather(tf.constant(["<unk>", *label_classes]), label + 1)
