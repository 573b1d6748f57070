r"""SAMSum (Gliwa et al. 2019): summaries of chats.

{'dialogue': "Amanda: I baked cookies.\r\nJerry: Sure!",
 'summary': 'Amanda baked cookies and will bring Jerry some.',
 'id': '13818513'}
-> 'summarize: Amanda: I baked cookies.\r\nJerry: Sure!',
   'Amanda baked cookies and will bring Jerry some.'
"""

import functools

import seqio

from tasks.formats import generation
from tasks.formats.steps import TOKENIZED
from tasks.sources.tfds import PreparedTfdsDataSource
from tasks.vocabulary import t5_features
from transformer_zoo.evaluation.metrics import text_overlap

seqio.TaskRegistry.add(
  "samsum_v100",
  source=PreparedTfdsDataSource(
    "samsum:1.0.0", splits=("train", "validation", "test")
  ),
  preprocessors=[
    functools.partial(
      generation.summarize,
      article_key="dialogue",
      summary_key="summary",
    ),
    *TOKENIZED,
  ],
  metric_fns=[text_overlap.rouge],
  output_features=t5_features(),
)
