"""UniLM that learns to write: what is hidden, and likelihoods of targets."""

import functools

import jax
import numpy as np
import pytest
import scipy.special

from tests import programs
from tests import tiny_models
from tests.architectures import unilm_test as writer
from transformer_zoo.corruption.ragged import Ragged
from transformer_zoo.data.features import converters
from transformer_zoo.decoding.generate import generate
from transformer_zoo.decoding.options import DecodingOptions
from transformer_zoo.errors import UserError
from transformer_zoo.modules import dropout
from transformer_zoo.objectives import encoder
from transformer_zoo.objectives import terms as terms_lib
from transformer_zoo.objectives import unified

KEY = jax.random.key(3)
SOURCES = [[7, 9, 11, 13, 3], [30, 31, 3], [8, 3]]
TARGETS = [[12, 14, 3], [20, 21, 22, 23, 3], [40, 3]]


def build(**macros):
  model, _ = writer.build(**macros)
  return model, tiny_models.random_parameters(model)


def batch_of(sources=SOURCES, targets=TARGETS, inputs=6, width=5):
  made = converters.Unified(bos_id=2)(
    {
      "inputs": Ragged.of([np.array(row, np.int32) for row in sources]),
      "targets": Ragged.of([np.array(row, np.int32) for row in targets]),
    },
    np.arange(len(sources)),
    num_rows=len(sources) + 1,
    lengths={"inputs": inputs, "targets": width},
    packing=False,
    pad_id=0,
  )
  return {name: np.asarray(array) for name, array in made.items()}


def test_a_row_is_as_long_as_both_texts_and_cls():
  assert unified.row_length({"inputs": 6, "targets": 5}) == 12


def test_rows():
  batch = batch_of()
  row = [2, 30, 31, 3, 20, 21, 22, 23, 3, 0, 0, 0]
  np.testing.assert_array_equal(batch["encoder_input_tokens"][1], row)
  np.testing.assert_array_equal(
    batch["encoder_loss_weights"][1], [0] * 4 + [1] * 5 + [0] * 3
  )
  np.testing.assert_array_equal(
    batch["encoder_token_types"][1], [4] * 4 + [5] * 5 + [0] * 3
  )
  np.testing.assert_array_equal(
    batch["encoder_predicted_places"][1], [4, 5, 6, 7, 8]
  )
  np.testing.assert_array_equal(
    batch["encoder_order"][1], [-1] * 4 + [0, 1, 2, 3, 4] + [-1] * 3
  )
  np.testing.assert_array_equal(batch["attention_kind"], [1] * 4)
  shapes = converters.Unified(bos_id=2).shapes(
    {"inputs": 6, "targets": 5}, 4, False
  )
  assert {name: array.shape for name, array in batch.items()} == shapes


def test_a_share_of_each_target_is_hidden():
  model, _ = writer.build()
  batch = batch_of()
  targets = np.asarray(batch["encoder_loss_weights"]) > 0
  tokens = np.asarray(batch["encoder_input_tokens"])
  ends, kinds, others = 0, [], []

  always = unified.UnifiedGeneration(masked=0.0, random=1.0)

  @jax.jit
  def hidden_by(seed):
    key = jax.random.key(seed)
    found = unified.UnifiedGeneration().hide(key, model, batch)
    return found, always.hide(key, model, batch)["encoder_input_tokens"]

  for seed in range(60):
    found, drawn = jax.device_get(hidden_by(seed))
    hidden = np.asarray(found["encoder_loss_weights"]) > 0
    assert not (hidden & ~targets).any()
    # 0.7 of 3, 5 and 2 tokens.
    np.testing.assert_array_equal(hidden.sum(axis=1), [2, 4, 1, 0])
    inputs = np.asarray(found["encoder_input_tokens"])
    np.testing.assert_array_equal(inputs[~hidden], tokens[~hidden])
    assert (drawn[hidden] != model.pad_id).all()
    kinds += (inputs[hidden] == model.mask_id).tolist()
    at_random = hidden & (inputs != model.mask_id) & (inputs != tokens)
    others += inputs[at_random].tolist()
    ends += hidden[0, 8]
  assert 0.72 < np.mean(kinds) < 0.9
  # A tenth of 420 are other tokens, from the whole vocabulary.
  assert 25 < len(others) < 60
  assert len(set(others)) > 15 and min(others) < 12 and max(others) > 36
  assert 25 < ends < 55


@pytest.mark.slow
def test_rows_hide_the_same_tokens_in_any_part_of_a_batch():
  model, _ = writer.build()
  batch = batch_of()

  @functools.partial(jax.jit, static_argnums=2)
  def hidden_by(batch, index, number):
    with dropout.microbatch(index, number):
      return unified.UnifiedGeneration().hide(KEY, model, batch)

  whole = jax.device_get(hidden_by(batch, 0, 1))
  for i in range(2):
    part = hidden_by({name: x[i::2] for name, x in batch.items()}, i, 2)
    for name, rows in part.items():
      np.testing.assert_array_equal(rows, whole[name][i::2], err_msg=name)


@pytest.mark.slow
def test_rows_have_the_same_terms_in_any_part_of_a_batch():
  """The same masked tokens and the same dropout."""
  model, params = build(DROPOUT_RATE=0.3, NUM_ENCODER_LAYERS=1)
  batch = batch_of()

  @functools.partial(jax.jit, static_argnums=2)
  def sums(batch, index, number):
    with dropout.microbatch(index, number):
      terms = unified.UnifiedGeneration()(model, params, batch, KEY)
    return terms_lib.sums(terms)

  whole = sums(batch, 0, 1)
  parts = [
    sums({name: x[i::2] for name, x in batch.items()}, i, 2) for i in range(2)
  ]
  for name, value in whole.items():
    found = sum(part[name] for part in parts)
    np.testing.assert_allclose(found, value, rtol=1e-5, err_msg=name)


@pytest.mark.slow
def test_smoothed_labels_cost_what_their_distribution_does():
  """Cross-entropy with it, less its entropy; metrics are the plain ones."""
  model, params = build(NUM_ENCODER_LAYERS=1)
  objective = unified.UnifiedGeneration(
    loss=encoder.MaskedTokenLoss(label_smoothing=0.1)
  )

  @jax.jit
  def read(params, batch):
    term = objective(model, params, batch, KEY)["tokens"]
    batch = objective.hide(jax.random.fold_in(KEY, 1), model, batch)
    apply = functools.partial(
      model.apply,
      {"params": params},
      rngs={"dropout": KEY},
      deterministic=False,
    )
    places = batch["encoder_predicted_places"]
    logits = apply(
      apply(batch, method="hidden"), places_BP=places, method="logits"
    )
    return term, batch, logits

  found, batch, logits = jax.device_get(read(params, batch_of()))
  places = batch["encoder_predicted_places"]
  targets, weights = (
    np.take_along_axis(np.asarray(batch[name]), places, axis=1)
    for name in ("encoder_target_tokens", "encoder_loss_weights")
  )
  size = logits.shape[-1]
  share = np.full((*targets.shape, size), 0.1 / (size - 1))
  np.put_along_axis(share, targets[..., None], 0.9, axis=-1)
  likelihoods = scipy.special.log_softmax(logits, -1)
  cost = -np.sum(share * (likelihoods - np.log(share)), axis=-1)
  np.testing.assert_allclose(found.total, np.sum(cost * weights), rtol=1e-4)
  nll = -np.take_along_axis(likelihoods, targets[..., None], axis=-1)[..., 0]
  expected = {
    "loss_sum": np.sum(nll * weights),
    "correct_sum": np.sum((logits.argmax(-1) == targets) * weights),
  }
  for name, value in expected.items():
    np.testing.assert_allclose(found.metrics[name], value, rtol=1e-5)
  with pytest.raises(UserError, match="label_smoothing is 1; it has to be at"):
    encoder.MaskedTokenLoss(label_smoothing=1)


@pytest.mark.slow
def test_targets_have_the_likelihood_with_which_they_are_written():
  model, params = writer.build()
  sums = jax.device_get(
    programs.run(unified.example_sums, model, params, batch_of())
  )
  for row, (source, target) in enumerate(zip(SOURCES, TARGETS, strict=True)):
    total, prompt = 0.0, np.array([2, *source])
    for place, token in enumerate(target):
      total -= writer.next_likelihoods(prompt, target[:place])[token]
    np.testing.assert_allclose(sums["loss_sum"][row], total, rtol=1e-4)
    assert sums["weight_sum"][row] == len(target)
  assert sums["weight_sum"][3] == 0


def test_what_is_written_has_its_likelihood():
  """Prompts without [CLS], which `start_id` puts before them."""
  model, params = writer.build()
  prompts = np.array([[7, 9, 11, 13, 3], [30, 31, 3, 0, 0]], np.int32)
  found = programs.run(
    generate,
    model,
    params,
    prompts,
    5,
    options=DecodingOptions(num_beams=3),
    start_id=2,
    eos_id=3,
  )
  found = jax.device_get(found)
  best = found.tokens[:, 0]
  targets = [row[: list(row).index(3) + 1] if 3 in row else row for row in best]
  # Rows as those of the test above are: one program for both.
  batch = batch_of([prompts[0], prompts[1][:3], [8, 3]], [*targets, [40, 3]])
  sums = programs.run(unified.example_sums, model, params, batch)
  np.testing.assert_allclose(
    -np.asarray(sums["loss_sum"])[:2], found.log_likelihoods[:, 0], rtol=1e-4
  )


def test_models_that_do_not_write_are_refused():
  model, _ = tiny_models.build("bert")
  with pytest.raises(UserError) as caught:
    unified.UnifiedGeneration().check(model)
  assert str(caught.value) == (
    "train.objective is @UnifiedGeneration(), but EncoderOnly writes no text "
    "by filling masks; choose architectures/unilm.gin"
  )
  with pytest.raises(UserError, match="hidden_share is 0; it must be a share"):
    unified.UnifiedGeneration(hidden_share=0)
  with pytest.raises(UserError, match="together at most 1"):
    unified.UnifiedGeneration(masked=0.8, random=0.3)


@pytest.mark.slow
def test_a_permuted_encoder_predicts_the_whole_target_from_left_to_right():
  model, _ = tiny_models.build(
    "xlnet", bindings=("XLNet.pad_id=0",), NUM_ENCODER_LAYERS=1
  )
  params = tiny_models.random_parameters(model)
  objective = unified.UnifiedGeneration()
  objective.check(model)

  @jax.jit
  def read(batch):
    hidden = model.apply({"params": params}, batch, method="hidden")
    logits = model.apply(
      {"params": params},
      hidden,
      places_BP=batch["encoder_predicted_places"],
      method="logits",
    )
    term = objective(model, params, batch)["tokens"]
    return term, encoder.example_sums(model, params, batch), logits

  term, sums, plain = jax.device_get(read(batch_of()))
  assert float(term.weight) == 10
  np.testing.assert_array_equal(sums["weight_sum"], [3, 5, 2, 0])
  np.testing.assert_allclose(term.total, sums["loss_sum"].sum(), rtol=1e-5)

  changed = [TARGETS[0], [20, 21, 24, 23, 3], TARGETS[2]]
  _, _, other = jax.device_get(read(batch_of(targets=changed)))
  moved = np.abs(other - plain).max(axis=-1) > 1e-6
  np.testing.assert_array_equal(moved[1], [False] * 3 + [True] * 2)
  assert not moved[[0, 2]].any()
