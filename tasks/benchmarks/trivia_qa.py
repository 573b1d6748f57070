"""TriviaQA (Joshi et al. 2017) with its passages, named as in the t5 package.

One example for each answer that a passage has, so that it is trained to read;
for questions without passages see `closed_book`.

    {'question': 'What is the answer?', 'question_id': 'tc_1',
     'entity_pages': {'wiki_context': ['The answer is the key.'], ...},
     'search_results': {'search_context': [], ...},
     'answer': {'normalized_aliases': ['key', 'lock'], 'value': 'Key', ...}}
    -> 'question: What is the answer ? context: The answer is the key . ', 'key'

A passage that is too long is cut to a window with the answer, at another place
in each epoch. As in t5 there is no metric: the examples are not the questions.
"""

import seqio

from tasks.formats import question_answering as formats
from tasks.sources.tfds import PreparedTfdsDataSource
from tasks.vocabulary import t5_features

seqio.TaskRegistry.add(
  "trivia_qa_v010",
  source=PreparedTfdsDataSource(
    "trivia_qa/rc:1.1.0", splits=("train", "validation", "test")
  ),
  preprocessors=[
    formats.trivia_qa,
    seqio.preprocessors.tokenize,
    seqio.CacheDatasetPlaceholder(),
    formats.keep_answer_in_window,
    seqio.preprocessors.append_eos_after_trim,
  ],
  metric_fns=[],
  output_features=t5_features(),
)
