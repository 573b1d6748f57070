"""C4 under the objectives on sentences and on whole documents.

    {'text': 'Thank you for inviting me. See you at the party.', ...}
    -> 'Thank you for <extra_id_0> me.</s> See you at the party.</s>',
       'Thank you for inviting me.</s> See you at the party.</s>' and
       next_sentence 0: B follows A

Named `c4_v220_` and the file of the objective, in T5's vocabulary, in which EOS
stands between segments. Read with SeqIO, an objective on sentences holds the
tokens of the whole split in memory; the loader does not.
"""

from typing import Any

import seqio

from tasks.corpora import unlabelled_text
from tasks.sources.tfds import PreparedTfdsDataSource
from tasks.vocabulary import T5Vocabulary
from transformer_zoo.corruption import ConcatenatedDocuments
from transformer_zoo.corruption import DocSentences
from transformer_zoo.corruption import FixedNumber
from transformer_zoo.corruption import FullSentences
from transformer_zoo.corruption import Masking
from transformer_zoo.corruption import NextSentence
from transformer_zoo.corruption import Replacement
from transformer_zoo.corruption import SentenceOrder
from transformer_zoo.corruption import SentencePair
from transformer_zoo.corruption import UnifiedSentences
from transformer_zoo.corruption import WordSpans
from transformer_zoo.corruption.masks.word_spans import geometric_weights

_BERT = Masking()
_ALBERT = Masking(WordSpans(0.15, (6, 3, 2)))
_ROBERTA = Masking(FixedNumber(0.15, random_rounding=True))


def _register(name: str, objective: Any, sentences: str | None = "en") -> None:
  """Registers C4 under an objective; its rows have no EOS added."""
  seqio.TaskRegistry.add(
    name,
    source=PreparedTfdsDataSource(
      "c4/en:2.2.0", splits=("train", "validation")
    ),
    preprocessors=unlabelled_text.steps(objective, sentences),
    output_features={
      "inputs": seqio.Feature(T5Vocabulary(), add_eos=False, required=False),
      "targets": seqio.Feature(T5Vocabulary(), add_eos=False),
    },
  )


# Devlin et al. 2019.
_register("c4_v220_bert_next_sentence", NextSentence(_BERT))
_register("c4_v220_bert_documents", ConcatenatedDocuments(_BERT), None)

# Dong et al. 2019.
_register("c4_v220_unilm_next_sentence", UnifiedSentences())

# Joshi et al. 2020, table 6.
_register(
  "c4_v220_spanbert_2seq",
  NextSentence(
    Masking(
      WordSpans(0.15, geometric_weights(0.2, 10), cut_last=True),
      Replacement(0.8, 0.1, 0.1, per_span=True),
    )
  ),
)
_register(
  "c4_v220_spanbert_2seq_whole_words", NextSentence(Masking(WordSpans(0.15)))
)

# Radford et al. 2019.
_register("c4_v220_lm_documents", ConcatenatedDocuments(), None)

# Lan et al. 2020, table 5.
_register("c4_v220_albert_next_sentence", NextSentence(_ALBERT))
_register("c4_v220_albert_sentence_order", SentenceOrder(_ALBERT))

# Liu et al. 2019, table 2.
_register("c4_v220_roberta_segment_pair", NextSentence(_ROBERTA, separators=2))
_register("c4_v220_roberta_sentence_pair", SentencePair(_ROBERTA, separators=2))
_register("c4_v220_roberta_full_sentences", FullSentences(_ROBERTA))
_register("c4_v220_roberta_doc_sentences", DocSentences(_ROBERTA))
