"""A student's terms by hand, who learns of them, and teachers that are none."""

import dataclasses
import functools

from flax import traverse_util
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy import special

from tests import programs
from tests import tiny_models
from tests.objectives import replaced_tokens_test
from transformer_zoo import tracing
from transformer_zoo.architectures.distilled import Distilled
from transformer_zoo.errors import UserError
from transformer_zoo.objectives.distillation import Distillation
from transformer_zoo.objectives.encoder import EncoderObjective
from transformer_zoo.objectives.encoder import MaskedTokenLoss
from transformer_zoo.objectives.sequence_to_sequence import SequenceToSequence
from transformer_zoo.peft.trainable import Trainable
from transformer_zoo.training import program as program_lib
from transformer_zoo.training import state as state_lib
from transformer_zoo.training import step as step_lib
from transformer_zoo.training.sharding import partitioning

KEY = jax.random.key(3)
MASKED = EncoderObjective((MaskedTokenLoss(),))
OBJECTIVE = Distillation(MASKED)
STUDENT = Trainable(("(?!teacher/).*",))


@functools.cache
def build(student="distilbert", teacher="bert", scan=False, **macros):
  """A student of one layer and a teacher of two, and their parameters."""
  layers = "NUM_DECODER_LAYERS" if student == "gpt_2" else "NUM_ENCODER_LAYERS"
  common = {"SCAN_LAYERS": scan, "DROPOUT_RATE": 0.0, **macros}
  parts = [
    tiny_models.build(name, **common, **{layers: number})[0]
    for name, number in ((student, 1), (teacher, 2))
  ]
  model = Distilled(*parts)
  return model, tiny_models.random_parameters(model)


def batch_of(model, rows=4):
  batch = replaced_tokens_test.batch_of(model, rows)
  if not model.offers.has_decoder:
    return batch
  tokens = batch["encoder_target_tokens"]
  return {
    "decoder_input_tokens": tokens,
    "decoder_target_tokens": np.roll(tokens, -1, axis=1),
    "decoder_loss_weights": batch["encoder_loss_weights"],
  }


def computed(model, params, batch):
  """Hidden states and logits of a model, by one program each."""
  variables = {"params": params}
  hidden = programs.apply(model, variables, batch, method="hidden")
  logits = programs.apply(model, variables, batch, method="all_logits")
  return np.asarray(hidden), np.asarray(logits["tokens"])


def test_the_divergence_is_of_softened_answers():
  random = np.random.RandomState(0)
  mine, right = random.standard_normal((2, 2, 3, 5)).astype(np.float32)
  objective = Distillation(MASKED, temperature=3.0, logits_chunk=2)
  found = objective._divergence(jnp.asarray, jnp.asarray, mine, right)
  logs, goal = (special.log_softmax(x / 3.0, axis=-1) for x in (mine, right))
  np.testing.assert_allclose(
    found, 9 * (np.exp(goal) * (goal - logs)).sum(-1), rtol=1e-5
  )


@pytest.mark.slow
@pytest.mark.parametrize(
  ("student", "teacher", "inner"),
  [
    ("distilbert", "bert", MASKED),
    ("gpt_2", "gpt_2", SequenceToSequence(0.0)),
  ],
)
def test_the_terms_are_the_formulas(student, teacher, inner):
  model, params = build(student, teacher)
  batch = batch_of(model)
  objective = Distillation(
    inner, temperature=3.0, attention_scale=0.5, logits_chunk=7
  )
  found = programs.run(objective, model, params, batch)
  own = {name: leaf for name, leaf in params.items() if name != "teacher"}
  hidden, logits = computed(model.student, own, batch)
  taught, right = computed(model.teacher, params["teacher"], batch)
  counted = batch.get("decoder_loss_weights")
  if counted is None:
    counted = batch["encoder_input_tokens"] != model.pad_id
  logs, goal = (special.log_softmax(x / 3.0, axis=-1) for x in (logits, right))
  divergence = 9 * (np.exp(goal) * (goal - logs)).sum(-1)
  term = found["distilled_logits"]
  assert float(term.weight) == counted.sum()
  np.testing.assert_allclose(
    term.total, (divergence * counted).sum(), rtol=1e-4
  )
  cosine = (hidden * taught).sum(-1)
  norms = np.linalg.norm(hidden, axis=-1) * np.linalg.norm(taught, axis=-1)
  cosine = cosine / np.where(norms > 0, norms, 1)
  np.testing.assert_allclose(
    found["distilled_hidden"].total, ((1 - cosine) * counted).sum(), rtol=1e-4
  )
  maps = []
  for each, some in ((model.student, own), (model.teacher, params["teacher"])):
    with tracing.recorded_weights() as weights:
      each.apply({"params": some}, batch, method="hidden")
    maps.append([np.asarray(x) for x in weights])
  (mine,), (_, other) = maps
  tiny = 1e-30
  divergence = other * (np.log(other + tiny) - np.log(mine + tiny))
  np.testing.assert_allclose(
    found["distilled_attention"].total,
    (divergence.sum(-1).mean(1) * counted).sum(),
    rtol=1e-4,
  )
  (alone,) = inner(model.student, own, batch).values()
  name = "tokens"
  np.testing.assert_allclose(found[name].total, alone.total, rtol=1e-5)
  scales = {name: term.scale for name, term in found.items()}
  assert scales == {
    "tokens": 2.0,
    "distilled_logits": 5.0,
    "distilled_hidden": 1.0,
    "distilled_attention": 0.5,
  }


@pytest.mark.slow
def test_the_student_alone_learns_and_parts_of_a_batch_add_up():
  model, params = build()
  batch = batch_of(model)
  optimizer = optax.adam(1e-2)
  state = state_lib.TrainState(
    np.zeros([], np.int32), params, optimizer.init(STUDENT.select(params))
  )
  of_steps = {}
  for number in (1, 2):
    after, sums = programs.run(
      step_lib.train_step,
      state,
      batch,
      KEY,
      objective=functools.partial(OBJECTIVE, model),
      optimizer=optimizer,
      trainable=STUDENT,
      num_microbatches=number,
    )
    of_steps[number] = after, sums
  (whole, sums), (parts, parted) = of_steps.values()
  assert float(sums["loss"]) == pytest.approx(float(parted["loss"]), rel=1e-5)
  assert float(sums["gradient_norm"]) == pytest.approx(
    float(parted["gradient_norm"]), rel=1e-4
  )
  jax.tree.map(
    np.testing.assert_array_equal, whole.params["teacher"], params["teacher"]
  )
  moments = traverse_util.flatten_dict(whole.opt_state[0].mu, sep="/")
  assert moments and not any(name.startswith("teacher") for name in moments)
  kernel = ("encoder", "layers_0", "mlp", "wi", "kernel")
  flat = [traverse_util.flatten_dict(x.params)[kernel] for x in (whole, parts)]
  assert np.abs(flat[0] - traverse_util.flatten_dict(params)[kernel]).max() > 0


@pytest.mark.slow
def test_a_step_on_four_devices_is_that_on_one():
  model, params = build(scan=True)
  batch = batch_of(model, rows=8)
  losses = []
  for devices in (jax.devices()[:1], jax.devices()[:4]):
    layout = partitioning.Partitioning(num_partitions=1)
    mesh = layout.mesh(devices)
    program = program_lib.TrainProgram(
      model,
      OBJECTIVE,
      optax.sgd(0.1),
      lambda step: 0.1,
      layout,
      mesh,
      trainable=STUDENT,
    )
    with layout.activate(mesh):
      program.check(8)
      state = program.initial_state(jax.random.key(0))
      placed = partitioning.put_batch(batch, mesh=mesh)
      _, sums = program.step(state, placed, KEY)
    losses.append(float(sums["loss"]))
  assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_a_teacher_that_is_trained_is_refused():
  model, _ = build()
  layout = partitioning.Partitioning(num_partitions=1)
  program = program_lib.TrainProgram(
    model,
    OBJECTIVE,
    optax.sgd(0.1),
    lambda step: 0.1,
    layout,
    layout.mesh(jax.devices()[:1]),
  )
  with pytest.raises(UserError, match="^Trainable.parameters trains the teach"):
    program.check(8)


@pytest.mark.parametrize(
  ("make", "message"),
  [
    (
      lambda: OBJECTIVE.check(tiny_models.build("bert")[0]),
      r"^train.objective is @Distillation\(\), but EncoderOnly has no teacher",
    ),
    (
      lambda: OBJECTIVE.check(
        Distilled(
          build()[0].student, tiny_models.build("bert", VOCAB_SIZE=64)[0]
        )
      ),
      "^the teacher predicts 64 tokens and the student 48; they need one vocab",
    ),
    (
      lambda: OBJECTIVE.check(
        Distilled(build()[0].student, tiny_models.build("gpt_2")[0])
      ),
      "^the teacher is DecoderOnly and the student EncoderOnly; they have to",
    ),
    (
      lambda: dataclasses.replace(OBJECTIVE, attention_scale=1.0).check(
        build(scan=True)[0]
      ),
      "^the layers of the teacher are scanned or computed again, so that",
    ),
    (
      lambda: Distillation(MASKED, temperature=0.0),
      "^Distillation.temperature is 0.0; it must be positive",
    ),
    (
      lambda: Distillation(MASKED, logits_scale=-1.0),
      "^Distillation.logits_scale is -1.0; it must be 0 or more",
    ),
    (
      lambda: Distillation(MASKED, logits_scale=0.0, hidden_scale=0.0),
      "^Distillation: logits_scale, hidden_scale, attention_scale are all 0",
    ),
  ],
)
def test_refusals(make, message):
  with pytest.raises(UserError, match=message):
    make()
