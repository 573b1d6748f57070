"""Vocabularies of many kinds behind one interface, without TensorFlow.

`Vocabulary(path)` is a SentencePiece model (unigram or BPE), a WordPiece list,
a byte-level BPE, Marian's two models or, with the path "bytes", the bytes of
UTF-8; the files determine which. `to_seqio()` and `from_seqio` go to SeqIO's
vocabularies and back.
"""

from transformer_zoo.data.vocabularies.files import BYTES
from transformer_zoo.data.vocabularies.vocabulary import from_seqio
from transformer_zoo.data.vocabularies.vocabulary import Vocabulary

__all__ = ["BYTES", "Vocabulary", "from_seqio"]
