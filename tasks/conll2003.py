"""CoNLL-2003 named entities (Tjong Kim Sang and De Meulder 2003) as text.

    EU       NNP  I-NP  I-ORG
    rejects  VBZ  I-VP  O
    German   JJ   I-NP  I-MISC
    call     NN   I-NP  O
    -> 'conll2003 sentence: EU rejects German call',
       '[ EU | ORG ] rejects [ German | MISC ] call'

The T5 paper has no such task: `tagging_formats` says how it is written, and
`evaluation/tagged_text.py` how it is read back. Scores are those of
`conlleval`: type, first and last word of an entity must all be right.
"""

import functools

import seqio

from tasks import tagging_formats
from tasks.column_files import ColumnFilesDataSource
from tasks.steps import TOKENIZED
from tasks.tfds_source import PreparedTfdsDataSource
from tasks.vocabulary import t5_features
from transformer_zoo.evaluation import answers
from transformer_zoo.evaluation import metrics

# The order of the TFDS builder's labels.
_TAGS = (
  "O",
  "B-PER",
  "I-PER",
  "B-ORG",
  "I-ORG",
  "B-LOC",
  "I-LOC",
  "B-MISC",
  "I-MISC",
)

# The shared task's own files.
seqio.TaskRegistry.add(
  "conll2003_ner",
  source=ColumnFilesDataSource(
    {
      "train": "generation/conll2003/eng.train",
      "validation": "generation/conll2003/eng.testa",
      "test": "generation/conll2003/eng.testb",
    }
  ),
  preprocessors=[
    functools.partial(tagging_formats.bracketed, benchmark="conll2003"),
    *TOKENIZED,
  ],
  postprocess_fn=answers.bracketed_entities,
  metric_fns=[metrics.entity_f1],
  output_features=t5_features(),
)

# The same out of TFDS, whose files have the tags as IOB2.
#   {'tokens': ['EU', 'rejects'], 'ner': [3, 0], 'pos': ..., 'chunks': ...}
#   -> 'conll2003 sentence: EU rejects', '[ EU | ORG ] rejects'
seqio.TaskRegistry.add(
  "conll2003_ner_v100",
  source=PreparedTfdsDataSource(
    "conll2003/conll2003:1.0.0",
    splits={"train": "train", "validation": "dev", "test": "test"},
  ),
  preprocessors=[
    functools.partial(
      tagging_formats.bracketed,
      benchmark="conll2003",
      tags_key="ner",
      tag_names=_TAGS,
    ),
    *TOKENIZED,
  ],
  postprocess_fn=answers.bracketed_entities,
  metric_fns=[metrics.entity_f1],
  output_features=t5_features(),
)
