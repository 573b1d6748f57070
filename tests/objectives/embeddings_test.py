"""Losses of vectors of texts, against NumPy, in parts and on a mesh."""

import copy
import dataclasses
import functools

import gin
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import scipy.special

from tests import programs
from tests import tiny_models
from transformer_zoo import config
from transformer_zoo.corruption.ragged import Ragged
from transformer_zoo.errors import UserError
from transformer_zoo.modules import text_vectors
from transformer_zoo.objectives import embeddings
from transformer_zoo.runs.answers.embeddings import Embedding
from transformer_zoo.training import state as state_lib
from transformer_zoo.training import step as step_lib
from transformer_zoo.training.sharding import partitioning as partitioning_lib
from transformer_zoo.training.sharding.partitioning import Partitioning

KEY = jax.random.key(3)
ROWS, TEXTS, WIDTH = 5, 3, 4
# The third row has no hard negative, the last one is padding.
IS_THERE = np.ones((ROWS, TEXTS), bool)
IS_THERE[2, 2] = False
IS_THERE[4] = False
LABELS = np.array([5.0, 1.0, np.nan, 2.0, 0.0], np.float32)


def texts():
  vectors = np.random.RandomState(0).randn(ROWS, TEXTS, WIDTH)
  return embeddings.Texts(vectors.astype(np.float32), IS_THERE, LABELS)


def normalized(x):
  return x / np.linalg.norm(x, axis=-1, keepdims=True)


def contrast(loss, vectors, temperature):
  """The sum and the number of correct rows, row by row."""
  if loss.similarity == "cosine":
    vectors = normalized(vectors)
  rows = [i for i in range(ROWS) if IS_THERE[i, 0]]
  candidates = [(i, 1) for i in rows]
  candidates += [(i, t) for i in rows for t in (2,) if IS_THERE[i, t]]
  total = correct = 0.0
  for i in rows:
    scores = np.array(
      [
        (vectors[i, 0] @ vectors[c] - loss.margin * (c == (i, 1))) / temperature
        for c in candidates
      ]
    )
    own = candidates.index((i, 1))
    nll = -scipy.special.log_softmax(scores)[own]
    correct += scores.argmax() == own
    if loss.both_directions:
      back = np.array(
        [
          (vectors[j, 0] @ vectors[i, 1] - loss.margin * (i == j)) / temperature
          for j in rows
        ]
      )
      nll = (nll - scipy.special.log_softmax(back)[rows.index(i)]) / 2
    total += nll
  return total, correct


@pytest.mark.parametrize(
  "loss",
  [
    embeddings.ContrastiveLoss(temperature=0.2, margin=0.3),
    embeddings.ContrastiveLoss("dot", 2.0, 0.1, both_directions=True),
    embeddings.ContrastiveLoss(temperature=None),
  ],
  ids=["cosine", "dot", "learned"],
)
def test_contrasts_are_those_of_loops(loss):
  given = texts()
  term = jax.jit(
    lambda given: loss(given, lambda head, x: jnp.full((1, 1, 1), 0.5))
  )(given)
  vectors = np.asarray(given.vectors_BTE, np.float64)
  total, correct = contrast(loss, vectors, loss.temperature or 0.5)
  np.testing.assert_allclose(term.total, total, rtol=1e-5)
  assert (term.weight, term.metrics["correct_sum"]) == (4, correct)


def test_classes_and_similarities_are_those_of_loops():
  kernel = np.random.RandomState(1).randn(3 * WIDTH, 3).astype(np.float32)
  head = text_vectors.PairClassLogits(3)
  params = {"params": {"out": {"kernel": kernel}}}

  def logits(name, x):
    assert name == "pair_classes"
    return head.apply(params, x, embedder=None, deterministic=True)

  given = texts()
  similar = given.replace(labels_B=np.where(LABELS == 5, 1, LABELS))
  found = jax.jit(
    lambda given, similar: (
      embeddings.PairClassLoss()(similar, logits),
      embeddings.SimilarityLoss()(given, logits),
    )
  )(given, similar)
  u, v = np.asarray(given.vectors_BTE, np.float64)[[0, 1, 3], :2].swapaxes(0, 1)
  scores = np.concatenate([u, v, np.abs(u - v)], axis=-1) @ kernel
  nll = -scipy.special.log_softmax(scores, axis=-1)[[0, 1, 2], [1, 1, 2]]
  cosine = np.sum(normalized(u) * normalized(v), axis=-1)
  errors = (cosine - LABELS[[0, 1, 3]] / 5) ** 2
  for term, expected in zip(found, (nll, errors), strict=True):
    np.testing.assert_allclose(term.total, expected.sum(), rtol=1e-5)
    assert term.weight == 3


def test_vectors_are_pooled_from_each_text():
  x = np.random.RandomState(0).randn(2, 6, 3).astype(np.float32)
  numbers = np.array([[1, 1, 2, 2, 2, 0], [1, 1, 1, 1, 0, 0]])
  found = programs.run(all_pools, x, numbers)
  last = dict(zip(("first", "mean", "last"), range(3), strict=True))
  for pool, of in {
    "first": lambda some: some[0],
    "last": lambda some: some[-1],
    "mean": lambda some: some.mean(axis=0),
  }.items():
    expected = [
      [of(x[b][numbers[b] == t]) if (numbers[b] == t).any() else np.zeros(3)]
      for b in range(2)
      for t in (1, 2)
    ]
    np.testing.assert_allclose(
      found[last[pool]].reshape(4, 1, 3), expected, rtol=1e-6
    )


def all_pools(x, numbers):
  return [text_vectors.pooled(x, numbers, p, 2) for p in text_vectors.POOLS]


def test_a_text_that_is_not_there_has_no_gradient():
  gradient = jax.grad(lambda x: jnp.sum(text_vectors.unit(x)))
  np.testing.assert_array_equal(gradient(np.zeros((1, 3), np.float32)), 0)


def loaded(*overrides):
  """The model, the converter and the objective of heads/embedding.gin."""
  files = ["architectures/bert.gin", "runs/finetune.gin"]
  sizes = [f"{name}={value}" for name, value in SIZES.items()]
  names = ["MODEL_DIR=''", "MIXTURE_OR_TASK_NAME=''", "NUM_TEXTS=3"]
  with config.kept():
    config.load(
      [*files, "heads/embedding_temperature.gin"],
      [*sizes, *names, *overrides],
      allow_unused=True,
    )
    objective = copy.deepcopy(gin.query_parameter("train.objective"))
    return config.value("MODEL"), config.value("CONVERTER"), objective


SIZES = {
  "EMBED_DIM": 8,
  "MLP_DIM": 8,
  "NUM_HEADS": 2,
  "HEAD_DIM": 4,
  "NUM_ENCODER_LAYERS": 1,
  "VOCAB_SIZE": 16,
  "MAX_POSITIONS": 12,
}


def laid_out(converter, rows=8):
  """Rows of two or three texts of two to four tokens, the last one padding."""
  random = np.random.RandomState(0)
  examples = {"inputs": [], "weights": [], "segment_lengths": []}
  for row in range(rows - 1):
    lengths = random.randint(2, 5, 3 - row % 2)
    examples["inputs"].append(random.randint(1, 16, lengths.sum()))
    weights = np.zeros(lengths.sum(), int)
    weights[np.cumsum(lengths) - lengths] = 1
    examples["weights"].append(weights)
    examples["segment_lengths"].append(lengths)
  examples["targets"] = [np.zeros_like(row) for row in examples["inputs"]]
  return converter(
    {name: Ragged.of(values) for name, values in examples.items()},
    np.arange(rows - 1),
    num_rows=rows,
    lengths={"inputs": 12},
    packing=False,
    pad_id=0,
  )


def assert_close(actual, expected, tolerance=5e-6):
  # The gradient of a key's bias is rounding alone.
  for a, b in zip(*map(jax.tree.leaves, (actual, expected)), strict=True):
    scale = max(np.abs(b).max(), 0.1)
    np.testing.assert_allclose(a / scale, b / scale, rtol=0, atol=tolerance)


def gradients(objective, params, batch, **options):
  """The change of the parameters by a step of the rate -1, and the sums."""
  optimizer = optax.sgd(-1.0)
  state, sums = step_lib.train_step(
    state_lib.TrainState(jnp.int32(0), params, optimizer.init(params)),
    batch,
    KEY,
    objective=objective,
    optimizer=optimizer,
    takes_parts=True,
    **options,
  )
  return jax.tree.map(jnp.subtract, state.params, params), sums


@pytest.mark.slow
def test_parts_and_devices_give_the_gradient_of_the_whole():
  """Softmaxes are over the whole batch, whatever is computed where."""
  model, converter, objective = loaded("DROPOUT_RATE=0.3")
  objective = functools.partial(objective, model)
  params = tiny_models.random_parameters(model)
  batch = laid_out(converter)
  whole, sums = jax.jit(functools.partial(gradients, objective))(params, batch)
  assert sums["weight_sum"] == 7
  assert np.abs(whole["heads"]["temperature"]["log_temperature"]) > 1e-3
  in_parts = functools.partial(gradients, objective, num_microbatches=2)
  layout = Partitioning(fsdp=2, num_partitions=1)
  mesh = layout.mesh(jax.devices()[:4])
  shardings = layout.shardings(
    mesh, state_lib.abstract_variables(model), params
  )
  with layout.activate(mesh):
    found = jax.jit(in_parts)(
      jax.device_put(params, shardings), partitioning_lib.put_batch(batch, mesh)
    )
  assert_close(jax.device_get(found), (whole, sums))


@pytest.mark.slow
def test_widths_are_averaged():
  model, converter, objective = loaded("EmbeddingObjective.widths=(3, 8)")
  params = tiny_models.random_parameters(model)
  batch = laid_out(converter)
  both = programs.run(objective.__call__, model, params, batch)
  each = [
    programs.run(
      type(objective)(objective.losses, (width,)).__call__, model, params, batch
    )["contrast"].total
    for width in (3, 8)
  ]
  np.testing.assert_allclose(both["contrast"].total, np.mean(each), rtol=1e-6)
  with pytest.raises(UserError, match="widths has 9, and vectors have 8 feat"):
    type(objective)(objective.losses, (9,))(model, params, batch)


@pytest.mark.slow
def test_the_same_text_twice_differs_by_dropout_alone():
  """SimCSE without labels: the places of a row have masks of their own."""
  model, _, _ = loaded("DROPOUT_RATE=0.3")
  params = tiny_models.random_parameters(model)
  batch = {
    "encoder_input_tokens": np.array([[3, 5, 7, 3, 5, 7]]),
    "encoder_segment_ids": np.array([[1, 1, 1, 2, 2, 2]]),
    "encoder_positions": np.array([[0, 1, 2, 0, 1, 2]]),
  }
  kept, dropped = programs.run(both_vectors, model, params, batch)
  np.testing.assert_allclose(kept[0, 0], kept[0, 1], rtol=1e-5)
  assert np.abs(dropped[0, 0] - dropped[0, 1]).min() > 1e-3


def test_losses_without_their_heads_are_refused():
  """After compilation, or by a name that tells nothing."""
  model, _, objective = loaded()
  objective.check(model)
  (loss,) = objective.losses
  more = dataclasses.replace(
    objective, losses=(loss, embeddings.PairClassLoss())
  )
  with pytest.raises(UserError, match="has no head 'pair_classes'; it has"):
    more.check(model)
  model, _ = tiny_models.build("bert")
  with pytest.raises(UserError, match="has no head 'embedding'; it has"):
    objective.check(model)


def both_vectors(model, params, batch):
  """The vectors without and with dropout."""
  found = []
  for rngs in (None, {"dropout": KEY}):
    apply = functools.partial(
      model.apply, {"params": params}, rngs=rngs, deterministic=rngs is None
    )
    hidden = apply(batch, method="hidden")
    found.append(embeddings.vectors_of(apply, hidden, batch, 0, 2))
  return found


@pytest.mark.slow
def test_two_encoders_read_a_text_each():
  """The first text by the one, the second by the other; heads are shared."""
  sizes = {**SIZES, "MAX_POSITIONS": 12, "TextVectors.normalize": True}
  model = config.build(
    "MODEL",
    [
      *("architectures/bert.gin", "heads/embedding.gin"),
      "parts/two_encoders.gin",
    ],
    [f"{name}={value}" for name, value in sizes.items()],
    allow_unused=True,
  )
  params = tiny_models.random_parameters(model)
  one, _, _ = loaded()
  first = {k: v for k, v in params.items() if k != "other"}
  batch = {
    "encoder_input_tokens": np.array([[3, 5, 7, 4, 6, 0]]),
    "encoder_segment_ids": np.array([[1, 1, 1, 2, 2, 0]]),
    "encoder_positions": np.array([[0, 1, 2, 0, 1, 0]]),
  }
  both, of_first, of_other = programs.run(
    three_vectors, model, one, params, first, params["other"], batch
  )
  np.testing.assert_allclose(both[0, 0], of_first[0, 0], rtol=1e-5)
  np.testing.assert_allclose(both[0, 1], of_other[0, 1], rtol=1e-5)
  alone = {"encoder_input_tokens": batch["encoder_input_tokens"][:, 3:5]}
  found = [
    programs.run(asked.vectors, model, params, alone)
    for asked in (Embedding(), Embedding(place=2))
  ]
  np.testing.assert_allclose(found[1][0], both[0, 1], rtol=1e-5)
  assert np.abs(found[0][0] - both[0, 1]).max() > 1e-2


def three_vectors(model, one, *arguments):
  """The vectors of both encoders, and of each as one encoder has them."""
  *of_models, batch = arguments
  found = []
  for each, params in zip((model, one, one), of_models, strict=True):
    apply = functools.partial(each.apply, {"params": params})
    hidden = apply(batch, method="hidden")
    made = embeddings.vectors_of(apply, hidden, batch, 0, 2)
    found.append(text_vectors.unit(made))
  return found
