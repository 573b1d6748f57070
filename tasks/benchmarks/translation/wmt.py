"""WMT translation of news, named as in the t5 package.

    {'de': 'Wiederaufnahme der Sitzungsperiode',
     'en': 'Resumption of the session'}
    -> 'translate English to German: Resumption of the session',
       'Wiederaufnahme der Sitzungsperiode'

All are out of English, as in the T5 paper. BLEU is sacrebleu's.
"""

import functools

import seqio

from tasks.formats import generation
from tasks.formats.steps import TOKENIZED
from tasks.sources.tfds import PreparedTfdsDataSource
from tasks.vocabulary import t5_features
from transformer_zoo.evaluation.metrics import text_overlap

_SPLITS = ("train", "validation", "test")

# News of WMT 2014; validation is newstest2013, test newstest2014.
seqio.TaskRegistry.add(
  "wmt14_ende_v003",
  source=PreparedTfdsDataSource("wmt14_translate/de-en:1.0.0", splits=_SPLITS),
  preprocessors=[
    functools.partial(
      generation.translate, source_language="en", target_language="de"
    ),
    *TOKENIZED,
  ],
  metric_fns=[text_overlap.bleu],
  output_features=t5_features(),
)

# Validation is newstest2013, test newstest2014.
seqio.TaskRegistry.add(
  "wmt14_enfr_v003",
  source=PreparedTfdsDataSource("wmt14_translate/fr-en:1.0.0", splits=_SPLITS),
  preprocessors=[
    functools.partial(
      generation.translate, source_language="en", target_language="fr"
    ),
    *TOKENIZED,
  ],
  metric_fns=[text_overlap.bleu],
  output_features=t5_features(),
)

# T5's English to French: validation newsdiscussdev2015 and newstest2014, test
# newsdiscusstest2015.
seqio.TaskRegistry.add(
  "wmt15_enfr_v003",
  source=PreparedTfdsDataSource("wmt15_translate/fr-en:1.0.0", splits=_SPLITS),
  preprocessors=[
    functools.partial(
      generation.translate, source_language="en", target_language="fr"
    ),
    *TOKENIZED,
  ],
  metric_fns=[text_overlap.bleu],
  output_features=t5_features(),
)

# T5's English to Romanian: validation newsdev2016, test newstest2016.
seqio.TaskRegistry.add(
  "wmt16_enro_v003",
  source=PreparedTfdsDataSource("wmt16_translate/ro-en:1.0.0", splits=_SPLITS),
  preprocessors=[
    functools.partial(
      generation.translate, source_language="en", target_language="ro"
    ),
    *TOKENIZED,
  ],
  metric_fns=[text_overlap.bleu],
  output_features=t5_features(),
)

# Validation is newstest2018; TFDS has no test split.
seqio.TaskRegistry.add(
  "wmt19_ende_v003",
  source=PreparedTfdsDataSource(
    "wmt19_translate/de-en:1.0.0", splits=("train", "validation")
  ),
  preprocessors=[
    functools.partial(
      generation.translate, source_language="en", target_language="de"
    ),
    *TOKENIZED,
  ],
  metric_fns=[text_overlap.bleu],
  output_features=t5_features(),
)

# T5's English to German, with the data of Tensor2Tensor: validation
# newstest2013, test newstest2014.
seqio.TaskRegistry.add(
  "wmt_t2t_ende_v003",
  source=PreparedTfdsDataSource(
    "wmt_t2t_translate/de-en:1.0.0", splits=_SPLITS
  ),
  preprocessors=[
    functools.partial(
      generation.translate, source_language="en", target_language="de"
    ),
    *TOKENIZED,
  ],
  metric_fns=[text_overlap.bleu],
  output_features=t5_features(),
)
