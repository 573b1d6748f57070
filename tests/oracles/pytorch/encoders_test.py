"""Encoders with every head, live: make test-oracles.

What some of the classes compute is recorded by
tests/oracles/pytorch/make_goldens.py.
"""

import functools
import json
import string

from flax import traverse_util
import jax
import numpy as np
import pytest
import sentencepiece
import seqio
import tokenizers
import torch
import transformers

from tasks.your_data import forms
from tests import tiny_t5
from tests.golden import encoders
from tests.golden import families
from tests.golden import variants
from tests.oracles.pytorch import huggingface
from transformer_zoo.checkpoints import tokenizer_files
from transformer_zoo.cli import main as cli
from transformer_zoo.data.vocabularies import Vocabulary
from transformer_zoo.interop.huggingface import directory
from transformer_zoo.interop.huggingface import family_of

LOGITS_TOLERANCE = 2e-5
GRADIENT_TOLERANCE = 1e-4

every_config = pytest.mark.parametrize("name", encoders.CONFIGS)
# Scanned, a model's layers are compiled once.
outputs = variants.of_scanned(encoders.outputs, gradient=True)
# What differs in its head alone has one layer.
HEADS = (
  *("classes", "number", "tags", "spans", "choice", "mean", "untied"),
  *("next_sentence", "discriminator"),
)
SHALLOW = dict.fromkeys(
  (
    *("num_hidden_layers", "n_layers", "n_layer"),
    *("encoder_layers", "decoder_layers"),
  ),
  1,
)


def config_of(name):
  """The configuration by a name, with few layers where others have many."""
  config = encoders.CONFIGS[name]
  if name in encoders.RECORDED or not name.endswith(HEADS):
    return config
  return {k: SHALLOW.get(k, v) for k, v in config.items()}


@every_config
def test_outputs_and_gradient_of_every_parameter(name, report):
  """Of our model, and of theirs as we describe it."""
  config = config_of(name)
  model = families.build(config)
  params, batch = families.weights(model), encoders.batch_for(model)
  found = outputs(model, params, batch)
  described = family_of(config).config(model)
  theirs = huggingface.encoder_outputs(described, model, params, batch)
  assert set(found) == set(theirs)
  largest = {entry: np.abs(value).max() for entry, value in theirs.items()}
  # A bias of all keys cancels in the softmax: what is left of its gradient is
  # rounding, on both sides. One that is turned, or meets the vectors of
  # distances, does not.
  most = max(v for k, v in largest.items() if k.startswith("gradient/"))
  attention = model.encoder.layer_stack.layer.attention
  seen = (
    model.encoder.relative_embedder is not None
    or getattr(attention, "rotary", None) is not None
  )
  cancels = "position_key/bias" if seen else "key/bias"
  for entry in [entry for entry in theirs if entry.endswith(cancels)]:
    assert np.abs(found.pop(entry)).max() < 1e-6 * most
    assert np.abs(theirs.pop(entry)).max() < 1e-6 * most
  # The query stream's vector, where there is one stream.
  for entry in [entry for entry, value in largest.items() if value == 0]:
    assert not found.pop(entry).any()
    del theirs[entry]
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
  config = config_of(name)
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
    outputs(model, params, batch)["logits"],
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


TASK = "oracle_of_encoders"


@pytest.fixture
def evaluated(tmp_path, monkeypatch):
  """Returns a function that answers rows as `zoo evaluate` of a directory."""
  before = set(seqio.TaskRegistry.names())

  def evaluate(folder, task_class, rows, **options):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    task_class.from_jsonl(
      TASK, {"validation": str(path)}, vocabulary=str(folder), **options
    )
    words = ["evaluate", f"--checkpoint={folder}", f"--mixture={TASK}"]
    prepared = f"--gin.PREPARED_DIR='{tmp_path / 'prepared'}'"
    assert cli.main([*words, prepared]) == 0
    (file,) = tmp_path.glob(f"evaluation/**/{TASK}.jsonl")
    return [json.loads(line) for line in file.read_text().splitlines()]

  yield evaluate
  for name in set(seqio.TaskRegistry.names()) - before:
    seqio.TaskRegistry.remove(name)


def random_texts(number: int, seed: int = 0) -> list[str]:
  random = np.random.RandomState(seed)
  words = " ".join(LINES).split()
  return [
    " ".join(random.choice(words, random.randint(1, 9))) for _ in range(number)
  ]


def saved(folder, name, save, **changes):
  """Their model with a tokenizer, and large weights that tell texts apart."""
  folder.mkdir()
  config = {**encoders.CONFIGS[name], **save(folder), **changes}
  config = transformers.AutoConfig.for_model(
    **{**config, "max_position_embeddings": 132, "initializer_range": 0.4}
  )
  torch.manual_seed(0)
  model = huggingface.class_of(config)(config).eval()
  model.save_pretrained(folder)
  return model, transformers.AutoTokenizer.from_pretrained(folder)


def assert_likelihoods(found, expected, report):
  found = np.array([answer["log_likelihood"] for answer in found])
  difference = np.abs(found - np.array(expected)).max()
  report("log-likelihoods", difference)
  assert difference < 1e-4
  assert found.std() > 0.1


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
def test_pairs(name, save, evaluated, tmp_path, report):
  """As by their tokenizer and class, whose classes are in another order."""
  theirs, labels = tmp_path / "theirs", ["yes", "no", "maybe"]
  names = ["No", "maybe", "YES"]
  model, tokenizer = saved(theirs, name, save, id2label=dict(enumerate(names)))
  texts = zip(random_texts(24), random_texts(24, seed=1), strict=True)
  rows = [
    {"a": a, "b": b, "label": labels[i % 3]} for i, (a, b) in enumerate(texts)
  ]
  found = evaluated(
    theirs,
    forms.ClassesTask,
    rows,
    inputs="first: {a} second: {b}",
    targets="{label}",
    labels=labels,
    metrics=["accuracy"],
  )
  expected, plain = [], [name.lower() for name in names]
  for row, answer in zip(rows, found, strict=True):
    with torch.no_grad():
      read = tokenizer(row["a"], row["b"], return_tensors="pt")
      likelihoods = torch.log_softmax(model(**read).logits[0], -1)
    assert answer["prediction"] == plain[int(likelihoods.argmax())]
    expected.append(likelihoods[plain.index(row["label"])].item())
  assert_likelihoods(found, expected, report)


@pytest.mark.slow
@pytest.mark.parametrize(
  ("name", "save"),
  [("bert_choice", save_word_list), ("roberta_choice", save_byte_bpe)],
)
def test_choices(name, save, evaluated, tmp_path, report):
  theirs = tmp_path / "theirs"
  model, tokenizer = saved(theirs, name, save)
  texts = random_texts(36)
  rows = [
    {"a": texts[i], "c": [texts[12 + i] + " a", texts[24 + i]], "right": i % 2}
    for i in range(12)
  ]
  found = evaluated(
    theirs,
    forms.ChoicesTask,
    rows,
    inputs="{a}",
    choices="{c}",
    targets="{right}",
    metrics=["accuracy"],
  )
  expected = []
  for row in rows:
    read = tokenizer([row["a"]] * 2, row["c"], return_tensors="pt",
                     padding=True)  # fmt: skip
    with torch.no_grad():
      logits = model(**{name: ids[None] for name, ids in read.items()}).logits
    expected.append(torch.log_softmax(logits[0], -1)[row["right"]].item())
  assert_likelihoods(found, expected, report)


@pytest.mark.slow
@pytest.mark.parametrize(
  ("name", "save"),
  [("bert_tags", save_word_list), ("xlm_roberta_tags", save_sentencepiece)],
)
def test_tags(name, save, evaluated, tmp_path, report):
  """The tags of first pieces, in the order of the task."""
  theirs, tags = tmp_path / "theirs", ["O", "B-A", "I-A"]
  names = ["B-A", "I-A", "O"]
  model, tokenizer = saved(theirs, name, save, id2label=dict(enumerate(names)))
  rows = [
    {"words": words, "tags": [tags[i % 2] for i in range(len(words))]}
    for words in map(str.split, random_texts(12))
  ]
  found = evaluated(
    theirs,
    forms.TagsTask,
    rows,
    inputs="{words}",
    targets="{tags}",
    labels=tags,
  )
  expected = []
  for row in rows:
    read = tokenizer(row["words"], is_split_into_words=True,
                     return_tensors="pt")  # fmt: skip
    with torch.no_grad():
      likelihoods = torch.log_softmax(model(**read).logits[0], -1)
    first = [read.word_to_tokens(i).start for i in range(len(row["words"]))]
    wanted = [names.index(tag) for tag in row["tags"]]
    expected.append(likelihoods[first, wanted].sum().item())
  assert_likelihoods(found, expected, report)


@pytest.mark.slow
@pytest.mark.parametrize(
  ("name", "save"),
  [("bert_spans", save_word_list), ("roberta_spans", save_byte_bpe)],
)
def test_spans(name, save, evaluated, tmp_path, report):
  """The best span of a context, and its score."""
  theirs = tmp_path / "theirs"
  model, tokenizer = saved(theirs, name, save)
  texts = random_texts(24)
  rows = [
    {"q": texts[i], "c": texts[12 + i], "answers": texts[12 + i].split()[:1]}
    for i in range(12)
  ]
  found = evaluated(
    theirs,
    forms.SpansTask,
    rows,
    inputs="{q} context: {c}",
    targets="{answers}",
    metrics=["squad"],
  )
  expected = []
  for row, answer in zip(rows, found, strict=True):
    read = tokenizer(row["q"], row["c"], return_tensors="pt")
    with torch.no_grad():
      outputs = model(**read)
    starts, ends = outputs.start_logits[0], outputs.end_logits[0]
    places = [i for i, text in enumerate(read.sequence_ids()) if text == 1]
    scores = {
      (i, j): (starts[i] + ends[j]).item()
      for i in places
      for j in places
      if i <= j < i + 30
    }
    first, last = max(scores, key=scores.get)
    start = read.token_to_chars(first).start
    end = read.token_to_chars(last).end
    assert answer["prediction"].strip() == row["c"][start:end].strip()
    last = read.char_to_token(len(row["answers"][0]) - 1, sequence_index=1)
    likelihoods = [torch.log_softmax(logits, 0) for logits in (starts, ends)]
    expected.append(
      (likelihoods[0][places[0]] + likelihoods[1][last]).item() / 2
    )
  assert_likelihoods(found, expected, report)


@pytest.mark.parametrize(
  ("memory_length", "ordered"),
  [(None, True), (5, False), (5, True), (13, False)],
)
def test_memory_of_the_text_before(memory_length, ordered, report):
  """Three stretches, as their class reads them one by one with its memory.

  Logits and the gradient of every parameter, no part of which goes through
  memory; 13 tokens are more than one stretch.
  """
  described = encoders.CONFIGS["xlnet_tokens"] | {"clamp_len": -1, "n_layer": 2}
  model = families.build(described)
  params = families.weights(model)
  theirs = huggingface.load(family_of(described).config(model), params)
  theirs.transformer.mem_len = memory_length or 9
  model = model.clone(num_stretches=3, memory_length=memory_length)
  random = np.random.RandomState(0)
  tokens = random.randint(4, 45, (2, 26)).astype(np.int32)
  # Their memory is of type 0, whatever it was read as.
  types = np.repeat([[0, 1]], [22, 4], axis=1).repeat(2, axis=0)
  batch = {"encoder_input_tokens": tokens, "encoder_token_types": types}
  places = np.tile([0, 2, 3, 6, 9, 10, 14, 19, 20, 25], (2, 1))
  if ordered:
    order = np.full((2, 26), -1)
    for row in order:
      row[places[0]] = random.permutation(places.shape[1])
    batch |= {"encoder_order": order, "encoder_predicted_places": places}
    hidden = (order[:, None] >= 0) & (order[:, None] >= order[:, :, None])
  else:
    places = np.tile(np.arange(26), (2, 1))
  signs = random.standard_normal((*places.shape, 45)).astype(np.float32)

  @jax.jit
  @functools.partial(jax.grad, has_aux=True)
  def answers(params):
    found = model.apply({"params": params}, batch, method="all_logits")
    found = found["tokens"][np.arange(2)[:, None], places]
    return (found * signs).sum(), found

  gradients, found = answers(params)
  memory, expected = None, []
  for here in (slice(0, 9), slice(9, 18), slice(18, 26)):
    keywords = {"token_type_ids": torch.tensor(types[:, here])}
    if ordered:
      asked = places[0][(places[0] >= here.start) & (places[0] < here.stop)]
      mapping = torch.eye(26)[asked][:, here]
      keywords |= {
        "perm_mask": torch.tensor(hidden[:, here, here]).float(),
        "target_mapping": mapping.expand(2, -1, -1),
      }
    read = torch.tensor(tokens[:, here], dtype=torch.long)
    made = theirs(read, mems=memory, use_mems=True, **keywords)
    memory = made.mems
    expected.append(made.logits)
  expected = torch.cat(expected, dim=1)
  (expected * torch.tensor(signs)).sum().backward()
  if not ordered:  # The query stream's vector.
    theirs.transformer.mask_emb.grad = torch.zeros(1, 1, 30)
  difference = tiny_t5.largest_difference(found, expected.detach().numpy())
  report("logits", difference)
  assert difference < LOGITS_TOLERANCE
  expected = huggingface.gradients_as_ours(theirs)
  found = traverse_util.flatten_dict(gradients, sep="/")
  assert found.keys() == expected.keys()
  if not ordered:
    assert not np.any(found.pop("query_embedder/embedding"))
  difference = max(
    tiny_t5.largest_difference(value, expected[name])
    for name, value in found.items()
  )
  report("gradients", difference)
  assert difference < GRADIENT_TOLERANCE
