"""Unlabelled text by sentence, for BERT's and ALBERT's objectives.

    {'text': 'Robert Boulter is an actor. He had a role in 2000. ...', ...}
    -> '[CLS] robert [MASK] is an actor . [SEP] he had a role in 2000 . [SEP]',
       '[CLS] robert boulter is an actor . [SEP] he had a role in 2000 . [SEP]'
       and next_sentence 0: B follows A

in the vocabulary of each model. Sentences are split and tokenised one by one,
and the prepared files say where they end: any objective on sentences reads the
same files (`CORRUPTION`, `gin_configs/objectives/`), and any other too.
"""

from typing import Any

import seqio

from tasks.corpora import unlabelled_text
from tasks.vocabulary import FileVocabulary
from transformer_zoo.corruption import Masking
from transformer_zoo.corruption import NextSentence
from transformer_zoo.corruption import SentenceOrder
from transformer_zoo.corruption import WordSpans

_BERT = FileVocabulary("vocab/bert_uncased_30522/vocab.txt")
_ALBERT = FileVocabulary("vocab/albert_30k/spiece.model", lower_case=True)
_SENTENCE_ORDER = SentenceOrder(Masking(WordSpans(weights=(6, 3, 2))))


def _register(
  name: str, corpus: str, vocabulary: FileVocabulary, objective: Any
) -> None:
  """Registers a corpus of text/ under an objective; its rows have no EOS."""
  feature = seqio.Feature(vocabulary, add_eos=False)
  unlabelled_text.register_text_task(
    name,
    {
      split: f"text/{corpus}/{split}*.jsonl.gz"
      for split in ("train", "validation")
    },
    corruption=objective,
    output_features={"inputs": feature, "targets": feature},
    sentences="en",
  )


_register(
  "wikipedia_text_bert_next_sentence", "wikipedia", _BERT, NextSentence()
)
_register("books_text_bert_next_sentence", "books", _BERT, NextSentence())
_register(
  "wikitext2_text_bert_next_sentence", "wikitext2", _BERT, NextSentence()
)
_register(
  "wikipedia_text_albert_sentence_order",
  "wikipedia",
  _ALBERT,
  _SENTENCE_ORDER,
)
_register("books_text_albert_sentence_order", "books", _ALBERT, _SENTENCE_ORDER)
_register(
  "wikitext2_text_albert_sentence_order",
  "wikitext2",
  _ALBERT,
  _SENTENCE_ORDER,
)
