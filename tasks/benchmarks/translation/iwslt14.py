"""IWSLT 2014 (Cettolo et al. 2014): talks, from German to English and back.

    generation/iwslt14_de_en/train.de  und was menschliche gesundheit ist ...
    generation/iwslt14_de_en/train.en  and what human health is ...
    -> 'translate German to English: und was menschliche gesundheit ist ...',
       'and what human health is ...'

The files are those that fairseq's `prepare-iwslt14.sh` leaves before its byte
pairs: train, valid and test, a sentence on each line.
"""

import functools

import seqio

from tasks.formats import generation
from tasks.formats.steps import TOKENIZED
from tasks.sources.aligned_files import AlignedFilesDataSource
from tasks.vocabulary import t5_features
from transformer_zoo.evaluation.metrics import perplexity
from transformer_zoo.evaluation.metrics import text_overlap

_SPLIT_TO_STEM = {
  "train": "generation/iwslt14_de_en/train",
  "validation": "generation/iwslt14_de_en/valid",
  "test": "generation/iwslt14_de_en/test",
}

seqio.TaskRegistry.add(
  "iwslt14_deen",
  source=AlignedFilesDataSource(_SPLIT_TO_STEM, ("de", "en")),
  preprocessors=[
    functools.partial(
      generation.translate, source_language="de", target_language="en"
    ),
    *TOKENIZED,
  ],
  metric_fns=[text_overlap.bleu, perplexity.perplexity],
  output_features=t5_features(),
)

seqio.TaskRegistry.add(
  "iwslt14_ende",
  source=AlignedFilesDataSource(_SPLIT_TO_STEM, ("en", "de")),
  preprocessors=[
    functools.partial(
      generation.translate, source_language="en", target_language="de"
    ),
    *TOKENIZED,
  ],
  metric_fns=[text_overlap.bleu, perplexity.perplexity],
  output_features=t5_features(),
)
