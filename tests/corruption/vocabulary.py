"""A small vocabulary as BERT has it, without files."""

import types

import numpy as np

PAD, UNK, CLS, SEP, MASK, FULL_STOP = 0, 1, 2, 3, 4, 5
# Ids from here on are words, and from CONTINUES on parts of words.
FIRST, CONTINUES, SIZE = 5, 600, 1000


def bert(**changed) -> types.SimpleNamespace:
  """Returns the vocabulary; `changed` replaces attributes."""
  attributes = {
    "size": SIZE,
    "pad_id": PAD,
    "unk_id": UNK,
    "cls_id": CLS,
    "sep_id": SEP,
    "mask_id": MASK,
    "bos_id": None,
    "eos_id": SEP,
    "sentinel_ids": (),
    "word_starts": np.arange(SIZE) < CONTINUES,
    "encode": lambda text: [FULL_STOP] if text == "." else [FIRST, FULL_STOP],
  }
  return types.SimpleNamespace(**{**attributes, **changed})


def t5(sentinels: int = 100, size: int = SIZE, **changed):
  """Returns a vocabulary without [CLS] and [SEP] whose mask is a sentinel."""
  ids = changed.pop("sentinel_ids", size - 1 - np.arange(sentinels))
  attributes = {
    "size": size,
    "unk_id": 2,
    "cls_id": None,
    "sep_id": None,
    "eos_id": 1,
    "mask_id": int(ids[0]),
    "sentinel_ids": ids,
    "word_starts": None,
  }
  return bert(**{**attributes, **changed})


def text(rows: int, length: int, words: bool = False) -> np.ndarray:
  """Returns random text, int32 [rows, length].

  Args:
    rows: texts.
    length: tokens of each.
    words: two tokens in five go on with a word.
  """
  end = SIZE if words else CONTINUES
  generator = np.random.default_rng(0)
  return generator.integers(FULL_STOP + 1, end, (rows, length), np.int32)
