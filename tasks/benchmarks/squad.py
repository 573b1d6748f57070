"""SQuAD (Rajpurkar et al. 2016, 2018) in text-to-text form.

Version 1.1 is named as in the t5 package, which has no version 2.0. SQuAD has
no public test split: scores are on validation.

    {'question': 'Where did Super Bowl 50 take place?',
     'context': '... was played on February 7, 2016, at Levi's Stadium ...',
     'answers': {'text': ['Santa Clara, California', "Levi's Stadium", ...],
                 'answer_start': [403, 355, ...]},
     'id': '56be4db0acb8001400a502ee', 'title': 'Super_Bowl_50'}
"""

import functools

import seqio

from tasks.formats import forms
from tasks.formats import question_answering as formats
from tasks.formats.steps import TOKENIZED
from tasks.sources.tfds import PreparedTfdsDataSource
from tasks.vocabulary import t5_features
from transformer_zoo.evaluation.answers import post_processors
from transformer_zoo.evaluation.metrics import question_answering

_SPLITS = ("train", "validation")

# The answer from the passage, scored against all accepted answers.
#   -> 'question: Where did Super Bowl 50 take place ? context: Super Bowl 50
#       was ... at Levi ' s Stadium ...', 'Santa Clara , California'
seqio.TaskRegistry.add(
  "squad_v010_allanswers",
  source=PreparedTfdsDataSource("squad/v1.1:3.0.0", splits=_SPLITS),
  preprocessors=[formats.squad, *TOKENIZED],
  postprocess_fn=post_processors.qa,
  metric_fns=[question_answering.squad],
  output_features=t5_features(),
)
forms.register_spans(
  "squad_v010_allanswers",
  "{question}",
  "{context}",
  answers=formats.answer_texts,
  starts=formats.answer_starts,
)

# The answer without the passage: what the model knows.
#   -> 'squad trivia question: Where did Super Bowl 50 take place ? ',
#      'Santa Clara , California'
seqio.TaskRegistry.add(
  "squad_v010_context_free",
  source=PreparedTfdsDataSource("squad/v1.1:3.0.0", splits=_SPLITS),
  preprocessors=[
    functools.partial(formats.squad, include_context=False),
    *TOKENIZED,
  ],
  postprocess_fn=post_processors.qa,
  metric_fns=[question_answering.squad],
  output_features=t5_features(),
)

# The place of the answer in the passage. As in t5, questions whose answer is
# not found are left out, 451 of the 10,570 of validation; unlike t5, places are
# scored as the targets count them (`answers.span_qa`).
#   -> 'question: ... context: ...', 'start: 89 end: 93'
seqio.TaskRegistry.add(
  "squad_v010_allanswers_span",
  source=PreparedTfdsDataSource("squad/v1.1:3.0.0", splits=_SPLITS),
  preprocessors=[formats.squad_span, *TOKENIZED],
  postprocess_fn=functools.partial(post_processors.span_qa, gaps_count=True),
  metric_fns=[question_answering.span_squad],
  output_features=t5_features(),
)

# As squad_v010_allanswers, scored against the first accepted answer alone.
# (t5 hands that answer to its metric as if it were a list of answers, letter
# by letter.)
seqio.TaskRegistry.add(
  "squad_v010",
  source=PreparedTfdsDataSource("squad/v1.1:3.0.0", splits=_SPLITS),
  preprocessors=[formats.squad, *TOKENIZED],
  postprocess_fn=post_processors.first_answer,
  metric_fns=[question_answering.squad],
  output_features=t5_features(),
)

# Version 2.0: a third of the questions has no answer in the passage.
#   {'question': 'Who gave their name to Normandy in the 1000\'s?',
#    'answers': {'text': []}, 'is_impossible': True, ...}
#   -> 'question: Who gave their name to Normandy in the 1000 ' s ?
#       context: ...', 'unanswerable'
seqio.TaskRegistry.add(
  "squad_v2_v030_allanswers",
  source=PreparedTfdsDataSource("squad/v2.0:3.0.0", splits=_SPLITS),
  preprocessors=[
    functools.partial(formats.squad, no_answer=formats.UNANSWERABLE),
    *TOKENIZED,
  ],
  postprocess_fn=functools.partial(
    post_processors.squad_v2, no_answer=formats.UNANSWERABLE
  ),
  metric_fns=[question_answering.squad_v2],
  output_features=t5_features(),
)
forms.register_spans(
  "squad_v2_v030_allanswers",
  "{question}",
  "{context}",
  answers=formats.answer_texts,
  starts=formats.answer_starts,
  no_answer=formats.UNANSWERABLE,
)
