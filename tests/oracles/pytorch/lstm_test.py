"""An LSTM in a stack against PyTorch's."""

import jax.numpy as jnp
import numpy as np
import pytest

from transformer_zoo.modules.recurrent import LstmLayer

torch = pytest.importorskip("torch")
ROWS, LENGTH, WIDTH, UNITS = 3, 7, 5, 6


def test_equals_pytorch_s_text_by_text():
  """The mask tells packed texts apart: the second begins at place 4."""
  random = np.random.RandomState(0)
  reference = torch.nn.LSTM(WIDTH, UNITS, batch_first=True)
  x_BLD = random.standard_normal((ROWS, LENGTH, WIDTH)).astype(np.float32)
  out_FD = random.standard_normal((UNITS, WIDTH)).astype(np.float32)
  weights = {
    name: p.detach().numpy() for name, p in reference.named_parameters()
  }
  params = {
    "input": {
      "kernel": weights["weight_ih_l0"].T,
      "bias": weights["bias_ih_l0"] + weights["bias_hh_l0"],
    },
    "recurrent": {"kernel": weights["weight_hh_l0"].T},
    "out": {"kernel": out_FD},
  }
  segments_L = np.array([1, 1, 1, 1, 2, 2, 2])
  mask_LL = np.tril(np.equal.outer(segments_L, segments_L))
  found = LstmLayer(features=UNITS).apply(
    {"params": params},
    jnp.asarray(x_BLD),
    mask_B1LM=jnp.asarray(mask_LL)[None, None],
    deterministic=True,
  )
  with torch.no_grad():
    states = [
      reference(torch.tensor(text))[0].numpy()
      for text in (x_BLD[:, :4], x_BLD[:, 4:])
    ]
  expected = np.concatenate(states, axis=1) @ out_FD
  np.testing.assert_allclose(found, expected, atol=1e-5)
