"""Directories of slow tokenizer files, as their classes read them.

Tiny vocabularies over one text: a list of words and letters, byte-level merges,
and one SentencePiece model with the special pieces that each class has first.
"""

import json
import shutil

import sentencepiece
import tokenizers
from tokenizers import models
from tokenizers import pre_tokenizers
from tokenizers import trainers

LINES = [
  "Paris is the capital of France. paris, the naïve café!",
  'Berlin and Zürich: 9, 3.14 and (1,000) "quotes" don\'t go',
  "A house in the house; a day is a fine day, 漢 字 and é",
] * 20
CONTROL, USER_DEFINED, UNKNOWN = 3, 4, 2
_OF_XLM = (("<unk>", UNKNOWN), ("<s>", CONTROL), ("</s>", CONTROL))
_FIRST = {
  "AlbertTokenizer": (
    ("<pad>", CONTROL),
    ("<unk>", UNKNOWN),
    *((piece, CONTROL) for piece in ("[CLS]", "[SEP]", "[MASK]")),
    *((piece, USER_DEFINED) for piece in (".", "(", ")")),
  ),
  "XLNetTokenizer": (
    *_OF_XLM,
    *((piece, CONTROL) for piece in ("<cls>", "<sep>", "<pad>", "<mask>")),
    *((piece, USER_DEFINED) for piece in ("<eod>", ".")),
  ),
  "DebertaV2Tokenizer": (
    *((piece, CONTROL) for piece in ("[PAD]", "[CLS]", "[SEP]")),
    ("[UNK]", UNKNOWN),
  ),
  "PegasusTokenizer": (
    *((piece, CONTROL) for piece in ("<pad>", "</s>")),
    ("<unk>", UNKNOWN),
  ),
  "T5Tokenizer": (
    *((piece, CONTROL) for piece in ("<pad>", "</s>")),
    ("<unk>", UNKNOWN),
  ),
  **dict.fromkeys(
    (
      "XLMRobertaTokenizer",
      "MBartTokenizer",
      "MBart50Tokenizer",
      "CamembertTokenizer",
    ),
    _OF_XLM,
  ),
}
_FILES = {
  "AlbertTokenizer": "spiece.model",
  "XLNetTokenizer": "spiece.model",
  "T5Tokenizer": "spiece.model",
  "PegasusTokenizer": "spiece.model",
  "DebertaV2Tokenizer": "spm.model",
}
_LISTS = {
  **dict.fromkeys(
    ("BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer"),
    ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
  ),
  "MPNetTokenizer": ("<s>", "<pad>", "</s>", "<unk>", "[UNK]", "<mask>"),
  "FunnelTokenizer": (
    *("<pad>", "<unk>", "<cls>", "<sep>", "<mask>"),
    *("<s>", "</s>"),
  ),
}
_BYTES = {
  "GPT2Tokenizer": ("<|endoftext|>",),
  "Qwen2Tokenizer": ("<|endoftext|>",),
  **dict.fromkeys(
    ("RobertaTokenizer", "BartTokenizer"), ("<s>", "<pad>", "</s>", "<unk>")
  ),
  "DebertaTokenizer": ("[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]"),
}
CLASSES = (*_LISTS, *_BYTES, "OpenAIGPTTokenizer", *_FIRST)


def prepare(folder):
  """Trains the models that `write` takes its pieces from.

  Args:
    folder: An empty folder.
  """
  sentencepiece.SentencePieceTrainer.Train(
    sentence_iterator=iter(LINES),
    model_prefix=str(folder / "base"),
    vocab_size=110,
    hard_vocab_limit=False,
    character_coverage=1.0,
    minloglevel=2,
  )
  for name, settings in (("bytes", {}), ("words", _OF_WORDS)):
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    if name == "bytes":
      tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
      settings = {"initial_alphabet": pre_tokenizers.ByteLevel.alphabet()}
    trainer = trainers.BpeTrainer(
      vocab_size=300, show_progress=False, **settings
    )
    lines = LINES if name == "bytes" else [line.lower() for line in LINES]
    tokenizer.train_from_iterator(lines, trainer)
    (folder / name).mkdir()
    tokenizer.model.save(str(folder / name))


_OF_WORDS = {"end_of_word_suffix": "</w>", "special_tokens": ["<unk>"]}


def write(prepared, folder, name, **files):
  """Writes the slow files of a class, and the files beside them.

  Args:
    prepared: The folder of `prepare`.
    folder: A folder, which is made.
    name: The name of the class, one of `CLASSES`.
    **files: The contents of further files by the beginnings of their names.
  """
  folder.mkdir(parents=True)
  if name in _LISTS:
    letters = sorted({*"".join(LINES).replace(" ", "")} - {*"漢字"})
    letters += [letter.lower() for letter in letters]
    words = ["paris", "Paris", "the", "house", "cafe", "café", "漢", "字"]
    pieces = [*_LISTS[name], *words, *letters, *(f"##{x}" for x in letters)]
    text = "\n".join(dict.fromkeys(pieces))
    (folder / "vocab.txt").write_text(text, encoding="utf-8")
  elif name in _FIRST:
    _write_model(prepared / "base.model", folder, name)
  else:
    source = prepared / ("bytes" if name in _BYTES else "words")
    shutil.copy(source / "merges.txt", folder / "merges.txt")
    ids = json.loads((source / "vocab.json").read_text(encoding="utf-8"))
    special = [p for p in _BYTES.get(name, ()) if p not in ids]
    mask = ["<mask>"] if "<mask>" not in ids and "<s>" in special else []
    first = {piece: i for i, piece in enumerate(special)}
    ids = {**first, **{p: i + len(first) for p, i in ids.items()}}
    ids |= {piece: len(ids) for piece in mask}
    text = json.dumps(ids, ensure_ascii=False)
    (folder / "vocab.json").write_text(text, encoding="utf-8")
  for file, content in files.items():
    (folder / f"{file}.json").write_text(json.dumps(content))


def _write_model(base, folder, name):
  from sentencepiece import sentencepiece_model_pb2

  model = sentencepiece_model_pb2.ModelProto.FromString(base.read_bytes())
  rest = list(model.pieces)[3:]
  del model.pieces[:]
  first = _FIRST[name]
  for piece, kind in first:
    model.pieces.add(piece=piece, score=0.0, type=kind)
  known = {piece for piece, _ in first}
  model.pieces.extend(piece for piece in rest if piece.piece not in known)
  names = [piece for piece, _ in first]
  spec = model.trainer_spec
  for role, piece in (
    ("unk", next(piece for piece, kind in first if kind == UNKNOWN)),
    ("bos", next((p for p in ("<s>", "[CLS]") if p in names), None)),
    ("eos", next((p for p in ("</s>", "[SEP]") if p in names), None)),
    ("pad", next((p for p in ("<pad>", "[PAD]") if p in names), None)),
  ):
    i = -1 if piece is None else names.index(piece)
    setattr(spec, f"{role}_id", i)
    if piece is not None:
      setattr(spec, f"{role}_piece", piece)
  path = folder / _FILES.get(name, "sentencepiece.bpe.model")
  path.write_bytes(model.SerializeToString())
