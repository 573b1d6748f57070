"""HellaSwag (Zellers et al. 2019): how does a description go on, as text.

    {'context': 'A man is sitting on a roof. he',
     'endings': ['is using wrap to wrap a pair of skis.',
                 'is ripping level tiles off.', "is holding a rubik's cube.",
                 'starts pulling up roofing on a roof.'],
     'activity_label': 'Roof shingle removal', 'label': 3,
     'split_type': 'indomain', 'source_id': 'activitynet~v_-JhWjGDPHMY'}
    -> "hellaswag choice1: is using wrap to wrap a pair of skis. choice2: is
        ripping level tiles off. choice3: is holding a rubik's cube. choice4:
        starts pulling up roofing on a roof. activity_label: Roof shingle
        removal context: A man is sitting on a roof. he", 'choice4'

Test labels are hidden (-1, target `<unk>`): scores are on validation.
"""

import functools

import seqio

from tasks.formats import forms
from tasks.formats import multiple_choice as formats
from tasks.formats.steps import TOKENIZED
from tasks.sources.tfds import PreparedTfdsDataSource
from tasks.vocabulary import t5_features
from transformer_zoo.evaluation.answers import post_processors
from transformer_zoo.evaluation.metrics import classification

seqio.TaskRegistry.add(
  "hellaswag_v110",
  source=PreparedTfdsDataSource(
    "hellaswag:1.1.0", splits=("train", "validation", "test")
  ),
  preprocessors=[formats.hellaswag, *TOKENIZED],
  postprocess_fn=functools.partial(
    post_processors.string_label_to_class_id, label_classes=formats.CHOICES
  ),
  metric_fns=[classification.accuracy],
  output_features=t5_features(),
)
forms.register_choices(
  "hellaswag_v110",
  "{activity_label}: {context}",
  formats.hellaswag_endings,
  answers=formats.CHOICES,
)
