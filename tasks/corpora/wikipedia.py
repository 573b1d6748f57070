"""Wikipedia as TFDS has it, named as in the t5 package.

    {'title': 'Anarchism', 'text': 'Anarchism is a political philosophy ...'}
    -> 'Anarchism is a <extra_id_0> philosophy ...', '<extra_id_0> political'

Articles in files of your own: `unlabelled_text.register_text_task`.
"""

import seqio

from tasks.corpora import unlabelled_text
from tasks.sources.tfds import PreparedTfdsDataSource
from tasks.vocabulary import t5_features
from transformer_zoo.corruption import SpanCorruption

# The English articles of March 2019. There is no other split.
seqio.TaskRegistry.add(
  "wikipedia_20190301.en_v003_unsupervised",
  source=PreparedTfdsDataSource(
    "wikipedia/20190301.en:1.0.0", splits=("train",)
  ),
  preprocessors=unlabelled_text.steps(SpanCorruption()),
  output_features=t5_features(),
)
