"""GPT's tasks without fine-tuning (Radford et al. 2018, section 5).

    zoo evaluate --checkpoint RUN --all_checkpoints --mixture zero_shot_gpt

scores every checkpoint of a pre-training run on all of them. Inputs, and
choices that are compared, do not end in EOS: the model continues a text.
"""

import functools

import seqio

from tasks.formats import zero_shot
from tasks.formats.steps import TOKENIZED
from tasks.miniature import source
from tasks.miniature.examples import reading
from tasks.miniature.examples import single
from tasks.miniature.examples import splits
from tasks.miniature.for_encoders import examples as of_encoders
from tasks.prompts import miniature_suite
from tasks.sources.tfds import PreparedTfdsDataSource
from tasks.vocabulary import t5_features
from tasks.vocabulary import without_end
from tasks.your_data.few_shot import register_few_shot
from tasks.your_data.prompted import register_prompts
from tasks.your_data.rows import RowFiles
from transformer_zoo.evaluation.answers import post_processors
from transformer_zoo.evaluation.metrics import classification

_FEATURES = without_end(t5_features())
_MINIATURE = without_end(source.FEATURES)
# What is generated has to end.
_TO_CONTINUE = _FEATURES | {"targets": t5_features()["targets"]}
_MINIATURE_TO_CONTINUE = _MINIATURE | {"targets": source.FEATURES["targets"]}
# Choices are compared by their mean log-likelihood.
_BY_MEAN = functools.partial(
  classification.rank_classification, length_normalized=True
)

# Sentiment: "very" behind the text, and two words.
register_prompts(
  "sst2_very.yaml",
  PreparedTfdsDataSource("glue/sst2:2.0.0", splits=("train", "validation")),
  features=_FEATURES,
)
# Questions: the answer of the highest mean log-likelihood.
register_prompts(
  "race_mean.yaml",
  RowFiles({"validation": "t0/race_high/validation.jsonl"}, "jsonl"),
  suffix="_high",
  length_normalized=True,
  features=_FEATURES,
)
register_prompts(
  "race_mean.yaml",
  RowFiles({"validation": "t0/race_middle/validation.jsonl"}, "jsonl"),
  suffix="_middle",
  length_normalized=True,
  features=_FEATURES,
)
# Stories: the ending of the higher mean log-likelihood (Brown et al. 2020).
register_prompts(
  "story_cloze_mean.yaml",
  RowFiles(
    {split: f"gpt/story_cloze/{split}.csv" for split in ("validation", "test")},
    "csv",
  ),
  length_normalized=True,
  features=_FEATURES,
)
# Pronouns: the referent after which the rest of the sentence is likelier.
seqio.TaskRegistry.add(
  "zero_shot_dpr",
  source=PreparedTfdsDataSource(
    "definite_pronoun_resolution:1.1.0", splits={"validation": "test"}
  ),
  preprocessors=[
    zero_shot.mark_pronoun,
    functools.partial(
      zero_shot.substituted, text="sentence", candidates="candidates", mark="_"
    ),
    *TOKENIZED,
  ],
  output_features=_FEATURES,
  postprocess_fn=post_processors.rank_classification,
  metric_fns=[_BY_MEAN],
)
seqio.TaskRegistry.add(
  "zero_shot_winogrande",
  source=PreparedTfdsDataSource("winogrande:1.2.0", splits=("validation",)),
  preprocessors=[
    functools.partial(
      zero_shot.substituted,
      text="sentence",
      candidates=("option1", "option2"),
      mark="_",
    ),
    *TOKENIZED,
  ],
  output_features=_FEATURES,
  postprocess_fn=post_processors.rank_classification,
  metric_fns=[_BY_MEAN],
)
# Acceptability: a threshold of the mean log-likelihood.
seqio.TaskRegistry.add(
  "zero_shot_cola",
  source=PreparedTfdsDataSource("glue/cola:2.0.0", splits=("validation",)),
  preprocessors=[
    functools.partial(zero_shot.judged, sentence="sentence", acceptable=1),
    *TOKENIZED,
  ],
  output_features=_FEATURES,
  postprocess_fn=post_processors.rank_classification,
  metric_fns=[classification.acceptability],
)
# Summaries behind "TL;DR:", and translations behind pairs of sentences.
register_prompts(
  "cnn_dailymail_tldr.yaml",
  PreparedTfdsDataSource(
    "cnn_dailymail:3.4.0", splits=("train", "validation", "test")
  ),
  metrics=["rouge"],
  features=_TO_CONTINUE,
)
register_prompts(
  "wmt14_enfr_pairs.yaml",
  PreparedTfdsDataSource(
    "wmt14_translate/fr-en:1.0.0", splits=("train", "validation", "test")
  ),
  metrics=["bleu"],
  features=_TO_CONTINUE,
)
register_few_shot(
  "few_shot_wmt14_enfr_pairs",
  "zero_shot_wmt14_enfr",
  num_shots=5,
  fixed=True,
  targets_prefix=" ",
  example_separator="\n",
)

# The same of the miniature suite.
register_prompts(
  "mini_sst2_very.yaml",
  miniature_suite.rows_source(single.sentiment, stream=1),
  features=_MINIATURE,
)
register_prompts(
  "mini_race_mean.yaml",
  miniature_suite.rows_source(of_encoders.choice, stream=14),
  length_normalized=True,
  features=_MINIATURE,
)
seqio.TaskRegistry.add(
  "zero_shot_mini_wsc",
  source=miniature_suite.rows_source(single.referent, stream=6),
  preprocessors=[
    functools.partial(
      zero_shot.substituted,
      text="text",
      candidates=("kind1", "kind2"),
      mark=r"\*it\*",
    ),
    *TOKENIZED,
  ],
  output_features=_MINIATURE,
  postprocess_fn=post_processors.rank_classification,
  metric_fns=[_BY_MEAN],
)
seqio.TaskRegistry.add(
  "zero_shot_mini_cola",
  source=miniature_suite.rows_source(single.acceptability, stream=0),
  preprocessors=[
    functools.partial(
      zero_shot.judged, sentence="sentence", acceptable="acceptable"
    ),
    *TOKENIZED,
  ],
  output_features=_MINIATURE,
  postprocess_fn=post_processors.rank_classification,
  metric_fns=[classification.acceptability],
)
register_prompts(
  "mini_tldr.yaml",
  miniature_suite.rows_source(
    reading.summary,
    stream=9,
    sizes=splits.SIZES_OF_SUMMARIES,
    own_words=False,
  ),
  metrics=["rouge"],
  features=_MINIATURE_TO_CONTINUE,
)
register_prompts(
  "mini_pairs.yaml",
  miniature_suite.rows_source(
    reading.translation,
    stream=10,
    sizes=splits.SIZES_OF_TRANSLATIONS,
  ),
  metrics=["bleu"],
  features=_MINIATURE_TO_CONTINUE,
)
