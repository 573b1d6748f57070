"""A SentencePiece model that cuts texts as LLaMA's does."""

import pathlib

import sentencepiece

LINES = [
  *["the quick brown fox jumps over the lazy dog"] * 20,
  *["hello world,  how are you today?"] * 20,
]


def train(folder: pathlib.Path) -> pathlib.Path:
  """Writes a tokenizer.model with <unk> 0, <s> 1, </s> 2."""
  (folder / "text.txt").write_text("\n".join(LINES))
  sentencepiece.SentencePieceTrainer.Train(
    input=str(folder / "text.txt"),
    model_prefix=str(folder / "tokenizer"),
    vocab_size=330,
    model_type="bpe",
    byte_fallback=True,
    normalization_rule_name="identity",
    remove_extra_whitespaces=False,
    minloglevel=2,
  )
  return folder / "tokenizer.model"
