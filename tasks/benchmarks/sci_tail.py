"""SciTail (Khot et al. 2018): does a sentence support a statement of science.

    {'premise': 'Pluto rotates once on its axis every 6.39 Earth days.',
     'hypothesis': 'Earth rotates on its axis once times in one day.',
     'label': 1}
    -> 'sci_tail hypothesis: Earth rotates on its axis once times in one day.
        premise: Pluto rotates once on its axis every 6.39 Earth days.',
       'neutral'

Written as t5 writes MNLI.
"""

import functools

import seqio

from tasks.formats import forms
from tasks.formats import labelled_text
from tasks.formats.steps import TOKENIZED
from tasks.sources.tfds import PreparedTfdsDataSource
from tasks.vocabulary import t5_features
from transformer_zoo.evaluation.answers import post_processors
from transformer_zoo.evaluation.metrics import classification

# TFDS's names, in the order of its labels.
_CLASSES = ("entails", "neutral")
seqio.TaskRegistry.add(
  "sci_tail_v100",
  source=PreparedTfdsDataSource(
    "sci_tail:1.0.0", splits=("train", "validation", "test")
  ),
  preprocessors=[
    functools.partial(
      labelled_text.labelled, benchmark="sci_tail", label_classes=_CLASSES
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
  "sci_tail_v100", "{premise}", "{hypothesis}", classes=_CLASSES
)
