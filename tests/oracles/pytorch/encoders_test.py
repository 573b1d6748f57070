"""BERT, RoBERTa and DistilBERT with every head, live: make test-oracles.

What some of the classes compute is recorded by
tests/oracles/pytorch/make_goldens.py.
"""

import json
import string

from flax import traverse_util
import numpy as np
import pytest
import sentencepiece
import seqio
import tokenizers
import torch
import transformers

from tasks.your_data.forms import ClassesTask
from tests import tiny_t5
from tests.golden import encoders
from tests.golden import families
from tests.oracles.pytorch import huggingface
from transformer_zoo.cli import main as cli
from transformer_zoo.data.vocabularies import Vocabulary
from transformer_zoo.interop.conversion import tokenizer_files
from transformer_zoo.interop.huggingface import directory
from transformer_zoo.interop.huggingface import family_of

LOGITS_TOLERANCE = 2e-5
GRADIENT_TOLERANCE = 1e-4

every_config = pytest.mark.parametrize("name", encoders.CONFIGS)


@every_config
def test_outputs_and_gradient_of_every_parameter(name, report):
  """Of our model, and of theirs as we describe it."""
  _, model, params, batch = encoders.setting(name)
  found = encoders.outputs(model, params, batch)
  described = family_of(encoders.CONFIGS[name]).config(model)
  theirs = huggingface.encoder_outputs(described, model, params, batch)
  assert set(found) == set(theirs)
  largest = {entry: np.abs(value).max() for entry, value in theirs.items()}
  # A bias of all keys cancels in the softmax: what is left of its gradient is
  # rounding, on both sides.
  most = max(v for k, v in largest.items() if k.startswith("gradient/"))
  for entry in [entry for entry in theirs if entry.endswith("key/bias")]:
    assert np.abs(found.pop(entry)).max() < 1e-6 * most
    assert np.abs(theirs.pop(entry)).max() < 1e-6 * most
  differences = {
    entry: np.abs(found[entry] - theirs[entry]).max() / largest[entry]
    for entry in theirs
  }
  logits = differences.pop("logits")
  del differences["loss"]
  worst = max(differences, key=differences.get)
  report("logits", logits)
  report(worst, differences[worst])
  assert logits < LOGITS_TOLERANCE
  assert differences[worst] < GRADIENT_TOLERANCE, worst


@every_config
def test_a_model_that_they_draw_is_read(name, tmp_path, report):
  """Their initial weights and their way of saving, read from the directory."""
  config = {k: v for k, v in encoders.CONFIGS[name].items() if k[0] != "_"}
  torch.manual_seed(0)
  config = transformers.AutoConfig.for_model(**config)
  theirs = huggingface.class_of(config)(config).eval()
  theirs.save_pretrained(tmp_path)
  found = directory.open_directory(tmp_path)
  assert found.config["architectures"] == config.architectures
  model = families.build(found.config)
  params = traverse_util.unflatten_dict(
    {n: np.array(t.read()) for n, t in found.parameters().items()}, sep="/"
  )
  batch = encoders.batch_for(model)
  with torch.no_grad():
    answers = huggingface.encoder_answers(theirs, batch, model.pad_id)
  real = batch["encoder_input_tokens"] != model.pad_id
  difference = tiny_t5.largest_difference(
    encoders.outputs(model, params, batch)["logits"],
    encoders.joined({n: v.numpy() for n, v in answers.items()}, real),
  )
  report("logits", difference)
  assert difference < LOGITS_TOLERANCE


def test_files_of_2019(tmp_path):
  """A .bin of a bare class without its prefix, with gamma and beta."""
  config = transformers.AutoConfig.for_model(**encoders.CONFIGS["bert"])
  theirs = transformers.BertModel(config)
  old = {
    name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
      "LayerNorm.bias", "LayerNorm.beta"
    ): value
    for name, value in theirs.state_dict().items()
  }
  assert old.keys() != theirs.state_dict().keys()
  old["embeddings.position_ids"] = torch.arange(29)[None]
  config.save_pretrained(tmp_path)
  torch.save(old, tmp_path / directory.PYTORCH)
  found = directory.open_directory(tmp_path)
  state = {f"bert.{name}": value for name, value in theirs.state_dict().items()}
  assert found.tensors.keys() == state.keys()
  for name, tensor in found.tensors.items():
    assert (tensor.read() == state[name].numpy()).all()


TEXTS = ("a fine day in the house", "number 7, in the fine house!", " Häuser ")
LINES = [f"a fine day number {i} in the house" for i in range(300)]


def save_word_list(folder):
  letters = string.ascii_lowercase + string.digits + ",!"
  letters = [piece for c in letters for piece in (c, f"##{c}")]
  pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "house", *letters]
  (folder / "vocab.txt").write_text("\n".join(pieces))
  return {"vocab_size": len(pieces)}


def save_byte_bpe(folder):
  trained = tokenizers.ByteLevelBPETokenizer()
  special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
  trained.train_from_iterator(
    LINES, vocab_size=300, special_tokens=special, show_progress=False
  )
  trained.save_model(str(folder))
  return {"vocab_size": trained.get_vocab_size()}


def save_sentencepiece(folder):
  sentencepiece.SentencePieceTrainer.Train(
    sentence_iterator=iter(LINES),
    model_prefix=str(folder / "sentencepiece.bpe"),
    vocab_size=60,
    character_coverage=1.0,
    hard_vocab_limit=False,
    minloglevel=2,
  )
  (folder / "sentencepiece.bpe.vocab").unlink()
  path = str(folder / "sentencepiece.bpe.model")
  model = sentencepiece.SentencePieceProcessor(model_file=path)
  return {"vocab_size": model.GetPieceSize() + 2}


@pytest.mark.parametrize(
  ("name", "save"),
  [
    ("bert_classes", save_word_list),
    ("distilbert_masked", save_word_list),
    ("roberta_classes", save_byte_bpe),
    ("xlm_roberta_masked", save_sentencepiece),
  ],
)
def test_directories_with_their_tokenizers(name, save, tmp_path, capsys):
  """There and back, and as a model that was trained here is written."""
  theirs, run, back = (tmp_path / part for part in ("theirs", "run", "back"))
  theirs.mkdir()
  config = {**encoders.CONFIGS[name], **save(theirs)}
  config = transformers.AutoConfig.for_model(**config)
  config.max_position_embeddings = 64
  model = huggingface.class_of(config)(config)
  model.save_pretrained(theirs)
  assert cli.main(["convert", str(theirs), str(run)]) == 0
  assert cli.main(["convert", str(run), str(back)]) == 0
  for path in theirs.iterdir():
    assert (back / path.name).read_bytes() == path.read_bytes(), path.name
  vocabulary = Vocabulary(theirs)
  trained = tmp_path / "trained"
  trained.mkdir()
  capsys.readouterr()
  said = tokenizer_files.write(vocabulary, trained, of_encoder=True)
  (trained / "config.json").write_bytes((theirs / "config.json").read_bytes())
  assert not said
  for folder in (theirs, trained, back):
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    assert tokenizer.mask_token_id == vocabulary.mask_id
    assert tokenizer.pad_token_id == vocabulary.pad_id
    for text in TEXTS:
      ids = [vocabulary.cls_id, *vocabulary.encode(text), vocabulary.sep_id]
      assert tokenizer(text).input_ids == ids, (folder.name, text)
  assert len(tokenizer) == config.vocab_size


@pytest.fixture
def pairs(tmp_path):
  """Registers pairs with a vocabulary; they are forgotten after the test."""
  random = np.random.RandomState(0)
  words = " ".join(LINES).split()
  rows = [
    [" ".join(random.choice(words, size)) for size in random.randint(1, 9, 2)]
    + [random.choice(["yes", "no", "maybe"])]
    for _ in range(24)
  ]

  def register(vocabulary):
    lines = ["\t".join(row) for row in [["a", "b", "label"], *rows]]
    (tmp_path / "rows.tsv").write_text("\n".join(lines))
    ClassesTask.from_tsv(
      "oracle_pairs",
      splits={"validation": str(tmp_path / "rows.tsv")},
      inputs="first: {a} second: {b}",
      targets="{label}",
      labels=["yes", "no", "maybe"],
      metrics=["accuracy"],
      vocabulary=str(vocabulary),
    )
    return rows

  yield register
  for name in ("oracle_pairs", "oracle_pairs:classes"):
    seqio.TaskRegistry.remove(name)


@pytest.mark.slow
@pytest.mark.parametrize(
  ("name", "save"),
  [
    ("bert_classes", save_word_list),
    ("roberta_classes", save_byte_bpe),
    ("xlm_roberta_classes", save_sentencepiece),
    ("distilbert_classes", save_word_list),
  ],
)
def test_pairs_are_classified_as_by_their_tokenizer_and_class(
  name, save, pairs, tmp_path, report
):
  """By `zoo evaluate` of a directory with its classes in another order."""
  theirs = tmp_path / "theirs"
  theirs.mkdir()
  config = {**encoders.CONFIGS[name], **save(theirs)}
  names = ["No", "maybe", "YES"]
  config = transformers.AutoConfig.for_model(
    **{**config, "max_position_embeddings": 132, "initializer_range": 0.4},
  )
  config.id2label = dict(enumerate(names))
  torch.manual_seed(0)
  model = huggingface.class_of(config)(config).eval()
  model.save_pretrained(theirs)
  rows = pairs(theirs)
  words = ["evaluate", f"--checkpoint={theirs}", "--mixture=oracle_pairs"]
  prepared = f"--gin.PREPARED_DIR='{tmp_path / 'prepared'}'"
  assert cli.main([*words, prepared]) == 0
  (file,) = tmp_path.glob("evaluation/**/oracle_pairs.jsonl")
  found = [json.loads(line) for line in file.read_text().splitlines()]
  tokenizer = transformers.AutoTokenizer.from_pretrained(theirs)
  differences = []
  for (first, second, label), answer in zip(rows, found, strict=True):
    with torch.no_grad():
      logits = model(**tokenizer(first, second, return_tensors="pt")).logits[0]
    assert answer["prediction"] == names[int(logits.argmax())].lower()
    likelihoods = torch.log_softmax(logits, -1)
    index = [name.lower() for name in names].index(label)
    expected = likelihoods[index].item()
    differences.append(abs(answer["log_likelihood"] - expected))
  report("log-likelihoods", max(differences))
  assert max(differences) < 5e-5
  assert np.std([answer["log_likelihood"] for answer in found]) > 0.1
