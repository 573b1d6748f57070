"""A vocabulary as Marian's models have it, trained on a few sentences."""

import io
import json
import pathlib

import sentencepiece

SOURCES = [
  "the small house is red",
  "a green car sees the blue boat",
  "we like the red house and the boat",
]
TARGETS = [
  "la petite maison est rouge",
  "une voiture verte voit le bateau bleu",
  "nous aimons la maison rouge et le bateau",
]
CODES = (">>fra<<", ">>oci_Latn<<")
# What source.spm has and vocab.json does not.
LEFT_OUT = "▁house"


def write(folder: pathlib.Path) -> dict[str, int]:
  """Writes source.spm, target.spm and vocab.json; returns this one's content.

  Its ids are neither of the models': </s>, <unk>, then codes and pieces of both
  languages by name, <pad>.
  """
  pieces = set()
  for name, texts in (("source.spm", SOURCES), ("target.spm", TARGETS)):
    pieces |= _train(folder / name, texts)
  pieces -= {LEFT_OUT, "<unk>", "<s>", "</s>"}
  names = ["</s>", "<unk>", *CODES, *sorted(pieces), "<pad>"]
  ids = {name: i for i, name in enumerate(names)}
  (folder / "vocab.json").write_text(json.dumps(ids), encoding="utf-8")
  return ids


def _train(path: pathlib.Path, texts: list[str]) -> set[str]:
  """Writes a model; returns its pieces."""
  model = io.BytesIO()
  sentencepiece.SentencePieceTrainer.Train(
    sentence_iterator=iter(texts),
    model_writer=model,
    vocab_size=48,
    hard_vocab_limit=False,
    minloglevel=2,
  )
  path.write_bytes(model.getvalue())
  processor = sentencepiece.SentencePieceProcessor(model_file=str(path))
  return {processor.IdToPiece(i) for i in range(processor.GetPieceSize())}
