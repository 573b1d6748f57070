"""A SentencePiece model as MADLAD-400's: without a piece for padding."""

import pathlib

import sentencepiece


def train(folder: pathlib.Path) -> pathlib.Path:
  """Writes one with <unk> 0, <s> 1, </s> 2 and a piece that ends a turn."""
  text = "\n".join(f"a fine day {i} in the house of words" for i in range(99))
  (folder / "text.txt").write_text(text)
  sentencepiece.SentencePieceTrainer.Train(
    input=str(folder / "text.txt"),
    model_prefix=str(folder / "spiece"),
    vocab_size=60,
    unk_id=0,
    bos_id=1,
    eos_id=2,
    pad_id=-1,
    user_defined_symbols=["<end_of_turn>"],
    hard_vocab_limit=False,
    minloglevel=2,
  )
  return folder / "spiece.model"
