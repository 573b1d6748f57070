"""RACE (Lai et al. 2017): questions of English examinations, as text.

    {'article': 'It rained.', 'questions': ['How was it?', ...],
     'options': [['dry', 'wet', 'hot', 'cold'], ...], 'answers': ['B', ...],
     'example_id': 'high1.txt'}
    -> 'race question: How was it? choice1: dry choice2: wet choice3: hot
        choice4: cold article: It rained.', 'choice2'

An article has several questions, and each is an example. The published accuracy
of RACE is that of the examples of both sets together.
"""

import functools

import seqio

from tasks import multiple_choice_formats as formats
from tasks.steps import TOKENIZED
from tasks.tfds_source import PreparedTfdsDataSource
from tasks.vocabulary import t5_features
from transformer_zoo.evaluation import answers
from transformer_zoo.evaluation import metrics

_SPLITS = {"train": "train", "validation": "dev", "test": "test"}
_class_of = functools.partial(
  answers.string_label_to_class_id, label_classes=formats.CHOICES
)

# Examinations of senior high schools.
seqio.TaskRegistry.add(
  "race_high_v200",
  source=PreparedTfdsDataSource("race/high:2.0.0", splits=_SPLITS),
  preprocessors=[formats.race, *TOKENIZED],
  postprocess_fn=_class_of,
  metric_fns=[metrics.accuracy],
  output_features=t5_features(),
)

# Examinations of middle schools.
seqio.TaskRegistry.add(
  "race_middle_v200",
  source=PreparedTfdsDataSource("race/middle:2.0.0", splits=_SPLITS),
  preprocessors=[formats.race, *TOKENIZED],
  postprocess_fn=_class_of,
  metric_fns=[metrics.accuracy],
  output_features=t5_features(),
)
