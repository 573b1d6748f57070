r"""CNN/DailyMail summaries (Hermann et al. 2015; See et al. 2017).

{'article': 'Usain Bolt rounded off the world championships ...',
 'highlights': 'Usain Bolt wins third gold .\nAnchors Jamaica .',
 'publisher': 'cnn', 'id': '0001'}
-> 'summarize: Usain Bolt rounded off the world championships ...',
   'Usain Bolt wins third gold .\nAnchors Jamaica .'
"""

import functools

import seqio

from tasks.formats import generation
from tasks.formats.steps import TOKENIZED
from tasks.sources.tfds import PreparedTfdsDataSource
from tasks.vocabulary import t5_features
from tasks.your_data.text_to_text import TextToTextTask
from transformer_zoo.evaluation.metrics import perplexity
from transformer_zoo.evaluation.metrics import text_overlap

# Named as in the t5 package, with its version of the TFDS builder.
seqio.TaskRegistry.add(
  "cnn_dailymail_v002",
  source=PreparedTfdsDataSource(
    "cnn_dailymail:3.4.0", splits=("train", "validation", "test")
  ),
  preprocessors=[
    functools.partial(
      generation.summarize,
      article_key="article",
      summary_key="highlights",
    ),
    *TOKENIZED,
  ],
  metric_fns=[text_overlap.rouge, perplexity.perplexity],
  output_features=t5_features(),
)

# 2,500 rows, most of them of the official test split: for a look, never for a
# score beside published ones, nor to train what is scored on that split. Line
# breaks between the sentences of the summaries are lost, so that ROUGE-Lsum is
# ROUGE-L here.
TextToTextTask.from_jsonl(
  "cnn_dailymail_sample",
  splits={
    "train": "generation/cnn_dailymail_sample/train.jsonl.gz",
    "validation": "generation/cnn_dailymail_sample/validation.jsonl.gz",
  },
  inputs="summarize: {article}",
  targets="{highlights}",
  metrics=["rouge"],
)
