"""Definite Pronoun Resolution (Rahman and Ng 2012), as in the t5 package.

1,322 training sentences with a pronoun and two nouns; trained together with
SuperGLUE's WSC, whose form it takes.
"""

import seqio

from tasks.formats import winograd
from tasks.formats.steps import TOKENIZED
from tasks.sources.tfds import PreparedTfdsDataSource
from tasks.vocabulary import t5_features
from transformer_zoo.evaluation.metrics import classification

# Which of the two does the pronoun stand for?
#   {'sentence': 'Bob asked Tom if he can lend some money.', 'pronoun': 'he',
#    'candidates': ['Bob', 'Tom'], 'label': 1}
#   -> 'wsc: Bob asked Tom if *he* can lend some money.', 'Tom'
# Scored by the text itself, as in t5.
seqio.TaskRegistry.add(
  "dpr_v001_simple",
  source=PreparedTfdsDataSource(
    "definite_pronoun_resolution:1.1.0", splits=("train", "test")
  ),
  preprocessors=[
    winograd.definite_pronoun,
    *TOKENIZED,
  ],
  metric_fns=[classification.accuracy],
  output_features=t5_features(),
)
