"""ELMo written with PyTorch from its definitions (Peters et al. 2018).

One text at a time and without padding. Weights are ours, by their names.
"""

from flax import traverse_util
import numpy as np
import torch

from tests.golden import elmo
from tests.golden import variants

WAYS = "left_to_right", "right_to_left"


def lstm(x_LD, weights, clip: float):
  """An LSTM with a projection, a token after the other; gates i, f, g, o."""
  cell_F, state_D = torch.zeros(elmo.UNITS), torch.zeros(elmo.WIDTH)
  states = []
  for x_D in x_LD:
    gates_X = x_D @ weights["input/kernel"] + weights["input/bias"]
    gates_X = gates_X + state_D @ weights["recurrent/kernel"]
    enter_F, forget_F, new_F, leave_F = gates_X.split(elmo.UNITS)
    cell_F = torch.sigmoid(forget_F) * cell_F
    cell_F = cell_F + torch.sigmoid(enter_F) * torch.tanh(new_F)
    cell_F = cell_F.clamp(-clip, clip)
    output_F = torch.sigmoid(leave_F) * torch.tanh(cell_F)
    state_D = (output_F @ weights["out/kernel"]).clamp(-clip, clip)
    states.append(state_D)
  return torch.stack(states)


def torch_s_lstm(x_LD, weights, clip: float):
  """`torch.nn.LSTM`, which has no bounds."""
  del clip
  theirs = torch.nn.LSTM(elmo.WIDTH, elmo.UNITS, proj_size=elmo.WIDTH)
  parameters = {
    "weight_ih_l0": weights["input/kernel"].T,
    "weight_hh_l0": weights["recurrent/kernel"].T,
    "weight_hr_l0": weights["out/kernel"].T,
    "bias_ih_l0": weights["input/bias"],
    "bias_hh_l0": torch.zeros(4 * elmo.UNITS),
  }
  return torch.func.functional_call(theirs, parameters, (x_LD,))[0]


def states_of(weights, tokens_L, run, clip: float):
  """Of what enters and of both layers: the states [L, D] of both ways."""
  x_LD = weights["token_embedder/embedding"][tokens_L]
  forget_X = torch.zeros(4 * elmo.UNITS)
  forget_X[elmo.UNITS : 2 * elmo.UNITS] = 1.0
  states = [[x_LD, x_LD]]
  for layer in (0, 1):
    both = []
    for way, read_LD in zip(WAYS, states[-1], strict=True):
      prefix = f"encoder/{way}/layers_{layer}/"
      of_layer = {
        name.removeprefix(prefix): value
        for name, value in weights.items()
        if name.startswith(prefix)
      }
      of_layer["input/bias"] = of_layer["input/bias"] + forget_X
      backwards = way == WAYS[1]
      made_LD = run(read_LD.flip(0) if backwards else read_LD, of_layer, clip)
      made_LD = made_LD.flip(0) if backwards else made_LD
      both.append(made_LD + read_LD if layer else made_LD)
    states.append(both)
  return states


def tokens_of(text) -> torch.Tensor:
  """The tokens of one of `elmo.TEXTS`."""
  row, start, end = text
  tokens_L = elmo.BATCH["encoder_input_tokens"][row, start:end]
  return torch.tensor(tokens_L, dtype=torch.long)


def outputs(params, run=lstm, clip: float = elmo.CLIP):
  """What `tests.golden.elmo.outputs` says of ours."""
  weights = _tensors(params)
  loss, number, last = 0.0, 0, []
  for text in elmo.TEXTS:
    tokens_L = tokens_of(text)
    one_LD, other_LD = states_of(weights, tokens_L, run, clip)[-1]
    last.append(torch.cat([one_LD, other_LD], dim=-1))
    table_DV = weights["token_embedder/embedding"].T
    for state_LD, target_L in (
      (one_LD[:-1], tokens_L[1:]),
      (other_LD[1:], tokens_L[:-1]),
    ):
      loss += torch.nn.functional.cross_entropy(
        state_LD @ table_DV, target_L, reduction="sum"
      )
    number += len(tokens_L) - 1
  loss /= number
  loss.backward()
  return {
    "logits": torch.cat(last).detach().numpy(),
    "loss": loss.detach().numpy(),
    **variants.gradient_entries({k: v.grad for k, v in weights.items()}),
  }


def features(params):
  """Equation 1: the learned mix of all layers, at all tokens [tokens, 2 D]."""
  weights = _tensors(params)
  shares_N = torch.softmax(weights["encoder/mix/weights"], 0)
  mixed = []
  for text in elmo.TEXTS:
    states = states_of(weights, tokens_of(text), lstm, elmo.CLIP)
    summed = sum(
      share * torch.cat(both, dim=-1)
      for share, both in zip(shares_N, states, strict=True)
    )
    mixed.append(weights["encoder/mix/scale"] * summed)
  return torch.cat(mixed).detach().numpy()


def _tensors(params) -> dict[str, torch.Tensor]:
  flat = traverse_util.flatten_dict(params, sep="/")
  return {
    name: torch.tensor(np.asarray(value), requires_grad=True)
    for name, value in flat.items()
  }
