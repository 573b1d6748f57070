"""CoNLL-2003 named entities (Tjong Kim Sang and De Meulder 2003) as text.

    EU       NNP  I-NP  I-ORG
    rejects  VBZ  I-VP  O
    German   JJ   I-NP  I-MISC
    call     NN   I-NP  O
    -> 'conll2003 sentence: EU rejects German call',
       '[ EU | ORG ] rejects [ German | MISC ] call'

The T5 paper has no such task: `tasks/formats/tagging.py` says how it is
written, `evaluation/answers/tagged_text.py` how it is read back. Scores are of
`conlleval`: type, first and last word of an entity must all be right.
"""

import functools

import seqio

from tasks.formats import forms
from tasks.formats import tagging
from tasks.formats.steps import TOKENIZED
from tasks.sources.column_files import ColumnFilesDataSource
from tasks.sources.tfds import PreparedTfdsDataSource
from tasks.vocabulary import t5_features
from transformer_zoo.evaluation.answers import post_processors
from transformer_zoo.evaluation.metrics import classification

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
    functools.partial(tagging.bracketed, benchmark="conll2003"),
    *TOKENIZED,
  ],
  postprocess_fn=post_processors.bracketed_entities,
  metric_fns=[classification.entity_f1],
  output_features=t5_features(),
)
forms.register_tags("conll2003_ner", tags=_TAGS)

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
      tagging.bracketed,
      benchmark="conll2003",
      tags_key="ner",
      tag_names=_TAGS,
    ),
    *TOKENIZED,
  ],
  postprocess_fn=post_processors.bracketed_entities,
  metric_fns=[classification.entity_f1],
  output_features=t5_features(),
)
forms.register_tags("conll2003_ner_v100", tags=_TAGS)
