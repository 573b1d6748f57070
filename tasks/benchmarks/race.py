"""RACE (Lai et al. 2017): questions of English examinations, as text.

    {'article': 'It rained.', 'questions': ['How was it?', ...],
     'options': [['dry', 'wet', 'hot', 'cold'], ...], 'answers': ['B', ...],
     'example_id': 'high1.txt'}
    -> 'race question: How was it? choice1: dry choice2: wet choice3: hot
        choice4: cold article: It rained.', 'choice2'

An article has several questions, and each is an example. The published accuracy
of RACE is over the examples of both sets together.
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

_SPLITS = {"train": "train", "validation": "dev", "test": "test"}
_class_of = functools.partial(
  post_processors.string_label_to_class_id, label_classes=formats.CHOICES
)

# Examinations of senior high schools.
seqio.TaskRegistry.add(
  "race_high_v200",
  source=PreparedTfdsDataSource("race/high:2.0.0", splits=_SPLITS),
  preprocessors=[formats.race, *TOKENIZED],
  postprocess_fn=_class_of,
  metric_fns=[classification.accuracy],
  output_features=t5_features(),
)
forms.register_choices(
  "race_high_v200",
  "{article}",
  formats.race_choices,
  answers=formats.CHOICES,
  expand=formats.race_questions,
)

# Examinations of middle schools.
seqio.TaskRegistry.add(
  "race_middle_v200",
  source=PreparedTfdsDataSource("race/middle:2.0.0", splits=_SPLITS),
  preprocessors=[formats.race, *TOKENIZED],
  postprocess_fn=_class_of,
  metric_fns=[classification.accuracy],
  output_features=t5_features(),
)
forms.register_choices(
  "race_middle_v200",
  "{article}",
  formats.race_choices,
  answers=formats.CHOICES,
  expand=formats.race_questions,
)
