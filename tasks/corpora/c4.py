"""C4, the web text that T5 was pre-trained on, named as in the t5 package.

    {'text': 'Beginners BBQ Class Taking Place in Missoula! ...', 'url': ...}
    -> 'Beginners BBQ <extra_id_0> Place ...', '<extra_id_0> Class Taking ...'

TFDS builds C4 from Common Crawl on a Beam cluster (version 2.2.0 is the April
2019 crawl); it is read where it has been built. `*_unsupervised` are the
corpora of Raffel et al. 2020, table 8, whose objective a run chooses by
`CORRUPTION` (`gin_configs/objectives/`); without one it is span corruption.
"""

import seqio

from tasks.corpora import unlabelled_text
from tasks.sources.tfds import PreparedTfdsDataSource
from tasks.vocabulary import t5_features
from tasks.vocabulary import T5Vocabulary
from transformer_zoo.corruption import ConcatenatedDocuments
from transformer_zoo.corruption import Denoising
from transformer_zoo.corruption import Iid
from transformer_zoo.corruption import RandomPrefix
from transformer_zoo.corruption import SpanCorruption

_SPLITS = ("train", "validation")

# Clean English text.
seqio.TaskRegistry.add(
  "c4_v020_unsupervised",
  source=PreparedTfdsDataSource("c4/en:2.2.0", splits=_SPLITS),
  preprocessors=unlabelled_text.steps(SpanCorruption()),
  output_features=t5_features(),
)

# For i.i.d. noise of 25 % and 50 %, which makes more than 100 spans of 512
# tokens: a model needs VOCAB_SIZE = 32256 for it.
seqio.TaskRegistry.add(
  "c4_v020_unsupervised_200_sentinels",
  source=PreparedTfdsDataSource("c4/en:2.2.0", splits=_SPLITS),
  preprocessors=unlabelled_text.steps(SpanCorruption()),
  output_features=t5_features(extra_ids=200),
)

# Without the cleaning rules.
seqio.TaskRegistry.add(
  "c4_noclean_v020_unsupervised",
  source=PreparedTfdsDataSource("c4/en.noclean:2.2.0", splits=_SPLITS),
  preprocessors=unlabelled_text.steps(SpanCorruption()),
  output_features=t5_features(),
)

# Pages of news sites alone.
seqio.TaskRegistry.add(
  "c4_realnewslike_v020_unsupervised",
  source=PreparedTfdsDataSource("c4/realnewslike:2.2.0", splits=_SPLITS),
  preprocessors=unlabelled_text.steps(SpanCorruption()),
  output_features=t5_features(),
)

# Pages that Reddit links to alone, from twelve months of crawls.
seqio.TaskRegistry.add(
  "c4_webtextlike_v020_unsupervised",
  source=PreparedTfdsDataSource("c4/webtextlike:2.2.0", splits=_SPLITS),
  preprocessors=unlabelled_text.steps(SpanCorruption()),
  output_features=t5_features(),
)

# The objective of the released models.
seqio.TaskRegistry.add(
  "c4_v220_span_corruption",
  source=PreparedTfdsDataSource("c4/en:2.2.0", splits=_SPLITS),
  preprocessors=unlabelled_text.steps(SpanCorruption()),
  output_features=t5_features(),
)

# The objective of the paper's baseline.
seqio.TaskRegistry.add(
  "c4_v220_iid_denoising",
  source=PreparedTfdsDataSource("c4/en:2.2.0", splits=_SPLITS),
  preprocessors=unlabelled_text.steps(Denoising(Iid(0.15))),
  output_features=t5_features(),
)

seqio.TaskRegistry.add(
  "c4_v220_prefix_lm",
  source=PreparedTfdsDataSource("c4/en:2.2.0", splits=_SPLITS),
  preprocessors=unlabelled_text.steps(
    Denoising(RandomPrefix(), "drop_nonnoise_tokens", "drop_noise_tokens")
  ),
  output_features=t5_features(),
)

# Documents with EOS behind each, joined and cut: no EOS ends an example.
seqio.TaskRegistry.add(
  "c4_v220_full_lm",
  source=PreparedTfdsDataSource("c4/en:2.2.0", splits=_SPLITS),
  preprocessors=unlabelled_text.steps(ConcatenatedDocuments()),
  output_features={
    "inputs": seqio.Feature(T5Vocabulary(), add_eos=False, required=False),
    "targets": seqio.Feature(T5Vocabulary(), add_eos=False),
  },
)
