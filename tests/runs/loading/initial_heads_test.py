"""Encoders start from checkpoints with other heads: of runs and directories."""

import functools
import json

from flax import traverse_util
import numpy as np
import pytest

from tests import tiny_models
from transformer_zoo import config
from transformer_zoo.conversion import exported_directory
from transformer_zoo.errors import UserError
from transformer_zoo.peft.trainable import Trainable
from transformer_zoo.runs.loading import restoration
from transformer_zoo.runs.loading.initial_checkpoint import InitialCheckpoint
from transformer_zoo.tensors import orbax_checkpoints
from transformer_zoo.tensors import safetensors
from transformer_zoo.tensors.lazy_tensors import Tensor
from transformer_zoo.training import state as state_lib

SIZES = {
  "EMBED_DIM": 12,
  "MLP_DIM": 16,
  "NUM_HEADS": 3,
  "HEAD_DIM": 4,
  "NUM_ENCODER_LAYERS": 1,
  "MAX_POSITIONS": 11,
}
NEXT = "tokens_next_sentence"


class Ids:
  """A vocabulary of which its size alone is asked."""

  size = 40


@functools.cache
def build(*heads, architecture="bert", **macros):
  files = [f"architectures/{architecture}.gin"]
  files += [f"heads/{name}.gin" for name in heads]
  bindings = {**SIZES, "VOCAB_SIZE": 48, **macros}
  return config.build(
    "MODEL", files, [f"{name}={value!r}" for name, value in bindings.items()]
  )


def tensors_of(model) -> dict[str, Tensor]:
  params = tiny_models.random_parameters(model)
  flat = traverse_util.flatten_dict(params, sep="/")
  return {name: Tensor.of(array) for name, array in flat.items()}


def checkpoint(folder, model, kind="run"):
  """Writes random parameters of a model as a run or as a directory."""
  tensors = tensors_of(model)
  path = folder / kind
  if kind == "run":
    step = path / "checkpoints" / "7"
    step.parent.mkdir(parents=True)
    named = {f"params/{name}": tensor for name, tensor in tensors.items()}
    orbax_checkpoints.write(step, named)
  else:
    path.mkdir()
    exported_directory.write(path, model, tensors)
  return path


def started(path, model, class_names=(), **rules):
  """Parameters that a run would read by name, None for new ones; the report."""
  boxed = state_lib.abstract_variables(model)
  found = restoration.open_initial(
    InitialCheckpoint(str(path), **rules),
    model,
    boxed,
    [Ids()],
    class_names=class_names,
  )
  read = {
    name: tensor if tensor is None else tensor.read()
    for name, tensor in found.assignment.tensors.items()
  }
  return read, list(found.report())[1:]


def refusal(path, model, **rules) -> str:
  with pytest.raises(UserError) as caught:
    started(path, model, **rules)
  return str(caught.value)


@pytest.mark.parametrize("kind", ["run", "directory"])
@pytest.mark.parametrize(
  ("before", "after", "lines"),
  [
    (
      (NEXT,),
      ("classes",),
      [
        "  fresh: heads/classes",
        "  not used: heads/next_sentence",
        "  not used: heads/tokens",
      ],
    ),
    # The model of before has no pooler, that of masked tokens alone.
    (
      ("tokens",),
      ("choice",),
      ["  fresh: heads/choice", "  fresh: pooler", "  not used: heads/tokens"],
    ),
    (
      ("classes",),
      ("spans",),
      [
        "  fresh: heads/spans",
        "  not used: heads/classes",
        "  not used: pooler",
      ],
    ),
    (
      ("tokens",),
      (NEXT,),
      ["  fresh: heads/next_sentence", "  fresh: pooler"],
    ),
  ],
)
def test_other_heads_begin_anew(before, after, lines, kind, tmp_path):
  path = checkpoint(tmp_path, build(*before), kind)
  expected = tensors_of(build(*before))
  read, report = started(path, build(*after))
  assert sorted(report) == lines
  fresh = {name for name, array in read.items() if array is None}
  assert fresh == read.keys() - expected.keys()
  for name in read.keys() - fresh:
    np.testing.assert_array_equal(read[name], expected[name].read())


def test_what_is_neither_read_nor_trained_is_told(tmp_path):
  """Methods train heads and leave a new pooler as it was drawn."""
  path = checkpoint(tmp_path, build("tokens"))
  model = build("choice")
  found = restoration.open_initial(
    InitialCheckpoint(str(path)),
    model,
    state_lib.abstract_variables(model),
    [Ids()],
  )
  note = (
    "  note: pooler: neither read nor trained (Trainable.parameters), so that "
    "the initial values stay"
  )
  heads = Trainable(parameters=("heads/.*",))
  assert note in list(found.report(heads))
  assert note not in list(found.report())
  both = Trainable(parameters=("(heads|pooler)/.*",))
  assert list(found.report(both)) == list(found.report())


def test_another_number_of_classes_begins_anew(tmp_path):
  """RTE from MNLI; the pooler before the head is that of the checkpoint."""
  path = checkpoint(tmp_path, build("classes", NUM_CLASSES=3))
  read, report = started(path, build("classes", NUM_CLASSES=2))
  assert report == ["  fresh: heads/classes", "  not used: heads/classes"]
  assert read["heads/classes/out/kernel"] is None
  assert read["pooler/dense/kernel"] is not None
  read, report = started(path, build("classes", NUM_CLASSES=3))
  assert not report
  assert read["heads/classes/out/kernel"] is not None


def test_an_assignment_goes_before(tmp_path):
  """A head that is read from another one, or begins anew by choice."""
  before = build("classes", NUM_CLASSES=1)
  path = checkpoint(tmp_path, before)
  rule = (r"heads/number/(.*)", r"heads/classes/\1")
  read, report = started(path, build("number"), assignments=(rule,))
  assert not report
  np.testing.assert_array_equal(
    read["heads/number/out/kernel"],
    tensors_of(before)["heads/classes/out/kernel"].read(),
  )
  anew = (r"heads/classes/.*", None)
  read, report = started(path, before, assignments=(anew,))
  assert report == ["  fresh: heads/classes", "  not used: heads/classes"]


def test_a_pooler_that_lies_beside_masked_tokens_is_read(tmp_path):
  """As in roberta-base; zoo evaluate and zoo convert pass it over."""
  path = checkpoint(tmp_path, build("tokens"), "directory")
  file = path / "model.safetensors"
  tensors = {
    name: Tensor.of(np.array(tensor.read()))
    for name, tensor in safetensors.read(file).items()
  }
  kernel = np.ones((12, 12), np.float32)
  spare = {"kernel": kernel, "bias": kernel[0]}
  file.unlink()
  safetensors.write(
    file,
    tensors
    | {
      "bert.pooler.dense.weight": Tensor.of(kernel),
      "bert.pooler.dense.bias": Tensor.of(kernel[0]),
    },
  )
  read, report = started(path, build("classes"))
  assert report == ["  fresh: heads/classes", "  not used: heads/tokens"]
  for name, array in spare.items():
    np.testing.assert_array_equal(read[f"pooler/dense/{name}"], array)
  assert not started(path, build("tokens"))[1]


def test_roberta_from_its_directory(tmp_path):
  """The table of one type that `transformers` has is zero and no matter."""
  model = build("tokens", architecture="roberta")
  path = checkpoint(tmp_path, model, "directory")
  read, report = started(path, build("classes", architecture="roberta"))
  assert sorted(report) == [
    "  fresh: heads/classes",
    "  not used: heads/tokens",
  ]
  assert read["heads/classes/pooler/dense/kernel"] is None


NAMES = ("entailment", "neutral", "not_so")


@pytest.mark.parametrize(
  ("labels", "order", "note"),
  [
    (
      ["NOT SO", "Neutral", "ENTAILMENT"],
      [2, 1, 0],
      "NOT SO, Neutral, ENTAILMENT, which are put in the task's order",
    ),
    (["Entailment", "neutral", "not-so"], [0, 1, 2], None),
    (["LABEL_0", "LABEL_1", "LABEL_2"], [0, 1, 2], None),
    (
      ["a", "b", "c"],
      [0, 1, 2],
      "a, b, c; the task has entailment, neutral, not_so",
    ),
  ],
)
def test_classes_go_by_their_names(labels, order, note, tmp_path):
  """Publishers of MNLI have them in several orders."""
  model = build("classes", NUM_CLASSES=3)
  path = checkpoint(tmp_path, model, "directory")
  said = json.loads((path / "config.json").read_text())
  said["id2label"] = dict(enumerate(labels))
  (path / "config.json").write_text(json.dumps(said))
  read, report = started(path, model, NAMES)
  assert report == ([f"  note: its classes are {note}"] if note else [])
  expected = tensors_of(model)
  for name, array in read.items():
    there = expected[name].read()
    if name.startswith("heads/classes/out"):
      there = there[..., order]
    np.testing.assert_array_equal(array, there)
  # A head that begins anew has no order.
  _, report = started(path, build("tags", NUM_CLASSES=3), NAMES)
  assert "note" not in "".join(report)


def test_everything_else_is_as_strict_as_ever(tmp_path):
  path = checkpoint(tmp_path, build("tokens"), "directory")
  assert "missing (16)" in refusal(path, build("tags", NUM_ENCODER_LAYERS=2))
  assert "heads/tokens/logits_bias (50,) instead of (48,)" not in refusal(
    path, build("tags", VOCAB_SIZE=50)
  )
  assert "heads/tokens/logits_bias (48,) instead of (50,)" in refusal(
    path, build("tokens", VOCAB_SIZE=50)
  )
  other = build("classes", **{"Mlp.activation": "relu"})
  assert (
    "encoder.layer_stack.layer.mlp.activation: 'relu' instead of 'gelu'"
    in refusal(path, other)
  )
  # A head that is read has to compute what it did.
  other = build("tokens", **{"TransformedLogits.activation": "relu"})
  assert "heads.parts.tokens.activation: 'relu' instead of 'gelu'" in refusal(
    path, other
  )


@pytest.mark.slow
@pytest.mark.parametrize("sharing", ["disentangled", "own", "shared"])
def test_a_discriminator_of_deberta_v3_fine_tunes(sharing, tmp_path):
  """The table is whole, and the generator is left out."""
  pair, _ = tiny_models.build(
    "deberta_v3",
    "../objectives/deberta_v3.gin",
    f"generator/{sharing}_table.gin",
  )
  path = checkpoint(tmp_path, pair)
  expected = tensors_of(pair)
  table = expected["token_embedder/embedding" + "_difference" * (
    sharing == "disentangled"
  )].read()  # fmt: skip
  if sharing == "disentangled":
    table = table + expected["generator/token_embedder/embedding"].read()
  model, _ = tiny_models.build("deberta_v3", "../heads/spans.gin")
  read, report = started(path, model)
  assert sorted(report) == [
    "  fresh: heads/spans",
    "  not used: generator",
    "  not used: heads/replaced",
  ]
  np.testing.assert_array_equal(read["token_embedder/embedding"], table)
  again, report = started(path, pair)
  assert not report
  for name, tensor in expected.items():
    np.testing.assert_array_equal(again[name], tensor.read())


@pytest.mark.parametrize("sharing", ["disentangled", "own"])
def test_a_pair_is_written_without_its_generator(sharing, tmp_path):
  pair, _ = tiny_models.build(
    "electra",
    "../heads/replaced_tokens.gin",
    f"generator/{sharing}_table.gin",
    HEAD_DIM=6,
  )
  exported_directory.write(tmp_path, pair, tensors_of(pair))
  found = json.loads((tmp_path / "config.json").read_text())
  assert found["architectures"] == ["ElectraForPreTraining"]
  stored = safetensors.read(tmp_path / "model.safetensors")
  table = stored["electra.embeddings.word_embeddings.weight"].read()
  ours = {name: tensor.read() for name, tensor in tensors_of(pair).items()}
  if sharing == "own":
    expected = ours["token_embedder/embedding"]
  else:
    expected = ours["token_embedder/embedding_difference"]
    expected = expected + ours["generator/token_embedder/embedding"]
  np.testing.assert_array_equal(table, expected)
