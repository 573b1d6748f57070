"""XSum (Narayan et al. 2018): news in one sentence.

    {'document': 'The full cost of damage in Newton Stewart ...',
     'summary': 'Clean-up operations are continuing across the Borders.'}
    -> 'summarize: The full cost of damage in Newton Stewart ...',
       'Clean-up operations are continuing across the Borders.'

TFDS 1.1.0, which has web boilerplate removed.
"""

import functools

import seqio

from tasks.formats import generation
from tasks.formats.steps import TOKENIZED
from tasks.sources.tfds import PreparedTfdsDataSource
from tasks.vocabulary import t5_features
from transformer_zoo.evaluation.metrics import perplexity
from transformer_zoo.evaluation.metrics import text_overlap

seqio.TaskRegistry.add(
  "xsum_v110",
  source=PreparedTfdsDataSource(
    "xsum:1.1.0", splits=("train", "validation", "test")
  ),
  preprocessors=[
    functools.partial(
      generation.summarize,
      article_key="document",
      summary_key="summary",
    ),
    *TOKENIZED,
  ],
  metric_fns=[text_overlap.rouge, perplexity.perplexity],
  output_features=t5_features(),
)
