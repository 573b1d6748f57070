"""`zoo infer` of directories that classes of `transformers` wrote."""

import json
import re

import numpy as np
import pytest
import torch

from tests.oracles.pytorch import encoders_test as directories
from transformer_zoo.cli import main as cli

TEXTS = directories.random_texts(6)
OTHERS = directories.random_texts(6, seed=1)

of_all_vocabularies = pytest.mark.parametrize(
  ("kind", "save"),
  [
    ("bert", directories.save_word_list),
    ("roberta", directories.save_byte_bpe),
    ("xlm_roberta", directories.save_sentencepiece),
  ],
)


@pytest.fixture
def infer(capsys, monkeypatch):
  """Returns a function: the lines of `zoo infer --json` as objects."""

  def call(folder, *texts, options=("--json",)):
    capsys.readouterr()
    words = ["infer", f"--checkpoint={folder}", *options, *texts]
    assert cli.main([*words, "--gin.BATCH_SIZE=8"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

  return call


def logits(model, tokenizer, *texts):
  read = tokenizer(*texts, return_tensors="pt")
  with torch.no_grad():
    return read, model(**read)


def assert_close(found, expected, report, what="probabilities"):
  difference = np.abs(np.array(found) - np.array(expected)).max()
  report(what, difference)
  assert difference < 2e-5


@pytest.mark.slow
@of_all_vocabularies
def test_masks(kind, save, infer, tmp_path, report):
  model, tokenizer = directories.saved(
    tmp_path / "theirs", f"{kind}_masked", save
  )
  mask = tokenizer.mask_token
  texts = ["a fine [MASK] number", "[MASK] day", "a [MASK], the <mask>"]
  answers = infer(tmp_path / "theirs", *texts)
  assert [len(answer["fillings"]) for answer in answers] == [1, 1, 2]
  for text, answer in zip(texts, answers, strict=True):
    # The space belongs to the mask, as the files of published models state.
    text = re.sub(r" ?(\[MASK\]|<mask>)", mask, text)
    read, outputs = logits(model, tokenizer, text)
    hidden = (read["input_ids"][0] == tokenizer.mask_token_id).nonzero()[:, 0]
    chances = torch.softmax(outputs.logits[0, hidden], -1)
    best = chances.topk(5)
    for filling, ids, expected in zip(
      answer["fillings"], best.indices, best.values, strict=True
    ):
      assert [each["token"] for each in filling] == [
        tokenizer.decode([i]).strip() for i in ids.tolist()
      ]
      assert_close([each["probability"] for each in filling], expected, report)


@pytest.mark.slow
@of_all_vocabularies
def test_classes_of_texts_and_pairs(kind, save, infer, tmp_path, report):
  model, tokenizer = directories.saved(
    tmp_path / "theirs",
    f"{kind}_classes",
    save,
    id2label={0: "no", 1: "maybe", 2: "yes"},
  )
  pairs = [f"{a}\t{b}" for a, b in zip(TEXTS, OTHERS, strict=True)]
  answers = infer(tmp_path / "theirs", *TEXTS, *pairs)
  for line, answer in zip([*TEXTS, *pairs], answers, strict=True):
    _, outputs = logits(model, tokenizer, *line.split("\t"))
    expected = torch.softmax(outputs.logits[0], -1).tolist()
    assert list(answer["probabilities"]) == ["no", "maybe", "yes"]
    assert_close(list(answer["probabilities"].values()), expected, report)
    best = int(np.argmax(expected))
    assert answer["prediction"] == ["no", "maybe", "yes"][best]


@pytest.mark.slow
def test_numbers(infer, tmp_path, report):
  model, tokenizer = directories.saved(
    tmp_path / "theirs",
    "roberta_number",
    directories.save_byte_bpe,
  )
  answers = infer(tmp_path / "theirs", *TEXTS)
  found = [float(answer["prediction"]) for answer in answers]
  expected = [logits(model, tokenizer, text)[1].logits.item() for text in TEXTS]
  assert_close(found, expected, report, "numbers")


@pytest.mark.slow
def test_choices(infer, tmp_path, report):
  model, tokenizer = directories.saved(
    tmp_path / "theirs", "bert_choice", directories.save_word_list
  )
  choices = [[OTHERS[i], OTHERS[i - 1], OTHERS[i - 2]][: 2 + i % 2]
             for i in range(6)]  # fmt: skip
  lines = [
    "\t".join([text, *some]) for text, some in zip(TEXTS, choices, strict=True)
  ]
  answers = infer(tmp_path / "theirs", *lines)
  for text, some, answer in zip(TEXTS, choices, answers, strict=True):
    read = tokenizer([text] * len(some), some, return_tensors="pt",
                     padding=True)  # fmt: skip
    with torch.no_grad():
      found = model(**{name: ids[None] for name, ids in read.items()}).logits
    expected = torch.softmax(found[0], -1).tolist()
    assert list(answer["probabilities"]) == some
    assert_close(list(answer["probabilities"].values()), expected, report)


@pytest.mark.slow
@pytest.mark.parametrize(
  ("kind", "save"),
  [
    ("bert", directories.save_word_list),
    ("roberta", directories.save_byte_bpe),
  ],
)
def test_spans(kind, save, infer, tmp_path, report):
  """The best span of all that are at most 30 pieces long."""
  model, tokenizer = directories.saved(
    tmp_path / "theirs", f"{kind}_spans", save
  )
  answers = infer(
    tmp_path / "theirs",
    *(f"{a}\t{b}" for a, b in zip(TEXTS, OTHERS, strict=True)),
  )
  for question, context, answer in zip(TEXTS, OTHERS, answers, strict=True):
    read = tokenizer(
      question, context, return_tensors="pt", return_offsets_mapping=True
    )
    places = read.pop("offset_mapping")[0].tolist()
    with torch.no_grad():
      outputs = model(**read)
    second = [i for i, s in enumerate(read.sequence_ids(0)) if s == 1]
    scores = {
      (i, j): (outputs.start_logits[0, i] + outputs.end_logits[0, j]).item()
      for i in second
      for j in second
      if i <= j < i + 30
    }
    (i, j), best = max(scores.items(), key=lambda pair: pair[1])
    assert_close(answer["spans"][0]["score"], best, report, "spans")
    text = context[places[i][0] : places[j][1]]
    assert answer["prediction"].strip() == text.strip()


@pytest.mark.slow
@pytest.mark.parametrize(
  ("kind", "save"),
  [
    ("bert", directories.save_word_list),
    ("xlm_roberta", directories.save_sentencepiece),
  ],
)
def test_tags(kind, save, infer, tmp_path):
  names = ["O", "B-A", "I-A"]
  model, tokenizer = directories.saved(
    tmp_path / "theirs",
    f"{kind}_tags",
    save,
    id2label=dict(enumerate(names)),
  )
  for text, answer in zip(TEXTS, infer(tmp_path / "theirs", *TEXTS),
                          strict=True):  # fmt: skip
    words = text.split()
    read = tokenizer(words, is_split_into_words=True, return_tensors="pt")
    with torch.no_grad():
      best = model(**read).logits[0].argmax(-1).tolist()
    firsts = [read.word_ids().index(word) for word in range(len(words))]
    assert answer["tags"] == [names[best[place]] for place in firsts]


@pytest.mark.slow
@of_all_vocabularies
def test_embeddings(kind, save, infer, tmp_path, report):
  """The mean of the last layer, and the sum of two others' first vectors."""
  model, tokenizer = directories.saved(
    tmp_path / "theirs", f"{kind}_masked", save
  )
  lines = [*TEXTS, *(f"{a}\t{b}" for a, b in zip(TEXTS, OTHERS, strict=True))]
  found, file = {}, tmp_path / "vectors.npz"
  pools = {(-1,): "mean", (0, 1): "first"}
  for layers, pool in pools.items():
    infer(
      tmp_path / "theirs",
      *lines,
      options=[
        f"--embeddings={file}",
        f"--gin.Embedding.pool={pool!r}",
        "--gin.Embedding.mix=@LayerMix()",
        f"--gin.LayerMix.layers={layers}",
      ],
    )
    with np.load(file) as arrays:
      found[layers] = arrays["embeddings"]
  for i, line in enumerate(lines):
    read = tokenizer(*line.split("\t"), return_tensors="pt")
    with torch.no_grad():
      states = model(**read, output_hidden_states=True).hidden_states
    for layers, vectors in found.items():
      mixed = sum(states[layer][0] for layer in layers)
      first = pools[layers] == "first"
      expected = mixed[0] if first else mixed.mean(dim=0)
      difference = np.abs(vectors[i] - expected.numpy()).max()
      report(f"layers {layers}", difference)
      assert difference < 2e-5 * float(mixed.abs().max())


@pytest.mark.slow
@of_all_vocabularies
def test_attention(kind, save, tmp_path, report):
  """`zoo inspect attention` of a text, every head of every layer."""
  model, tokenizer = directories.saved(
    tmp_path / "theirs", f"{kind}_masked", save
  )
  model.set_attn_implementation("eager")
  file = tmp_path / "maps"
  words = ["inspect", "attention", tmp_path / "theirs", TEXTS[0]]
  assert cli.main([*map(str, words), f"--output={file}"]) == 0
  with torch.no_grad():
    read = tokenizer(TEXTS[0], return_tensors="pt")
    expected = model(**read, output_attentions=True).attentions
  with np.load(file.with_suffix(".npz")) as arrays:
    for layer, weights in enumerate(expected):
      found = arrays[f"encoder/layers_{layer}/attention"]
      assert_close(found, weights[0].numpy(), report, "attention weights")
    tokens = arrays["encoder/layers_0/attention/keys"].tolist()
  assert tokens == tokenizer.convert_ids_to_tokens(read["input_ids"][0])
