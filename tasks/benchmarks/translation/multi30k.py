"""Multi30k (Elliott et al. 2016): captions of photographs in two languages.

    train.en  Two young, White males are outside near many bushes.
    train.de  Zwei junge weiße Männer sind im Freien in der Nähe vieler Büsche.
    -> 'translate English to German: Two young, White males are outside near
        many bushes.',
       'Zwei junge weiße Männer sind im Freien in der Nähe vieler Büsche.'

Task 1, raw text. Short captions: BLEU is not comparable with news.
"""

import functools

import seqio

from tasks.formats import directions
from tasks.formats import generation
from tasks.formats.steps import TOKENIZED
from tasks.sources.aligned_files import AlignedFilesDataSource
from tasks.vocabulary import t5_features
from transformer_zoo.evaluation.answers import post_processors
from transformer_zoo.evaluation.metrics import text_overlap

_SPLIT_TO_STEM = {
  "train": "generation/multi30k_en_de/train",
  "validation": "generation/multi30k_en_de/val",
  "test_2016_flickr": "generation/multi30k_en_de/test_2016_flickr",
  "test_2017_flickr": "generation/multi30k_en_de/test_2017_flickr",
  "test_2017_mscoco": "generation/multi30k_en_de/test_2017_mscoco",
  "test_2018_flickr": "generation/multi30k_en_de/test_2018_flickr",
}

seqio.TaskRegistry.add(
  "multi30k_ende",
  source=AlignedFilesDataSource(_SPLIT_TO_STEM, ("en", "de")),
  preprocessors=[
    functools.partial(
      generation.translate, source_language="en", target_language="de"
    ),
    *TOKENIZED,
  ],
  metric_fns=[text_overlap.bleu],
  output_features=t5_features(),
)

# The same, the last word of the German sentence first.
directions.add_right_to_left("multi30k_ende", post_processors.right_to_left)

seqio.TaskRegistry.add(
  "multi30k_deen",
  source=AlignedFilesDataSource(_SPLIT_TO_STEM, ("de", "en")),
  preprocessors=[
    functools.partial(
      generation.translate, source_language="de", target_language="en"
    ),
    *TOKENIZED,
  ],
  metric_fns=[text_overlap.bleu],
  output_features=t5_features(),
)
