"""Questions without passages: what a model has in its parameters.

Formats, names and splits of the code of Roberts et al. 2020 (google-research,
t5_closed_book_qa), its last version: the inputs begin with `nq question: `,
`trivia_qa question: ` and `wq question: `, and the validation split is cut from
the train split as in ORQA (Lee et al. 2019). The tasks named `_test` are for
the final figures: they train on all that may be trained on and are scored on
the split that the literature reports.
"""

import functools

import seqio

from tasks.formats import question_answering as formats
from tasks.formats.steps import TOKENIZED
from tasks.sources.tfds import PreparedTfdsDataSource
from tasks.vocabulary import t5_features
from transformer_zoo.evaluation.answers import post_processors
from transformer_zoo.evaluation.metrics import question_answering

# Natural Questions with answers of at most five tokens.
#   {'question': 'who got the first nobel prize in physics',
#    'answer': ['Wilhelm Conrad Röntgen']}
#   -> 'nq question: who got the first nobel prize in physics',
#      'Wilhelm Conrad Röntgen'
seqio.TaskRegistry.add(
  "natural_questions_open",
  source=PreparedTfdsDataSource(
    "natural_questions_open:1.0.0",
    splits={
      "train": "train[:79168]",
      "validation": "train[79168:]",
      "test": "validation",
    },
  ),
  preprocessors=[
    functools.partial(
      formats.closed_book, prefix="nq question: ", answers_key="answer"
    ),
    *TOKENIZED,
  ],
  postprocess_fn=post_processors.qa,
  metric_fns=[question_answering.squad],
  output_features=t5_features(),
)

# As natural_questions_open; the validation split is the one of the literature.
seqio.TaskRegistry.add(
  "natural_questions_open_test",
  source=PreparedTfdsDataSource(
    "natural_questions_open:1.0.0", splits=("train", "validation")
  ),
  preprocessors=[
    functools.partial(
      formats.closed_book, prefix="nq question: ", answers_key="answer"
    ),
    *TOKENIZED,
  ],
  postprocess_fn=post_processors.qa,
  metric_fns=[question_answering.squad],
  output_features=t5_features(),
)

# WebQuestions.
#   {'url': 'http://www.freebase.com/view/en/natalie_portman',
#    'question': 'what character did natalie portman play in star wars?',
#    'answers': ['Padmé Amidala']}
#   -> 'wq question: what character did natalie portman play in star wars?',
#      'Padmé Amidala'
seqio.TaskRegistry.add(
  "web_questions_open",
  source=PreparedTfdsDataSource(
    "web_questions:1.0.0",
    splits={
      "train": "train[:3417]",
      "validation": "train[3417:]",
      "test": "test",
    },
  ),
  preprocessors=[
    functools.partial(
      formats.closed_book, prefix="wq question: ", answers_key="answers"
    ),
    *TOKENIZED,
  ],
  postprocess_fn=post_processors.qa,
  metric_fns=[question_answering.squad],
  output_features=t5_features(),
)

# As web_questions_open; all of train, and test as the validation split.
seqio.TaskRegistry.add(
  "web_questions_open_test",
  source=PreparedTfdsDataSource(
    "web_questions:1.0.0", splits={"train": "train", "validation": "test"}
  ),
  preprocessors=[
    functools.partial(
      formats.closed_book, prefix="wq question: ", answers_key="answers"
    ),
    *TOKENIZED,
  ],
  postprocess_fn=post_processors.qa,
  metric_fns=[question_answering.squad],
  output_features=t5_features(),
)

# TriviaQA, the unfiltered questions.
#   {'question': 'Which country does the airline LACSA come from?',
#    'answer': {'value': 'Costa Rica', 'aliases': ['Costa Rica', ...], ...},
#    ...}
#   -> 'trivia_qa question: Which country does the airline LACSA come from?',
#      'Costa Rica'
seqio.TaskRegistry.add(
  "trivia_qa_open",
  source=PreparedTfdsDataSource(
    "trivia_qa/unfiltered.nocontext:1.1.0",
    splits={
      "train": "train[:78785]",
      "validation": "train[78785:]",
      "test": "validation",
    },
  ),
  preprocessors=[formats.trivia_qa_closed_book, *TOKENIZED],
  postprocess_fn=post_processors.qa,
  metric_fns=[question_answering.trivia_qa],
  output_features=t5_features(),
)

# As trivia_qa_open, trained on both splits. The answers of test are hidden
# (target `<unk>`): they are scored by the organisers.
seqio.TaskRegistry.add(
  "trivia_qa_open_test",
  source=PreparedTfdsDataSource(
    "trivia_qa/unfiltered.nocontext:1.1.0",
    splits={"train": "train+validation", "test": "test"},
  ),
  preprocessors=[formats.trivia_qa_closed_book, *TOKENIZED],
  postprocess_fn=post_processors.qa,
  metric_fns=[question_answering.trivia_qa],
  output_features=t5_features(),
)
