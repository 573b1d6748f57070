"""GLUE (Wang et al. 2019), named as in the t5 package: text-to-text and forms.

Test labels are hidden (-1, target `<unk>`): scores are on validation. Where
the paper and the released code of T5 disagree, the code is followed: MNLI puts
the hypothesis first, and STS-B has 26 targets from 0.0, not 21 from 1.0.
"""

import functools

import seqio

from tasks.formats import forms
from tasks.formats import labelled_text
from tasks.formats import winograd
from tasks.formats.steps import TOKENIZED
from tasks.sources.tfds import PreparedTfdsDataSource
from tasks.vocabulary import t5_features
from transformer_zoo.evaluation.answers import post_processors
from transformer_zoo.evaluation.metrics import classification

_SPLITS = ("train", "validation", "test")


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
      labelled_text.labelled, benchmark="cola", label_classes=_COLA_CLASSES
    ),
    *TOKENIZED,
  ],
  postprocess_fn=functools.partial(
    post_processors.string_label_to_class_id, label_classes=_COLA_CLASSES
  ),
  metric_fns=[classification.matthews_corrcoef],
  output_features=t5_features(),
)
forms.register_classes("glue_cola_v002", "{sentence}", classes=_COLA_CLASSES)

# Does the fragment of a film review praise or blame?
#   {'sentence': "does n't generate a lot of energy . ", 'label': 0, ...}
#   -> "sst2 sentence: does n't generate a lot of energy . ", 'negative'
_SST2_CLASSES = ("negative", "positive")
seqio.TaskRegistry.add(
  "glue_sst2_v002",
  source=PreparedTfdsDataSource("glue/sst2:2.0.0", splits=_SPLITS),
  preprocessors=[
    functools.partial(
      labelled_text.labelled, benchmark="sst2", label_classes=_SST2_CLASSES
    ),
    *TOKENIZED,
  ],
  postprocess_fn=functools.partial(
    post_processors.string_label_to_class_id, label_classes=_SST2_CLASSES
  ),
  metric_fns=[classification.accuracy],
  output_features=t5_features(),
)
forms.register_classes("glue_sst2_v002", "{sentence}", classes=_SST2_CLASSES)

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
      labelled_text.labelled, benchmark="mrpc", label_classes=_MRPC_CLASSES
    ),
    *TOKENIZED,
  ],
  postprocess_fn=functools.partial(
    post_processors.string_label_to_class_id, label_classes=_MRPC_CLASSES
  ),
  metric_fns=[classification.f1_and_accuracy],
  output_features=t5_features(),
)
forms.register_classes(
  "glue_mrpc_v002", "{sentence1}", "{sentence2}", classes=_MRPC_CLASSES
)

# Do two questions of Quora ask the same?
#   {'question1': 'How can I learn to swim?',
#    'question2': 'What is the best way to learn swimming?', 'label': 1, ...}
#   -> 'qqp question1: How can I learn to swim? question2: What is the best way
#       to learn swimming?', 'duplicate'
_QQP_CLASSES = ("not_duplicate", "duplicate")
seqio.TaskRegistry.add(
  "glue_qqp_v002",
  source=PreparedTfdsDataSource("glue/qqp:2.0.0", splits=_SPLITS),
  preprocessors=[
    functools.partial(
      labelled_text.labelled, benchmark="qqp", label_classes=_QQP_CLASSES
    ),
    *TOKENIZED,
  ],
  postprocess_fn=functools.partial(
    post_processors.string_label_to_class_id, label_classes=_QQP_CLASSES
  ),
  metric_fns=[classification.f1_and_accuracy],
  output_features=t5_features(),
)
forms.register_classes(
  "glue_qqp_v002", "{question1}", "{question2}", classes=_QQP_CLASSES
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
    functools.partial(labelled_text.similarity, benchmark="stsb"),
    *TOKENIZED,
  ],
  postprocess_fn=post_processors.string_to_float,
  metric_fns=[
    classification.pearson_corrcoef,
    classification.spearman_corrcoef,
  ],
  output_features=t5_features(),
)
forms.register_number(
  "glue_stsb_v002", "{sentence1}", "{sentence2}", hidden=-1.0
)
forms.register_embedding(
  "glue_stsb_v002",
  ["{sentence1}", "{sentence2}"],
  label=functools.partial(forms.number, hidden=-1.0),
)

# Does the hypothesis follow from the premise, or contradict it?
#   {'premise': 'I hate pigeons.', 'hypothesis': 'My feelings towards pigeons
#    are filled with animosity.', 'label': 0, ...}
#   -> 'mnli hypothesis: My feelings towards pigeons are filled with animosity.
#       premise: I hate pigeons.', 'entailment'
_MNLI_CLASSES = ("entailment", "neutral", "contradiction")
_MNLI_STEPS = (
  functools.partial(
    labelled_text.labelled, benchmark="mnli", label_classes=_MNLI_CLASSES
  ),
  *TOKENIZED,
)
_mnli_answer = functools.partial(
  post_processors.string_label_to_class_id, label_classes=_MNLI_CLASSES
)
seqio.TaskRegistry.add(
  "glue_mnli_v002",
  source=PreparedTfdsDataSource(
    "glue/mnli:2.0.0",
    splits=(
      "train",
      "validation_matched",
      "validation_mismatched",
      "test_matched",
      "test_mismatched",
    ),
  ),
  preprocessors=_MNLI_STEPS,
  postprocess_fn=_mnli_answer,
  metric_fns=[classification.accuracy],
  output_features=t5_features(),
)
forms.register_classes(
  "glue_mnli_v002", "{premise}", "{hypothesis}", classes=_MNLI_CLASSES
)
forms.register_embedding(
  "glue_mnli_v002",
  ["{premise}", "{hypothesis}"],
  label=functools.partial(forms.number, hidden=-1.0),
  scored=False,
)

# MNLI's evaluation in the genres that are trained on. TFDS has these rows as
# glue/mnli_matched also; here they are read from glue/mnli.
seqio.TaskRegistry.add(
  "glue_mnli_matched_v002",
  source=PreparedTfdsDataSource(
    "glue/mnli:2.0.0",
    splits={"validation": "validation_matched", "test": "test_matched"},
  ),
  preprocessors=_MNLI_STEPS,
  postprocess_fn=_mnli_answer,
  metric_fns=[classification.accuracy],
  output_features=t5_features(),
)
forms.register_classes(
  "glue_mnli_matched_v002", "{premise}", "{hypothesis}", classes=_MNLI_CLASSES
)

# MNLI's evaluation in other genres.
seqio.TaskRegistry.add(
  "glue_mnli_mismatched_v002",
  source=PreparedTfdsDataSource(
    "glue/mnli:2.0.0",
    splits={"validation": "validation_mismatched", "test": "test_mismatched"},
  ),
  preprocessors=_MNLI_STEPS,
  postprocess_fn=_mnli_answer,
  metric_fns=[classification.accuracy],
  output_features=t5_features(),
)
forms.register_classes(
  "glue_mnli_mismatched_v002",
  "{premise}",
  "{hypothesis}",
  classes=_MNLI_CLASSES,
)

# The diagnostic set, put as MNLI. All labels are hidden: nothing to score.
#   {'premise': 'The cat sat on the mat.',
#    'hypothesis': 'The cat did not sit on the mat.', 'label': -1, ...}
#   -> 'mnli hypothesis: The cat did not sit on the mat. premise: The cat sat on
#       the mat.', '<unk>'
seqio.TaskRegistry.add(
  "glue_ax_v002",
  source=PreparedTfdsDataSource("glue/ax:2.0.0", splits=("test",)),
  preprocessors=_MNLI_STEPS,
  postprocess_fn=_mnli_answer,
  metric_fns=[],
  output_features=t5_features(),
)
forms.register_classes(
  "glue_ax_v002", "{premise}", "{hypothesis}", classes=_MNLI_CLASSES
)

# Does the sentence answer the question?
#   {'question': 'How many siblings did Tesla have?',
#    'sentence': 'Tesla was the fourth of five children.', 'label': 0, ...}
#   -> 'qnli question: How many siblings did Tesla have? sentence: Tesla was the
#       fourth of five children.', 'entailment'
_QNLI_CLASSES = ("entailment", "not_entailment")
seqio.TaskRegistry.add(
  "glue_qnli_v002",
  source=PreparedTfdsDataSource("glue/qnli:2.0.0", splits=_SPLITS),
  preprocessors=[
    functools.partial(
      labelled_text.labelled, benchmark="qnli", label_classes=_QNLI_CLASSES
    ),
    *TOKENIZED,
  ],
  postprocess_fn=functools.partial(
    post_processors.string_label_to_class_id, label_classes=_QNLI_CLASSES
  ),
  metric_fns=[classification.accuracy],
  output_features=t5_features(),
)
forms.register_classes(
  "glue_qnli_v002", "{question}", "{sentence}", classes=_QNLI_CLASSES
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
      labelled_text.labelled, benchmark="rte", label_classes=_RTE_CLASSES
    ),
    *TOKENIZED,
  ],
  postprocess_fn=functools.partial(
    post_processors.string_label_to_class_id, label_classes=_RTE_CLASSES
  ),
  metric_fns=[classification.accuracy],
  output_features=t5_features(),
)
forms.register_classes(
  "glue_rte_v002", "{sentence1}", "{sentence2}", classes=_RTE_CLASSES
)

# Does the second sentence follow, once its pronoun is understood?
#   {'sentence1': 'The fish ate the worm. It was tasty.',
#    'sentence2': 'The fish was tasty.', 'label': 0, ...}
#   -> 'wnli sentence1: The fish ate the worm. It was tasty. sentence2: The fish
#       was tasty.', 'not_entailment'
# No mixture trains on it: its validation set contradicts its training set.
_WNLI_CLASSES = ("not_entailment", "entailment")
seqio.TaskRegistry.add(
  "glue_wnli_v002",
  source=PreparedTfdsDataSource("glue/wnli:2.0.0", splits=_SPLITS),
  preprocessors=[
    functools.partial(
      labelled_text.labelled, benchmark="wnli", label_classes=_WNLI_CLASSES
    ),
    *TOKENIZED,
  ],
  postprocess_fn=functools.partial(
    post_processors.string_label_to_class_id, label_classes=_WNLI_CLASSES
  ),
  metric_fns=[classification.accuracy],
  output_features=t5_features(),
)
forms.register_classes(
  "glue_wnli_v002", "{sentence1}", "{sentence2}", classes=_WNLI_CLASSES
)

# WNLI scored by a model that was trained to name the referents of WSC and DPR.
#   {'sentence1': 'The drain is clogged with hair. It has to be cleaned.',
#    'sentence2': 'The drain has to be cleaned.', 'label': 1, 'idx': 39}
#   -> 'wsc: The drain is clogged with hair. *It* has to be cleaned.',
#      'The drain'
seqio.TaskRegistry.add(
  "glue_wnli_v002_simple_eval",
  source=PreparedTfdsDataSource(
    "glue/wnli:2.0.0", splits=("validation", "test")
  ),
  preprocessors=[winograd.entailment_pair, *TOKENIZED],
  postprocess_fn=post_processors.wsc_simple,
  metric_fns=[classification.accuracy],
  output_features=t5_features(),
)
