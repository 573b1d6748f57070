"""The beam of starts and ends, live, with `XLNetForQuestionAnswering`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from tests.golden import families
from tests.oracles.pytorch import huggingface
from transformer_zoo.interop.huggingface import family_of
from transformer_zoo.modules import comparison
from transformer_zoo.objectives import encoder

CONFIG = {
  "model_type": "xlnet",
  "architectures": ["XLNetForQuestionAnswering"],
  "vocab_size": 45,
  "d_model": 30,
  "n_layer": 3,
  "n_head": 5,
  "d_inner": 44,
  "pad_token_id": 2,
  "start_n_top": 3,
  "end_n_top": 4,
}
LENGTH = 17


@pytest.fixture(scope="module", name="both")
def pair():
  model = families.build(CONFIG)
  params = families.weights(model)
  return model, params, huggingface.load(CONFIG, params)


def batch_of(model):
  random = np.random.RandomState(0)
  tokens = random.randint(4, 45, (3, LENGTH)).astype(np.int32)
  tokens[1, 12:] = model.pad_id
  types = (np.arange(LENGTH)[None] >= 5).repeat(3, 0).astype(np.int32)
  return {"encoder_input_tokens": tokens, "encoder_token_types": types}


def theirs_of(theirs, model, batch, **keywords):
  real = batch["encoder_input_tokens"] != model.pad_id
  may = real & (batch["encoder_token_types"] == 1)
  may[:, 0] = True
  return may, theirs(
    torch.tensor(batch["encoder_input_tokens"], dtype=torch.long),
    attention_mask=torch.tensor(real.astype(int)),
    token_type_ids=torch.tensor(batch["encoder_token_types"], dtype=torch.long),
    cls_index=torch.zeros(3, dtype=torch.long),
    p_mask=torch.tensor((~may).astype(np.float32)),
    **keywords,
  )


def test_the_beam(both):
  model, params, theirs = both
  batch = batch_of(model)
  may, found = theirs_of(theirs, model, batch)

  def ours(params):
    hidden = model.apply({"params": params}, batch, method="hidden")
    return model.apply(
      {"params": params},
      hidden,
      "span_beam",
      may_answer_BL=may,
      method="logits",
    )

  logits = np.asarray(jax.jit(ours)(params))
  starts = jax.nn.softmax(logits[..., 0], axis=1)
  top, places = jax.lax.top_k(starts, 3)
  np.testing.assert_array_equal(places, found.start_top_index.numpy())
  np.testing.assert_allclose(
    top, found.start_top_log_probs.detach().numpy(), rtol=2e-5
  )
  ends = jax.nn.softmax(logits[..., 1:-1], axis=1)
  top, places = jax.lax.top_k(jnp.moveaxis(ends, 1, 2), 4)  # [B, S, E]
  theirs_top = found.end_top_log_probs.detach().numpy().reshape(3, 4, 3)
  np.testing.assert_allclose(np.swapaxes(top, 1, 2), theirs_top, rtol=1e-4)
  np.testing.assert_array_equal(
    np.swapaxes(places, 1, 2), found.end_top_index.numpy().reshape(3, 4, 3)
  )
  np.testing.assert_allclose(
    logits[:, 0, -1], found.cls_logits.detach().numpy(), rtol=1e-4, atol=1e-5
  )


def test_the_loss_and_its_gradient(both):
  model, params, theirs = both
  batch = batch_of(model) | {
    "answer_starts": np.array([6, 8, 0]),
    "answer_ends": np.array([9, 8, 0]),
  }
  _, found = theirs_of(
    theirs,
    model,
    batch,
    start_positions=torch.tensor(batch["answer_starts"]),
    end_positions=torch.tensor(batch["answer_ends"]),
    is_impossible=torch.tensor([0.0, 0.0, 1.0]),
  )
  objective = encoder.EncoderObjective((encoder.SpanBeamLoss(),))

  def loss(params):
    (term,) = objective(model, params, batch).values()
    return term.total / term.weight

  value, gradient = jax.jit(jax.value_and_grad(loss))(params)
  np.testing.assert_allclose(value, found.loss.detach().numpy(), rtol=1e-5)
  theirs.zero_grad()
  found.loss.backward()
  expected = theirs.end_logits.dense_0.weight.grad.numpy().T
  np.testing.assert_allclose(
    gradient["heads"]["span_beam"]["end_dense"]["kernel"],
    expected,
    rtol=1e-3,
    atol=1e-6,
  )


def test_the_directory_comes_back(both):
  model, params, _ = both
  family = family_of(CONFIG)
  described = family.config(model)
  assert described["architectures"] == CONFIG["architectures"]
  assert not comparison.differences(model, families.build(described))
  links = family.links(CONFIG)
  assert len({link.theirs for link in links}) == len(links)
