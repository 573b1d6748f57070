"""`zoo infer` of encoders: texts to answers, vectors, and what is refused.

Answers are compared with classes of `transformers` by
tests/oracles/pytorch/encoder_answers_test.py.
"""

import functools
import json
import types

from flax import traverse_util
import jax
import numpy as np
import pytest
import safetensors.numpy
import scipy.special

from tests import tiny_models
import transformer_zoo
from transformer_zoo.architectures.ensemble import Ensemble
from transformer_zoo.cli import main as cli
from transformer_zoo.conversion import exported_directory
from transformer_zoo.data.vocabularies import Vocabulary
from transformer_zoo.errors import UserError
from transformer_zoo.runs.answers import encoder_answers
from transformer_zoo.runs.answers.encoder_answers import HeadAnswers
from transformer_zoo.tensors.lazy_tensors import Tensor
from transformer_zoo.training.sharding.partitioning import ONE_COPY_PER_DEVICE

WORDS = (
  "[PAD] [UNK] [CLS] [SEP] [MASK] red blue green car boat house sees likes . a"
).split()
TEXTS = [f"{a} {b}" for a in WORDS[5:8] for b in WORDS[8:11]]


@pytest.fixture
def directory(tmp_path):
  """Returns a function: a Hugging Face directory of a random BERT."""

  def write(*heads, name="directory", **macros):
    model, _ = tiny_models.build(
      "bert",
      *(f"../heads/{head}.gin" for head in heads),
      VOCAB_SIZE=len(WORDS),
      MAX_POSITIONS=12,
      HEAD_DIM=6,
      **macros,
    )
    folder = tmp_path / name
    folder.mkdir()
    params = traverse_util.flatten_dict(
      tiny_models.random_parameters(model), sep="/"
    )
    tensors = {path: Tensor.of(array) for path, array in params.items()}
    exported_directory.write(folder, model, tensors)
    (folder / "vocab.txt").write_text("\n".join(WORDS))
    return folder

  return write


@pytest.fixture
def infer(capsys):
  """Returns a function: the lines that `zoo infer` prints; errors."""

  def call(folder, *words, code=0):
    words = ["infer", f"--checkpoint={folder}", "--gin.BATCH_SIZE=8", *words]
    capsys.readouterr()
    assert cli.main([*map(str, words)]) == code
    captured = capsys.readouterr()
    return captured.out.splitlines(), captured.err

  return call


@pytest.mark.slow
def test_masks_are_filled(directory, infer):
  folder = directory("tokens")
  text = "A red [MASK] sees [MASK]."
  (line,), _ = infer(folder, text, "--json", "--gin.infer.num_fillings=3")
  found = json.loads(line)
  best = [each[0]["token"] for each in found["fillings"]]
  assert found["prediction"] == f"A red {best[0]} sees {best[1]}."
  for filling in found["fillings"]:
    shares = [each["probability"] for each in filling]
    assert len(shares) == 3 and shares == sorted(shares, reverse=True)
  (shown,), _ = infer(folder, text)
  parts = shown.split("\t")
  assert parts[0] == found["prediction"] and len(parts) == 3
  assert parts[1].split()[0] == best[0]


def test_a_tab_before_a_mask_stays(directory, infer):
  text = "A red [MASK].\t[MASK] car [MASK]"
  (line,), _ = infer(directory("tokens"), text, "--json")
  found = json.loads(line)
  best = [each[0]["token"] for each in found["fillings"]]
  assert found["prediction"] == "A red {}.\t{} car {}".format(*best)


def test_vectors_keep_the_order_of_the_texts(directory, infer, tmp_path):
  """However they share batches."""
  folder, file = directory("tokens"), tmp_path / "vectors.npz"
  texts = [*TEXTS, TEXTS[0], " ".join(TEXTS[:2])]

  def vectors(*texts):
    infer(folder, *texts, f"--embeddings={file}")
    with np.load(file) as arrays:
      return arrays["embeddings"]

  found = vectors(*texts)
  assert found.shape == (len(texts), 24) and found.dtype == np.float32
  np.testing.assert_array_equal(found[0], found[len(TEXTS)])
  assert len(np.unique(found.round(4), axis=0)) == len(texts) - 1
  order = [7, 3, 10, 0]
  again = vectors(*(texts[i] for i in order))
  np.testing.assert_allclose(again, found[order], atol=1e-5)


@pytest.fixture
def filled(tmp_path):
  """Returns a function: a model of one direction, and its fillings."""

  def call(direction, text, words=WORDS):
    model, converter = tiny_models.build(
      "bert", f"{direction}.gin", "../heads/tokens.gin", VOCAB_SIZE=len(WORDS)
    )
    params = tiny_models.random_parameters(model)
    (tmp_path / "vocab.txt").write_text("\n".join(words))
    vocabulary = Vocabulary(tmp_path)
    mesh = ONE_COPY_PER_DEVICE.mesh()
    with ONE_COPY_PER_DEVICE.activate(mesh):
      answering = HeadAnswers(None, None, num_fillings=1).answering(
        model,
        vocabulary,
        lengths={"inputs": 12},
        decoding=None,
        params=params,
        mesh=mesh,
        batch_size=8,
        converter=converter,
        report=print,
      )
      ((answer,),) = answering.answers([{"inputs": text}])
    tokens = [[each["token"] for each in f] for f in answer["fillings"]]

    def likeliest(*ids):
      batch = {"encoder_input_tokens": np.array([ids])}
      apply = functools.partial(model.apply, {"params": params})
      logits = apply(apply(batch, method="hidden"), method="logits")
      return [words[i] for i in logits[0].argmax(-1)]

    return tokens, likeliest

  return call


@pytest.mark.slow
@pytest.mark.parametrize(
  ("direction", "shift"), [("left_to_right", -1), ("right_to_left", 1)]
)
def test_masks_are_predicted_from_their_neighbours(direction, shift, filled):
  """Whose targets they were, where a model reads in one direction."""
  found, likeliest = filled(direction, "[MASK] red [MASK] car")
  # [CLS] [MASK] red [MASK] car [SEP]
  tokens = likeliest(2, 4, 5, 4, 8, 3)
  assert found == [[tokens[1 + shift]], [tokens[3 + shift]]]


@pytest.mark.slow
@pytest.mark.parametrize(
  ("direction", "text", "error"),
  [
    (
      "left_to_right",
      "[MASK] red",
      "example 1 has a mask at its beginning, and the model reads from left "
      "to right, so that it has no token to predict it from; write one before "
      "the mask",
    ),
    (
      "right_to_left",
      "red [MASK]",
      "example 1 has a mask at its end, and the model reads from right to "
      "left, so that it has no token to predict it from; write one behind the "
      "mask",
    ),
  ],
)
def test_masks_without_a_neighbour_are_refused(direction, text, error, filled):
  """Of a vocabulary without [CLS] and [SEP]."""
  words = [{"[CLS]": "cls", "[SEP]": "sep"}.get(word, word) for word in WORDS]
  with pytest.raises(UserError) as caught:
    filled(direction, text, words)
  assert str(caught.value) == error
  filled(direction, "red [MASK] car", words)


def test_models_of_several_directions_fill_no_masks():
  models = [
    tiny_models.build("bert", f"{name}.gin", "../heads/tokens.gin")[0]
    for name in ("left_to_right", "right_to_left")
  ]
  _, converter = tiny_models.build("bert")
  with pytest.raises(UserError, match="read in several directions"):
    HeadAnswers(None, None, num_fillings=1).answering(
      Ensemble.of(models),
      types.SimpleNamespace(size=len(WORDS)),
      lengths={"inputs": 12},
      decoding=None,
      params=None,
      mesh=None,
      batch_size=8,
      converter=converter,
      report=print,
    )


@pytest.mark.slow
def test_answers_of_a_file(directory, infer, tmp_path):
  folder, output = directory("classes", NUM_CLASSES=3), tmp_path / "out.jsonl"
  lines = tmp_path / "texts.txt"
  lines.write_text("\n".join(TEXTS))
  infer(folder, lines, f"--output={output}")
  whole = output.read_text()
  names = [*json.loads(whole.splitlines()[0])["probabilities"]]
  assert names == ["0", "1", "2"]
  infer(folder, lines, f"--output={output}", "--gin.infer.num_fillings=1")
  assert output.read_text() == whole


def test_heads_answer_in_python(directory, infer, tmp_path):
  """As the command, and its vectors; logits are those of the shares."""
  folder = directory("classes", NUM_CLASSES=3)
  model = transformer_zoo.load(folder, BATCH_SIZE=8)
  lines, _ = infer(folder, *TEXTS, "a red\tcar", "--json")
  expected = [json.loads(line) for line in lines]
  found = model.classify([*TEXTS, ("a red", "car")])
  for answer, line in zip(found, expected, strict=True):
    assert answer == {name: line[name] for name in answer}
  logits = np.stack(model.logits(TEXTS))
  shares = [[*each["probabilities"].values()] for each in found[: len(TEXTS)]]
  np.testing.assert_allclose(
    scipy.special.softmax(logits, axis=-1), shares, atol=1e-5
  )
  infer(folder, *TEXTS, f"--embeddings={tmp_path / 'v.npz'}")
  vectors = np.load(tmp_path / "v.npz")["embeddings"]
  np.testing.assert_array_equal(model.embed(TEXTS), vectors)
  np.testing.assert_array_equal(model.embed(TEXTS[0]), vectors[0])
  assert model.embed(TEXTS[0], layer=(0, 1), pool="first").shape == (
    2 * vectors.shape[1],
  )
  for ask, error in (
    (model.fill, "the model answers classes; ask it by `classify`"),
    (model.generate, "which writes no text; ask it by `classify` or `embed`"),
  ):
    with pytest.raises(UserError, match=error):
      ask("a red car")


def test_classes_of_one_name_are_told_by_their_numbers(directory, infer):
  folder = directory("classes", NUM_CLASSES=3)
  path = folder / "config.json"
  labels = {"0": "no", "1": "yes", "2": "no"}
  path.write_text(
    json.dumps({**json.loads(path.read_text()), "id2label": labels})
  )
  (line,), _ = infer(folder, "a red car", "--json")
  assert [*json.loads(line)["probabilities"]] == ["0", "1", "2"]


@pytest.mark.slow
def test_several_checkpoints_answer_with_their_mean_logits(directory, infer):
  """Whose classes have the same names in another order."""
  names = {"0": "no", "1": "maybe", "2": "yes"}
  folders = []
  others = dict(zip("201", names.values(), strict=True))
  for name, labels in (("a", names), ("b", others)):
    folders.append(directory("classes", NUM_CLASSES=3, name=name))
    path = folders[-1] / "config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps({**config, "id2label": labels}))

  def logits(*words):
    lines, error = infer(folders[0], "a red car", "--json", *words)
    shares = json.loads(lines[0])["probabilities"]
    assert [*shares] == [*names.values()]
    return np.log([*shares.values()]), error

  one, _ = logits()
  both, error = logits(f"--checkpoint={folders[1]}")
  assert "which are put in the task's order" in error
  # The parameters are the same: 'no' of the second is the third of the first.
  expected = (one + one[[2, 0, 1]]) / 2
  np.testing.assert_allclose(
    both - both.mean(), expected - expected.mean(), atol=1e-4
  )


@pytest.mark.parametrize(
  ("head", "macros", "words", "error"),
  [
    (
      "tokens",
      {},
      ["a red car"],
      "example 1 has no [MASK] to fill; write one where a token is missing",
    ),
    (
      "tokens",
      {},
      ["a [MASK]", "red car blue boat green house a red car sees [MASK]"],
      "example 2 has a mask behind the 12 tokens that are read; shorten it, "
      "or raise TASK_FEATURE_LENGTHS",
    ),
    (
      "classes",
      {"NUM_CLASSES": 3},
      ["a [MASK]", "--gin.EncoderFeatures.form=None"],
      "'FOLDER/directory' has no head 'tokens' that fills masks; it has "
      "'classes': take its vectors with --embeddings, or train the head first, "
      "with INITIAL_CHECKPOINT_PATH set to this checkpoint",
    ),
    (
      "classes",
      {"NUM_CLASSES": 3},
      ["a\tred\tcar"],
      "the number of texts in example 1, which tabs divide, is 3; the model "
      "reads 1 to 2",
    ),
    (
      "choice",
      {},
      ["a\tred", "car"],
      "the number of texts in example 2, which tabs divide, is 1; the model "
      "reads 2 or more",
    ),
    (
      "choice",
      {},
      ["a\tred\tcar", "a\tred\tred"],
      "example 2 has the choice 'red' 2 times; give each choice once, so that "
      "its text identifies its probability",
    ),
    (
      "spans",
      {},
      ["a red car"],
      "the number of texts in example 1, which tabs divide, is 1; the model "
      "reads 2",
    ),
    (
      "classes",
      {"NUM_CLASSES": 3},
      ["--score", "a red car\t0"],
      "--score gives the log-likelihoods of texts that a model writes, and an "
      "encoder writes none; zoo evaluate scores the labels of a task",
    ),
    (
      "classes",
      {"NUM_CLASSES": 3},
      ["a", "--embeddings=FOLDER/v.npz", "--gin.Embedding.pool='max'"],
      "Embedding.pool is 'max'; it must be one of 'first', 'mean', 'last'",
    ),
    (
      "classes",
      {"NUM_CLASSES": 3},
      ["a", "--embeddings=FOLDER/v.npz", "--gin.Embedding.width=31"],
      "Embedding.width is 31, and vectors have 24 features; choose one from 1 "
      "to 24",
    ),
    (
      "classes",
      {"NUM_CLASSES": 3},
      ["a", "--embeddings=FOLDER/v.npz", "--gin.Embedding.prompt='query'"],
      "Embedding.prompt is 'query', and there is no prompt; name one of them, "
      "or write it into Embedding.prompts",
    ),
    (
      "classes",
      {"NUM_CLASSES": 3},
      [
        "a",
        "--embeddings=FOLDER/v.npz",
        "--gin.Embedding.mix=@LayerMix()",
        "--gin.LayerMix.kind='learned'",
      ],
      "Embedding.mix has the kind 'learned', whose weights nothing has "
      "learned; choose another kind, or leave it out for the model's own mix",
    ),
    (
      "classes",
      {"NUM_CLASSES": 3},
      [
        "a",
        "--embeddings=FOLDER/v.npz",
        "--gin.Embedding.mix=@LayerMix()",
        "--gin.LayerMix.layers=(3,)",
      ],
      "LayerMix.layers has 3, but the stack has 2 layers; choose from 0, what "
      "enters them, to 2",
    ),
  ],
)
def test_refusals(head, macros, words, error, directory, infer, tmp_path):
  words = [word.replace("FOLDER", str(tmp_path)) for word in words]
  _, found = infer(directory(head, **macros), *words, code=2)
  error = error.replace("FOLDER", str(tmp_path))
  assert found == f"zoo: error: {error}\n"


@pytest.mark.parametrize(
  ("head", "text", "outputs"),
  [
    ("tokens", "a [MASK]", "probabilities"),
    ("classes", "a red car", "logits"),
    *(
      pytest.param(*each, "logits", marks=pytest.mark.slow)
      for each in (
        ("number", "a red car"),
        ("choice", "a red\tcar\tboat"),
        ("spans", "a red\tcar boat"),
        ("tags", "a red car"),
      )
    ),
  ],
)
def test_parameters_that_are_no_numbers(
  head, text, outputs, directory, infer, monkeypatch
):
  draw = tiny_models.random_parameters

  def damaged(model):
    return jax.tree.map(lambda x: np.full_like(x, np.nan), draw(model))

  monkeypatch.setattr(tiny_models, "random_parameters", damaged)
  _, error = infer(directory(head), text, code=2)
  assert error.splitlines()[-1] == (
    f"zoo: error: the {outputs} of example 1 are no numbers (NaN): the "
    "parameters are damaged or have diverged; take another checkpoint"
  )


def test_an_index_that_lacks_a_shard_is_told_by_its_tensors(directory, infer):
  """And not by the head, which was in the shard too."""
  folder = directory("tokens")
  whole = folder / "model.safetensors"
  kept = {
    name: array
    for name, array in safetensors.numpy.load_file(whole).items()
    if not name.startswith(("cls.", "bert.encoder.layer.1.output.dense."))
  }
  whole.unlink()
  safetensors.numpy.save_file(kept, folder / "1.safetensors")
  index = {"weight_map": dict.fromkeys(kept, "1.safetensors")}
  (folder / "model.safetensors.index.json").write_text(json.dumps(index))
  _, error = infer(folder, "a [MASK]", code=2)
  assert error.splitlines()[-1] == (
    f"zoo: error: the tensors in {str(folder)!r} do not fit its "
    "config.json: missing: bert.encoder.layer.1.output.dense.bias, "
    "bert.encoder.layer.1.output.dense.weight"
  )


def test_a_vocabulary_without_a_mask(tmp_path):
  answers = HeadAnswers(None, None, num_fillings=1)
  vocabulary = types.SimpleNamespace(path="words", mask_id=None)
  with pytest.raises(UserError) as error:
    answers.check([{"inputs": "[MASK]"}], vocabulary)
  assert str(error.value) == (
    "the vocabulary 'words' has no mask token, so that nothing can be filled; "
    "name one that has it with --vocabulary"
  )


def test_texts_that_are_cut_are_reported(tmp_path):
  (tmp_path / "vocab.txt").write_text("\n".join(WORDS))
  reported = []
  texts = encoder_answers.Texts(
    Vocabulary(tmp_path), separators=1, length=6, report=reported.append
  )
  rows = texts.rows([["a red car"], ["a red car sees a boat"]], 4)
  assert [len(row["inputs"]) for row in rows] == [5, 6]
  assert reported == [
    "inputs of example 6 exceed 6 tokens and lose their end; "
    "TASK_FEATURE_LENGTHS has the lengths"
  ]


@pytest.mark.slow
@pytest.mark.parametrize(
  ("head", "texts", "reports"),
  [
    (
      "choice",
      ["a\tred\tcar", "a\tred car boat\tblue"],
      ["choices of example 2 exceed 6 tokens"],
    ),
    (
      "spans",
      ["a red\tcar", "a red car sees blue\tcar"],
      ["questions of example 2 exceed 4 tokens"],
    ),
  ],
)
def test_choices_and_questions_that_are_cut_are_reported(
  head, texts, reports, directory, infer
):
  _, error = infer(directory(head), *texts)
  ends = " and lose their end; TASK_FEATURE_LENGTHS has the lengths"
  cut = [line for line in error.splitlines() if "lose" in line]
  assert cut == [report + ends for report in reports]


@pytest.mark.parametrize("shortest, pairs", [(0, False), (3, True)])
def test_a_model_of_pairs_wants_a_second_text(shortest, pairs):
  split = types.SimpleNamespace(quantiles={"second": {"0": shortest}})
  task = types.SimpleNamespace(splits={"train": split})
  assert encoder_answers._are_pairs([task]) == pairs
  answers = HeadAnswers({"form": "classes"}, None, 1, pairs)
  (whole,) = answers.check([{"inputs": "a\tb"}], None)
  assert whole["inputs"] == "a\tb"
  if not pairs:
    assert len([*answers.check([{"inputs": "a"}], None)]) == 1
    return
  with pytest.raises(UserError, match="in example 1, .* is 1; the model reads"):
    [*answers.check([{"inputs": "a"}], None)]
