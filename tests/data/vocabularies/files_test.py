"""Vocabularies of the field, how files tell what they are, and bad ones."""

import json
import pathlib
import shutil

import pytest
import tokenizers

from tests.data.vocabularies.comparison import assert_is_one_of_seqio
from tests.data.vocabularies.comparison import TEXTS
from transformer_zoo.data import vocabularies
from transformer_zoo.data.vocabularies import Vocabulary
from transformer_zoo.errors import UserError

PUBLISHED = {
  "t5_cc_all_32000/sentencepiece.model": {
    "kind": "sentencepiece",
    "size": 32_100,
    "pad_id": 0,
    "eos_id": 1,
    "unk_id": 2,
    "bos_id": None,
    "cls_id": None,
    "sep_id": None,
    "mask_id": 32_099,
  },
  "albert_30k/spiece.model": {
    "kind": "sentencepiece",
    "size": 30_000,
    "pad_id": 0,
    "eos_id": 3,
    "unk_id": 1,
    "bos_id": None,
    "cls_id": 2,
    "sep_id": 3,
    "mask_id": 4,
  },
  "deberta_v3_128k/spm.model": {
    "kind": "sentencepiece",
    "size": 128_100,
    "pad_id": 0,
    "eos_id": 2,
    "unk_id": 3,
    "bos_id": 1,
    "cls_id": 1,
    "sep_id": 2,
  },
  "bert_uncased_30522/vocab.txt": {
    "kind": "wordpiece",
    "size": 30_522,
    "lower_case": True,
    "pad_id": 0,
    "eos_id": 102,
    "unk_id": 100,
    "bos_id": None,
    "cls_id": 101,
    "sep_id": 102,
    "mask_id": 103,
  },
  "gpt2_50257/vocab.json": {
    "kind": "byte_bpe",
    "size": 50_257,
    "pad_id": 50_256,
    "eos_id": 50_256,
    "unk_id": None,
    "bos_id": 50_256,
    "cls_id": None,
    "mask_id": None,
  },
}


@pytest.mark.parametrize("file", PUBLISHED)
def test_published_vocabularies(file, shared_data):
  vocabulary = Vocabulary(shared_data / "vocab" / file)
  expected = PUBLISHED[file]
  assert {name: getattr(vocabulary, name) for name in expected} == expected
  encodings = json.loads(
    (shared_data / "vocab/example_encodings.json").read_text()
  )
  for example in encodings[file.split("/")[0]]["examples"]:
    ids = vocabulary.encode(example["text"])
    assert ids == example["ids"]
    if vocabulary.kind != "wordpiece":  # its pieces do not tell all spaces
      assert vocabulary.decode(ids) == example["text"]
  assert_is_one_of_seqio(vocabulary, TEXTS[:6])


def test_case_of_a_wordpiece_list(trained, tmp_path):
  path = tmp_path / "vocab.txt"
  path.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\nnaive\nℝ\n")
  assert Vocabulary(path).encode("The NAÏVE") == [5, 6]
  with path.open("a") as file:
    file.write("The\n")
  assert Vocabulary(path).encode("The the NAÏVE") == [8, 5, 1]
  (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": true}')
  assert Vocabulary(tmp_path).encode("The the NAÏVE") == [5, 5, 6]
  assert Vocabulary(path, lower_case=False).encode("The") == [8]
  assert len({Vocabulary(path, None, c).checksum for c in (True, False)}) == 2


def test_text_without_case_for_sentencepiece(shared_data):
  path = shared_data / "vocab/albert_30k"
  uncased = Vocabulary(path, lower_case=True)
  expected = Vocabulary(path).encode('a "naive" cafe.')
  assert uncased.encode("A ``Naïve'' CAFÉ.") == expected
  assert uncased.encode_batch(["A ``Naïve'' CAFÉ."]) == [expected]
  assert_is_one_of_seqio(uncased, TEXTS)


def test_sentinels_of_the_file(trained, tmp_path):
  from sentencepiece import sentencepiece_model_pb2

  file = f"{trained['unigram'].path}/sentencepiece.model"
  model = sentencepiece_model_pb2.ModelProto.FromString(open(file, "rb").read())
  for i in range(3):
    model.pieces.add(piece=f"<extra_id_{i}>", score=0, type=4)
  path = tmp_path / "own.model"
  path.write_bytes(model.SerializeToString())
  vocabulary = Vocabulary(path)
  assert vocabulary.extra_ids == 0 and vocabulary.size == 353
  assert vocabulary.sentinel_ids.tolist() == [350, 351, 352]
  assert vocabulary.mask_id == 350
  with pytest.raises(UserError, match="own.model' has sentinels of its own"):
    Vocabulary(path, 100).check()


@pytest.mark.parametrize(
  ("begin", "end"),
  [
    ("<s>", "</s>"),
    ("<|endoftext|>", "<|endoftext|>"),
    ("<bos>", "<eos>"),
    ("<|begin_of_text|>", "<|end_of_text|>"),
  ],
)
def test_names_of_beginning_and_end(begin, end, tmp_path):
  """Of Llama 2 and 3, GPT-2, Gemma."""
  ids = {name: i for i, name in enumerate(dict.fromkeys(["a", begin, end]))}
  tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(ids, "a"))
  tokenizer.save(str(tmp_path / "tokenizer.json"))
  vocabulary = Vocabulary(tmp_path)
  assert (vocabulary.bos_id, vocabulary.eos_id) == (ids[begin], ids[end])
  assert vocabulary.pad_id == ids[end]


def write_chat_tokenizer(folder):
  special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
  ids = {piece: i for i, piece in enumerate([*special, "a", "b", "|", ">"])}
  tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(ids, "b"))
  tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
  tokenizer.add_special_tokens(special)
  folder.mkdir()
  tokenizer.save(str(folder / "tokenizer.json"))


@pytest.mark.parametrize(
  ("file", "stated"),
  [
    (
      "tokenizer_config.json",
      {
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "bos_token": None,
        "unk_token": "<|im_end|>",
      },
    ),
    (
      "special_tokens_map.json",
      {
        "eos_token": {"content": "<|im_end|>", "lstrip": False},
        "pad_token": {"content": "<|endoftext|>"},
      },
    ),
  ],
)
def test_special_pieces_are_those_that_the_files_beside_state(
  file, stated, tmp_path
):
  """As chat models have them; a name alone would tell another end."""
  for name in ("plain", "chat", "same"):
    write_chat_tokenizer(tmp_path / name)
  (tmp_path / "chat" / file).write_text(json.dumps(stated))
  same = {"eos_token": "<|endoftext|>", "pad_token": "not there"}
  (tmp_path / "same" / file).write_text(json.dumps(same))
  plain, chat, same = (
    Vocabulary(tmp_path / name) for name in ("plain", "chat", "same")
  )
  assert (plain.eos_id, plain.pad_id, plain.bos_id) == (0, 0, 0)
  assert (chat.eos_id, chat.pad_id, chat.bos_id) == (2, 0, 0)
  assert (chat.unk_id, same.eos_id, same.pad_id) == (None, 0, 0)
  # What ends a text is written into prepared data.
  assert chat.checksum != plain.checksum == same.checksum
  assert chat.decode([3, 2, 4]) == chat.decode([3, 0, 2]) == "a"


def test_special_pieces_are_read_in_prompts_alone(tmp_path):
  write_chat_tokenizer(tmp_path / "chat")
  vocabulary = Vocabulary(tmp_path / "chat")
  text = "<|im_start|>a<|im_end|>"
  assert vocabulary.encode_prompt(text) == [1, 3, 2]
  assert vocabulary.encode(text) == vocabulary.encode_batch([text])[0] == [4]


def test_special_pieces_of_a_byte_level_bpe_are_those_stated(trained, tmp_path):
  """CodeT5's `<s>`, GPT-2's `<|endoftext|>`, in vocab.json like any other."""
  plain = trained["byte_bpe"]
  folder = pathlib.Path(plain.path)
  for name in ("vocab.json", "merges.txt"):
    shutil.copy(folder / name, tmp_path / name)
  (end,) = [
    piece
    for piece, i in json.loads((folder / "vocab.json").read_text()).items()
    if i == plain.eos_id
  ]
  stated = {"eos_token": end, "pad_token": "not there"}
  (tmp_path / "tokenizer_config.json").write_text(json.dumps(stated))
  vocabulary = Vocabulary(tmp_path)
  text = f"The cat{end}"
  assert vocabulary.size == plain.size
  assert vocabulary.checksum == plain.checksum
  assert vocabulary.encode(text) == plain.encode(text)
  read = [*plain.encode("The cat"), plain.eos_id]
  assert vocabulary.encode_prompt(text) == read
  assert plain.encode_prompt(text) == plain.encode(text)


def test_sentinels_that_a_tokenizer_json_calls_special(tmp_path):
  """As T5's has them: in the list of pieces and, special, beside it."""
  pieces = ["<pad>", "</s>", "<unk>", "▁", "▁a", "▁b"]
  sentinels = [f"<extra_id_{i}>" for i in reversed(range(2))]
  tokenizer = tokenizers.Tokenizer(
    tokenizers.models.Unigram([(p, -1.0) for p in [*pieces, *sentinels]], 2)
  )
  tokenizer.normalizer = tokenizers.normalizers.Strip(left=False)
  tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
  tokenizer.decoder = tokenizers.decoders.Metaspace()
  tokenizer.add_special_tokens(["</s>", *sentinels])
  tokenizer.save(str(tmp_path / "tokenizer.json"))
  vocabulary = Vocabulary(tmp_path)
  assert vocabulary.sentinel_ids.tolist() == [7, 6]
  text = "a <extra_id_0> b <extra_id_1>"
  # They are no words, before which the text has a space.
  assert vocabulary.encode(text) == tokenizer.encode(text).ids == [4, 7, 5, 6]


@pytest.mark.parametrize(
  "files, message",
  [
    ({"v.model": b"\nno model"}, "v.model' is not a SentencePiece model"),
    (
      {"v.vocab": b"<pad>\t0\n<unk>\t0\n"},
      "v.vocab' is not a SentencePiece .*",
    ),
    ({"vocab.txt": b"the\ncat\n"}, "vocab.txt' is not a SentencePiece model"),
    ({"vocab.json": b"{}"}, "vocab.json' is half .*merges.txt' is missing"),
    ({"merges.txt": b"a b"}, "merges.txt' is half .*vocab.json' is missing"),
    (
      {"vocab.json": b'{"a": 0}', "merges.txt": b"#version: 0.2\nx y"},
      "merges.txt' are no byte-level BPE",
    ),
    (
      {
        "vocab.json": b'{"l": 0, "o</w>": 1, "lo</w>": 2}',
        "merges.txt": b"#version: 0.2\nl o</w>",
      },
      "vocab.json' is no byte-level BPE: its words end with </w>, as GPT's; "
      "name the class OpenAIGPTTokenizer in a tokenizer_config.json beside it, "
      "or the tokenizer.json of the same model",
    ),
    ({"tokenizer.json": b'{"a": 0}'}, "tokenizer.json' is no tokenizer.json"),
    (
      {"vocab.txt": b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\ncaf\xe9\n"},
      r"vocab.txt' is not UTF-8 \(invalid continuation byte at byte 34\); "
      "write it anew in that encoding",
    ),
    (
      {
        "tokenizer.json": b'{"model": {"type": "WordPiece", "unk_token": '
        b'"<unk>", "continuing_subword_prefix": "##", '
        b'"max_input_chars_per_word": 100, "vocab": {"[UNK]": 0, "a": 1}}}'
      },
      "tokenizer.json' lacks the piece '<unk>', the unk_token of its "
      "WordPiece model; add the piece, or name another one",
    ),
  ],
)
def test_what_is_no_vocabulary_is_told(files, message, tmp_path):
  for name, content in files.items():
    (tmp_path / name).write_bytes(content)
  for path in (tmp_path, tmp_path / next(iter(files))):
    if path == tmp_path and "v.vocab" in files:
      message = "does not hold one vocabulary"
    with pytest.raises(UserError, match=message):
      Vocabulary(path).check()
    message = message if "v.vocab" not in files else "v.vocab' is not a"


def test_settings_that_cannot_be_meant(trained):
  with pytest.raises(UserError, match="extra_ids=-1 is negative"):
    Vocabulary("bytes", -1).check()
  with pytest.raises(UserError, match="lower_case is for WordPiece"):
    Vocabulary(trained["byte_bpe"].path, lower_case=True).check()
  with pytest.raises(UserError, match="absent' cannot be read"):
    Vocabulary("absent").check()


def test_vocabularies_of_seqio(trained):
  import seqio

  path = f"{trained['wordpiece'].path}/vocab.txt"
  theirs = seqio.BertWordPieceVocabulary(path, lower_case=True)
  assert vocabularies.from_seqio(theirs) == Vocabulary(path, 0, True)
  assert vocabularies.from_seqio(seqio.ByteVocabulary(9)) == Vocabulary(
    "bytes", 9
  )
  file = f"{trained['bpe'].path}/sentencepiece.model"
  ascending = seqio.SentencePieceVocabulary(
    file, extra_ids=9, reverse_extra_ids=False
  )
  with pytest.raises(UserError, match="overrides the normalizer or the order"):
    vocabularies.from_seqio(ascending)
  with pytest.raises(UserError, match="PassThroughVocabulary is neither"):
    vocabularies.from_seqio(seqio.PassThroughVocabulary(9))


@pytest.mark.parametrize(
  ("file", "content", "sentence"),
  [
    ("tokenizer_config", {"do_lower_case": "perhaps"}, "do_lower_case='perhap"),
    ("tokenizer_config", {"tokenizer_class": ["B"]}, "tokenizer_class=['B']; "),
    ("tokenizer_config", {"eos_token": {"id": 1}}, "lacks eos_token.content"),
    ("special_tokens_map", {"pad_token": 3}, "pad_token=3; it takes a text or"),
    ("config", {"vocab_size": "9"}, "vocab_size='9'; it takes a whole number"),
    (
      "tokenizer",
      {"added_tokens": [{"id": 1}]},
      "lacks added_tokens[0].conten",
    ),
    ("tokenizer", {"added_tokens": 3}, "added_tokens=3; it takes a list or nu"),
    ("tokenizer", {"model": []}, "model=[]; it takes a table"),
    ("tokenizer", {"version": 5}, "is no tokenizer.json ("),
  ],
)
def test_values_of_other_types_are_named(file, content, sentence, tmp_path):
  write_chat_tokenizer(tmp_path / "chat")
  path = tmp_path / "chat" / f"{file}.json"
  path.write_text(json.dumps(content))
  with pytest.raises(UserError) as error:
    Vocabulary(tmp_path / "chat").check()
  assert sentence in str(error.value)
  assert repr(str(path)) in str(error.value)


def test_rules_that_fail_on_a_text_are_named(tmp_path):
  """The library panics where a regular expression takes too long."""
  write_chat_tokenizer(tmp_path / "chat")
  path = tmp_path / "chat" / "tokenizer.json"
  content = json.loads(path.read_text())
  slow = {"type": "Replace", "pattern": {"Regex": "(a+)+$"}, "content": "x"}
  path.write_text(json.dumps({**content, "normalizer": slow}))
  vocabulary, text = Vocabulary(tmp_path / "chat"), "a" * 58 + "!"
  for function, argument in (
    (vocabulary.encode, text),
    (vocabulary.encode_prompt, text),
    (vocabulary.encode_batch, [text]),
  ):
    with pytest.raises(UserError, match=f"The rules of '{path}' fail on a te"):
      function(argument)


def test_special_tokens_are_left_out_where_they_are_skipped(trained, tmp_path):
  """As `batch_decode(skip_special_tokens=True)`."""
  write_chat_tokenizer(tmp_path / "chat")
  chat = Vocabulary(tmp_path / "chat")
  assert "<|im_start|>" in chat.decode([3, 1, 4])
  assert chat.decode([3, 1, 4], skip_special_tokens=True) == chat.decode([3, 4])
  t5 = trained["unigram"]
  ids = t5.encode("The cat")
  middle = [ids[0], t5.unk_id, t5.sentinel_ids[1], *ids[1:], t5.eos_id, 5]
  assert "<extra_id_1>" in t5.decode(middle)
  assert t5.decode(middle, skip_special_tokens=True) == t5.decode(ids)
