"""Encoding by `Vocabulary` against the library that does it, called alone.

    python benchmarks/vocabularies.py --data_dir DATA

Ratios of processor time, of one text at a time and of all in one call; the text
is the validation split of Wikipedia, its paragraphs or their first characters.
DATA has text/wikipedia and vocab/.
"""

import argparse
from collections.abc import Callable
import glob
import os
import statistics
import time

import sentencepiece
import tokenizers
from tokenizers import models
from tokenizers import normalizers
from tokenizers import pre_tokenizers

from transformer_zoo.data.vocabularies import Vocabulary
from transformer_zoo.data.vocabularies.training import text

_PASSES = 7
_ROUNDS = 3
_FIRST_CHARACTERS = 40
# One thread: the library's own would be counted, and wait for each other.
os.environ["TOKENIZERS_PARALLELISM"] = "false"


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument("--data_dir", required=True)
  folder = parser.parse_args().data_dir
  paths = glob.glob(f"{folder}/text/wikipedia/validation*")
  paragraphs = list(text.read_lines(paths))
  beginnings = [paragraph[:_FIRST_CHARACTERS] for paragraph in paragraphs]
  print(f"{'':14}{'texts':12}one by one   batch   million tokens/s (batch)")
  for name, (path, one, many) in libraries(f"{folder}/vocab").items():
    for kind, texts in (("paragraphs", paragraphs), ("beginnings", beginnings)):
      found = measure(Vocabulary(path), one, many, texts)
      print(f"{name:14}{kind:12}" + "{:10.2f}{:8.2f}{:8.2f}".format(*found))


def measure(
  vocabulary: Vocabulary, one: Callable, many: Callable, texts: list[str]
) -> tuple[float, float, float]:
  """Returns both ratios, and million tokens per processor second."""

  def batch():
    return vocabulary.encode_batch(texts)

  singly = ratio(
    lambda: list(map(vocabulary.encode, texts)), lambda: list(map(one, texts))
  )
  together = ratio(batch, lambda: many(texts))
  return singly, together, sum(map(len, batch())) / least_time(batch) / 1e6


def libraries(folder: str) -> dict[str, tuple[str, Callable, Callable]]:
  """Returns path, encoder of a text and of texts, by name."""
  path = f"{folder}/t5_cc_all_32000/sentencepiece.model"
  model = sentencepiece.SentencePieceProcessor(model_file=path)
  wordpiece = tokenizers.Tokenizer(
    models.WordPiece.from_file(
      f"{folder}/bert_uncased_30522/vocab.txt",
      unk_token="[UNK]",
      max_input_chars_per_word=100,
    )
  )
  wordpiece.normalizer = normalizers.BertNormalizer(lowercase=True)
  wordpiece.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
  gpt2 = f"{folder}/gpt2_50257"
  bpe = tokenizers.Tokenizer(
    models.BPE.from_file(f"{gpt2}/vocab.json", f"{gpt2}/merges.txt")
  )
  bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
  return {
    "SentencePiece": (
      path,
      model.EncodeAsIds,
      lambda texts: model.Encode(texts, num_threads=1),
    ),
    "WordPiece": (f"{folder}/bert_uncased_30522", *encoders(wordpiece)),
    "byte_bpe": (gpt2, *encoders(bpe)),
  }


def encoders(tokenizer: tokenizers.Tokenizer) -> tuple[Callable, Callable]:
  """Returns how the library encodes a text, and texts."""
  return (
    lambda text: tokenizer.encode(text).ids,
    lambda texts: [found.ids for found in tokenizer.encode_batch_fast(texts)],
  )


def ratio(ours: Callable, theirs: Callable) -> float:
  """Returns the median of the ratios of their least times."""
  return statistics.median(
    least_time(ours) / least_time(theirs) for _ in range(_ROUNDS)
  )


def least_time(call: Callable) -> float:
  """Returns processor seconds."""
  times = []
  for _ in range(_PASSES):
    start = time.process_time()
    call()
    times.append(time.process_time() - start)
  return min(times)


if __name__ == "__main__":
  main()
