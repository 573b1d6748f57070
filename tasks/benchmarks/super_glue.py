"""SuperGLUE (Wang et al. 2019) in text-to-text form, named as in t5.

Test labels are hidden (-1, target `<unk>`) but for the diagnostic sets axb and
axg: scores are on validation. Appendix D of the T5 paper shows an older
SuperGLUE (COPA with the target "True", WiC with a part of speech, MultiRC with
HTML); the released code, which made the published models, is followed.
"""

import functools

import seqio

from tasks.formats import forms
from tasks.formats import labelled_text
from tasks.formats import multiple_choice
from tasks.formats import super_glue_passages
from tasks.formats import winograd
from tasks.formats.steps import TOKENIZED
from tasks.sources.tfds import PreparedTfdsDataSource
from tasks.vocabulary import t5_features
from transformer_zoo.evaluation.answers import post_processors
from transformer_zoo.evaluation.metrics import classification
from transformer_zoo.evaluation.metrics import question_answering

_SPLITS = ("train", "validation", "test")
_TRUTH_CLASSES = ("False", "True")
_truth_answer = functools.partial(
  post_processors.string_label_to_class_id, label_classes=_TRUTH_CLASSES
)

# Does the passage say yes to the question?
#   {'question': 'was agent orange used in the korean war', 'passage': 'Agent
#    Orange -- Agent Orange was used in Korea in the late 1960s.', 'label': 1,
#    'idx': 8482}
#   -> 'boolq passage: Agent Orange -- Agent Orange was used in Korea in the
#       late 1960s. question: was agent orange used in the korean war', 'True'
seqio.TaskRegistry.add(
  "super_glue_boolq_v102",
  source=PreparedTfdsDataSource("super_glue/boolq:1.0.2", splits=_SPLITS),
  preprocessors=[
    functools.partial(
      labelled_text.labelled, benchmark="boolq", label_classes=_TRUTH_CLASSES
    ),
    *TOKENIZED,
  ],
  postprocess_fn=_truth_answer,
  metric_fns=[classification.accuracy],
  output_features=t5_features(),
)
forms.register_classes(
  "super_glue_boolq_v102", "{question}", "{passage}", classes=_TRUTH_CLASSES
)

# Does the speaker of the premise hold the hypothesis to be true?
#   {'premise': "B: Oh, well that's good. A: but she really doesn't. Nobody
#    thought she would adjust,", 'hypothesis': 'she would adjust', 'label': 1,
#    ...}
#   -> "cb hypothesis: she would adjust premise: B: Oh, well that's good. A: but
#       she really doesn't. Nobody thought she would adjust,", 'contradiction'
_CB_CLASSES = ("entailment", "contradiction", "neutral")
seqio.TaskRegistry.add(
  "super_glue_cb_v102",
  source=PreparedTfdsDataSource("super_glue/cb:1.0.2", splits=_SPLITS),
  preprocessors=[
    functools.partial(
      labelled_text.labelled, benchmark="cb", label_classes=_CB_CLASSES
    ),
    *TOKENIZED,
  ],
  postprocess_fn=functools.partial(
    post_processors.string_label_to_class_id, label_classes=_CB_CLASSES
  ),
  metric_fns=[
    functools.partial(classification.mean_multiclass_f1, num_classes=3),
    classification.accuracy,
  ],
  output_features=t5_features(),
)
forms.register_classes(
  "super_glue_cb_v102", "{premise}", "{hypothesis}", classes=_CB_CLASSES
)

# Which of two is the likelier cause, or effect?
#   {'premise': 'My foot went numb.', 'question': 'effect',
#    'choice1': 'I put my shoes on.', 'choice2': 'I shook my foot.', 'label': 1,
#    ...}
#   -> 'copa choice1: I put my shoes on. choice2: I shook my foot. premise: My
#       foot went numb. question: effect', 'choice2'
_COPA_CLASSES = ("choice1", "choice2")
seqio.TaskRegistry.add(
  "super_glue_copa_v102",
  source=PreparedTfdsDataSource("super_glue/copa:1.0.2", splits=_SPLITS),
  preprocessors=[
    functools.partial(
      labelled_text.labelled, benchmark="copa", label_classes=_COPA_CLASSES
    ),
    *TOKENIZED,
  ],
  postprocess_fn=functools.partial(
    post_processors.string_label_to_class_id, label_classes=_COPA_CLASSES
  ),
  metric_fns=[classification.accuracy],
  output_features=t5_features(),
)
forms.register_choices(
  "super_glue_copa_v102",
  multiple_choice.copa_premise,
  ("{choice1}", "{choice2}"),
  answers=_COPA_CLASSES,
)

# Is this one of the right answers to the question?
#   {'question': 'Who sang?', 'answer': 'Ann', 'label': 1,
#    'paragraph': '<b>Sent 1: </b>Ann sang.<br><b>Sent 2: </b>Bob left.',
#    'idx': {'paragraph': 2, 'question': 5, 'answer': 9}}
#   -> 'multirc question: Who sang? answer: Ann paragraph: Sent 1: Ann sang.
#       Sent 2: Bob left.', 'True'
seqio.TaskRegistry.add(
  "super_glue_multirc_v102",
  source=PreparedTfdsDataSource("super_glue/multirc:1.0.2", splits=_SPLITS),
  preprocessors=[super_glue_passages.multirc, *TOKENIZED],
  postprocess_fn=post_processors.multirc,
  metric_fns=[question_answering.multirc],
  output_features=t5_features(),
)
forms.register_classes(
  "super_glue_multirc_v102",
  super_glue_passages.plain_paragraph,
  "{question} {answer}",
  classes=_TRUTH_CLASSES,
)

# Which entity of the news is missing in the sentence?
#   {'passage': 'Ann met Bo.\n@highlight\nBo sang', 'entities': ['Ann', 'Bo'],
#    'query': 'It was @placeholder who sang.', 'answers': ['Bo'],
#    'idx': {'passage': 2, 'query': 5}}
#   -> 'record query: It was @placeholder who sang. entities: Ann, Bo passage:
#       Ann met Bo. Bo sang', 'Bo'
# One example for each answer: 138,854 of the 100,730 training rows.
seqio.TaskRegistry.add(
  "super_glue_record_v102",
  source=PreparedTfdsDataSource("super_glue/record:1.0.2", splits=_SPLITS),
  preprocessors=[super_glue_passages.record, *TOKENIZED],
  postprocess_fn=post_processors.record,
  metric_fns=[question_answering.record],
  output_features=t5_features(),
)

# Does the hypothesis follow from the premise?
#   {'premise': 'Oil prices fall back as Yukos oil threat lifted',
#    'hypothesis': 'Oil prices rise.', 'label': 1, ...}
#   -> 'rte hypothesis: Oil prices rise. premise: Oil prices fall back as Yukos
#       oil threat lifted', 'not_entailment'
_RTE_CLASSES = ("entailment", "not_entailment")
_RTE_STEPS = (
  functools.partial(
    labelled_text.labelled, benchmark="rte", label_classes=_RTE_CLASSES
  ),
  *TOKENIZED,
)
_rte_answer = functools.partial(
  post_processors.string_label_to_class_id, label_classes=_RTE_CLASSES
)
seqio.TaskRegistry.add(
  "super_glue_rte_v102",
  source=PreparedTfdsDataSource("super_glue/rte:1.0.2", splits=_SPLITS),
  preprocessors=_RTE_STEPS,
  postprocess_fn=_rte_answer,
  metric_fns=[classification.accuracy],
  output_features=t5_features(),
)
forms.register_classes(
  "super_glue_rte_v102", "{premise}", "{hypothesis}", classes=_RTE_CLASSES
)

# The broad diagnostic set, put as RTE. Matthews correlation is SuperGLUE's
# metric for it; t5 names none.
#   {'sentence1': 'Alice likes Bob.', 'sentence2': 'Bob likes Alice.',
#    'label': 1, ...}
#   -> 'rte hypothesis: Bob likes Alice. premise: Alice likes Bob.',
#      'not_entailment'
seqio.TaskRegistry.add(
  "super_glue_axb_v102",
  source=PreparedTfdsDataSource("super_glue/axb:1.0.2", splits=("test",)),
  preprocessors=[
    functools.partial(
      seqio.preprocessors.rekey,
      key_map={
        "premise": "sentence1",
        "hypothesis": "sentence2",
        "label": "label",
        "idx": "idx",
      },
    ),
    *_RTE_STEPS,
  ],
  postprocess_fn=_rte_answer,
  metric_fns=[classification.matthews_corrcoef],
  output_features=t5_features(),
)
forms.register_classes(
  "super_glue_axb_v102", "{sentence1}", "{sentence2}", classes=_RTE_CLASSES
)

# The diagnostic set on gender, put as RTE. t5 names no metric.
#   {'premise': 'The instructor encouraged the student to pursue her dreams.',
#    'hypothesis': 'The student had dreams to pursue.', 'label': 0, ...}
#   -> 'rte hypothesis: The student had dreams to pursue. premise: The
#       instructor encouraged the student to pursue her dreams.', 'entailment'
seqio.TaskRegistry.add(
  "super_glue_axg_v102",
  source=PreparedTfdsDataSource("super_glue/axg:1.0.2", splits=("test",)),
  preprocessors=_RTE_STEPS,
  postprocess_fn=_rte_answer,
  metric_fns=[classification.accuracy],
  output_features=t5_features(),
)
forms.register_classes(
  "super_glue_axg_v102", "{premise}", "{hypothesis}", classes=_RTE_CLASSES
)

# Has the word the same sense in both sentences? Where it stands is not told.
#   {'word': 'life', 'sentence1': 'City life.', 'sentence2': 'Get a life.',
#    'start1': 5, 'end1': 9, 'start2': 6, 'end2': 10, 'label': 1, ...}
#   -> 'wic sentence1: City life. sentence2: Get a life. word: life', 'True'
seqio.TaskRegistry.add(
  "super_glue_wic_v102",
  source=PreparedTfdsDataSource("super_glue/wic:1.0.2", splits=_SPLITS),
  preprocessors=[
    functools.partial(
      labelled_text.labelled,
      benchmark="wic",
      label_classes=_TRUTH_CLASSES,
      feature_names=("sentence1", "sentence2", "word"),
    ),
    *TOKENIZED,
  ],
  postprocess_fn=_truth_answer,
  metric_fns=[classification.accuracy],
  output_features=t5_features(),
)
forms.register_classes(
  "super_glue_wic_v102",
  "{word}: {sentence1}",
  "{sentence2}",
  classes=_TRUTH_CLASSES,
)

# Does the pronoun refer to the noun? No published mixture has it in this form.
#   {'text': 'The fish ate the worm . It was hungry.', 'label': 0,
#    'span1_text': 'the worm', 'span1_index': 3,
#    'span2_text': 'It', 'span2_index': 6, 'idx': 497}
#   -> 'wsc text: The fish ate * the worm * . # It # was hungry.', 'False'
seqio.TaskRegistry.add(
  "super_glue_wsc_v102",
  source=PreparedTfdsDataSource("super_glue/wsc.fixed:1.0.2", splits=_SPLITS),
  preprocessors=[winograd.judged, *TOKENIZED],
  postprocess_fn=_truth_answer,
  metric_fns=[classification.accuracy],
  output_features=t5_features(),
)
forms.register_classes(
  "super_glue_wsc_v102", winograd.marked, classes=_TRUTH_CLASSES
)

# WSC by naming the referent; training rows whose noun is wrong are left out.
#   {'text': 'John hired Bill to take care of him .', 'label': 1,
#    'span1_text': 'John', 'span2_text': 'him', 'span2_index': 7, ...}
#   -> 'wsc: John hired Bill to take care of *him* .', 'John'
seqio.TaskRegistry.add(
  "super_glue_wsc_v102_simple_train",
  source=PreparedTfdsDataSource(
    "super_glue/wsc.fixed:1.0.2", splits=("train",)
  ),
  preprocessors=[
    functools.partial(winograd.schema, correct_only=True),
    *TOKENIZED,
  ],
  metric_fns=[],
  output_features=t5_features(),
)

# The same to be scored: the model should name the row's noun where the label is
# 1, and another one where it is 0.
seqio.TaskRegistry.add(
  "super_glue_wsc_v102_simple_eval",
  source=PreparedTfdsDataSource(
    "super_glue/wsc.fixed:1.0.2", splits=("validation", "test")
  ),
  preprocessors=[winograd.schema, *TOKENIZED],
  postprocess_fn=post_processors.wsc_simple,
  metric_fns=[classification.accuracy],
  output_features=t5_features(),
)
