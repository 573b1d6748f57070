"""Texts, and the comparison of a vocabulary with SeqIO's."""

import numpy as np
import tensorflow as tf

from transformer_zoo.data import vocabularies

TEXTS = [
  "",
  " ",
  "a cat",
  "The quick brown fox, twice in 1984!",
  "naïve café, e\u0301 and Å ﬁ ﬂ",
  "emoji 🙂👩‍👩‍👧 🇩🇪",
  "漢字とかな 한국어 ภาษาไทย",
  "العربية עברית",
  "control \x00\x07\x1f and \u200b\ufeff zero width",
  "tabs\tand\nlines\r\n  and   spaces ",
  "[CLS] </s> <|endoftext|> <pad> [MASK]",
  "<extra_id_0> a <extra_id_1>",
  "don't can't -- 3.14e-7 $x_1^2$ https://a.b/c?d=e",
  "long words, " * 2_000 + "abcdefgh" * 500,
]


def assert_is_one_of_seqio(vocabulary, texts):
  theirs = vocabulary.to_seqio()
  assert theirs.vocab_size == vocabulary.size
  assert (theirs.pad_id, theirs.eos_id, theirs.unk_id) == (
    vocabulary.pad_id,
    vocabulary.eos_id,
    vocabulary.unk_id,
  )
  dataset = tf.data.Dataset.from_tensor_slices(texts).map(theirs.encode_tf)
  ours = vocabulary.encode_batch(texts)
  assert dataset.element_spec.shape.rank == 1
  for text, ids, found in zip(
    texts, ours, dataset.as_numpy_iterator(), strict=True
  ):
    assert ids == vocabulary.encode(text) == list(theirs.encode(text))
    assert found.dtype == np.int32 and ids == found.tolist()
    ended = [*ids, vocabulary.eos_id, *ids, vocabulary.size + 3]
    for some in (ids, ended, [vocabulary.size + 28, *ids]):
      assert vocabulary.decode(some) == theirs.decode(some)
    written = theirs.decode_tf(tf.constant(ended, tf.int32)).numpy().decode()
    assert written == vocabulary.decode(ended)
  assert vocabularies.from_seqio(theirs).encode(texts[3]) == ours[3]
