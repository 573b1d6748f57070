"""GLUE (Wang et al. 2019) in text-to-text form, named as in the t5 package.

Test labels are hidden (-1, target `<unk>`): scores are on validation.
"""

import functools

import seqio

from tasks import formats
from tasks.tfds_source import PreparedTfdsDataSource
from tasks.vocabulary import t5_features
from transformer_zoo.evaluation import answers
from transformer_zoo.evaluation import metrics

_SPLITS = ("train", "validation", "test")
_TOKENIZED = (
  seqio.preprocessors.tokenize,
  seqio.CacheDatasetPlaceholder(),
  seqio.preprocessors.append_eos_after_trim,
)


# Is the sentence acceptable English?
#   {'sentence': 'There dances a man with an umbrella.', 'label': 0,
#    'idx': 3280}
#   -> 'cola sentence: There dances a man with an umbrella.', 'unacceptable'
_COLA_CLASSES = ("unacceptable", "acceptable")
seqio.TaskRegistry.add(
  "glue_cola_v002",
  source=PreparedTfdsDataSource("glue/cola:2.0.0", splits=_SPLITS),
  preprocessors=[
    functools.partial(
      formats.labelled, benchmark="cola", label_classes=_COLA_CLASSES
    ),
    *_TOKENIZED,
  ],
  postprocess_fn=functools.partial(
    answers.string_label_to_class_id, label_classes=_COLA_CLASSES
  ),
  metric_fns=[metrics.matthews_corrcoef],
  output_features=t5_features(),
)

# Does the fragment of a film review praise or blame?
#   {'sentence': "does n't generate a lot of energy . ", 'label': 0, ...}
#   -> "sst2 sentence: does n't generate a lot of energy . ", 'negative'
_SST2_CLASSES = ("negative", "positive")
seqio.TaskRegistry.add(
  "glue_sst2_v002",
  source=PreparedTfdsDataSource("glue/sst2:2.0.0", splits=_SPLITS),
  preprocessors=[
    functools.partial(
      formats.labelled, benchmark="sst2", label_classes=_SST2_CLASSES
    ),
    *_TOKENIZED,
  ],
  postprocess_fn=functools.partial(
    answers.string_label_to_class_id, label_classes=_SST2_CLASSES
  ),
  metric_fns=[metrics.accuracy],
  output_features=t5_features(),
)

# Do two sentences of the news say the same?
#   {'sentence1': 'Druce will face murder charges, Conte said.',
#    'sentence2': 'Conte said Druce will be charged with murder.',
#    'label': 1, ...}
#   -> 'mrpc sentence1: Druce will face murder charges, Conte said.
#       sentence2: Conte said Druce will be charged with murder.',
#      'equivalent'
_MRPC_CLASSES = ("not_equivalent", "equivalent")
seqio.TaskRegistry.add(
  "glue_mrpc_v002",
  source=PreparedTfdsDataSource("glue/mrpc:2.0.0", splits=_SPLITS),
  preprocessors=[
    functools.partial(
      formats.labelled, benchmark="mrpc", label_classes=_MRPC_CLASSES
    ),
    *_TOKENIZED,
  ],
  postprocess_fn=functools.partial(
    answers.string_label_to_class_id, label_classes=_MRPC_CLASSES
  ),
  metric_fns=[metrics.f1_and_accuracy],
  output_features=t5_features(),
)

# How alike in meaning are two sentences, from 0 to 5?
#   {'sentence1': 'A kangaroo is eating.', 'sentence2': 'Kangaroo eating.',
#    'label': 4.75, ...}
#   -> 'stsb sentence1: A kangaroo is eating. sentence2: Kangaroo eating.',
#      '4.8'
seqio.TaskRegistry.add(
  "glue_stsb_v002",
  source=PreparedTfdsDataSource("glue/stsb:2.0.0", splits=_SPLITS),
  preprocessors=[
    functools.partial(formats.similarity, benchmark="stsb"),
    *_TOKENIZED,
  ],
  postprocess_fn=answers.string_to_float,
  metric_fns=[metrics.pearson_corrcoef, metrics.spearman_corrcoef],
  output_features=t5_features(),
)

# Does the second sentence follow from the first?
#   {'sentence1': 'Yemen, too, was reunified in 1990.',
#    'sentence2': 'Yemen was reunited in 1990.', 'label': 0, ...}
#   -> 'rte sentence1: Yemen, too, was reunified in 1990. sentence2: Yemen was
#       reunited in 1990.', 'entailment'
_RTE_CLASSES = ("entailment", "not_entailment")
seqio.TaskRegistry.add(
  "glue_rte_v002",
  source=PreparedTfdsDataSource("glue/rte:2.0.0", splits=_SPLITS),
  preprocessors=[
    functools.partial(
      formats.labelled, benchmark="rte", label_classes=_RTE_CLASSES
    ),
    *_TOKENIZED,
  ],
  postprocess_fn=functools.partial(
    answers.string_label_to_class_id, label_classes=_RTE_CLASSES
  ),
  metric_fns=[metrics.accuracy],
  output_features=t5_features(),
)
