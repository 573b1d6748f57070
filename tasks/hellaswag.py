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

from tasks import multiple_choice_formats as formats
from tasks.steps import TOKENIZED
from tasks.tfds_source import PreparedTfdsDataSource
from tasks.vocabulary import t5_features
from transformer_zoo.evaluation import answers
from transformer_zoo.evaluation import metrics

seqio.TaskRegistry.add(
  "hellaswag_v110",
  source=PreparedTfdsDataSource(
    "hellaswag:1.1.0", splits=("train", "validation", "test")
  ),
  preprocessors=[formats.hellaswag, *TOKENIZED],
  postprocess_fn=functools.partial(
    answers.string_label_to_class_id, label_classes=formats.CHOICES
  ),
  metric_fns=[metrics.accuracy],
  output_features=t5_features(),
)
