"""SNLI (Bowman et al. 2015): does one sentence follow from the other.

    {'premise': 'A person on a horse jumps over a broken down airplane.',
     'hypothesis': 'A person is outdoors, on a horse.', 'label': 0}
    -> 'snli hypothesis: A person is outdoors, on a horse. premise: A person on
        a horse jumps over a broken down airplane.', 'entailment'

Written as t5 writes MNLI. Pairs on which the annotators did not agree have no
label (-1); they are left out, as everywhere.
"""

import functools

import seqio
import tensorflow as tf

from tasks.formats import forms
from tasks.formats import labelled_text
from tasks.formats.steps import TOKENIZED
from tasks.sources.tfds import PreparedTfdsDataSource
from tasks.vocabulary import t5_features
from transformer_zoo.evaluation.answers import post_processors
from transformer_zoo.evaluation.metrics import classification

_CLASSES = ("entailment", "neutral", "contradiction")


def drop_unlabelled(dataset: tf.data.Dataset) -> tf.data.Dataset:
  """Leaves out the examples whose label is -1."""
  return dataset.filter(lambda example: example["label"] >= 0)


seqio.TaskRegistry.add(
  "snli_v110",
  source=PreparedTfdsDataSource(
    "snli:1.1.0", splits=("train", "validation", "test")
  ),
  preprocessors=[
    drop_unlabelled,
    functools.partial(
      labelled_text.labelled, benchmark="snli", label_classes=_CLASSES
    ),
    *TOKENIZED,
  ],
  postprocess_fn=functools.partial(
    post_processors.string_label_to_class_id, label_classes=_CLASSES
  ),
  metric_fns=[classification.accuracy],
  output_features=t5_features(),
)
forms.register_classes(
  "snli_v110", "{premise}", "{hypothesis}", classes=_CLASSES
)
forms.register_embedding(
  "snli_v110", ["{premise}", "{hypothesis}"], label=forms.number, scored=False
)
