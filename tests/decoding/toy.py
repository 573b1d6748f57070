"""Next-token functions without a model, and a search that is easy to trust."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np

EOS = 1


class Table:
  """Logits from a table, by position and the last token.

  The state remembers the tokens of each output, which it moves to where the
  search says that they went: an output that is fed the logits of another one's
  past gives itself away.
  """

  def __init__(self, logits_LVV, calls=None):
    self.logits_LVV = jnp.asarray(logits_LVV, jnp.float32)
    self.calls = calls

  def __call__(self, tokens_BW, parents_BW, position, state):
    if self.calls is not None:
      jax.debug.callback(lambda p: self.calls.append(int(p)), position)
    length, vocabulary, _ = self.logits_LVV.shape
    if state is None:
      state = jnp.zeros((*tokens_BW.shape, length), jnp.int32)
    if parents_BW is not None:
      state = jnp.take_along_axis(state, parents_BW[..., None], axis=1)
    state = jax.lax.dynamic_update_slice_in_dim(
      state, tokens_BW[..., None], position, axis=2
    )
    # Depends on the sum of all tokens read so far, that is on the whole past.
    past_BW = jnp.sum(state, axis=-1)
    return self.logits_LVV[position, past_BW % vocabulary], state


def random_table(seed, *, length, vocabulary, sharpness=1.0):
  """A `Table`, a function of the seed."""
  random = np.random.RandomState(seed)
  shape = length, vocabulary, vocabulary
  return sharpness * random.standard_normal(shape).astype(np.float32)


def log_probs(logits_LVV, made):
  """Of each token that may follow the tokens made, float64 [V]."""
  logits_V = logits_LVV[len(made), sum(made) % logits_LVV.shape[1]]
  logits_V = logits_V.astype(np.float64)
  return logits_V - np.log(np.sum(np.exp(logits_V)))


def all_outputs(logits_LVV, max_length):
  """Every output that ends or is `max_length` long: (tokens, sum)."""
  vocabulary = logits_LVV.shape[1]
  for length in range(1, max_length + 1):
    for made in itertools.product(range(vocabulary), repeat=length):
      if EOS in made[:-1] or (length < max_length and made[-1] != EOS):
        continue
      yield (
        made,
        sum(
          log_probs(logits_LVV, made[:i])[token] for i, token in enumerate(made)
        ),
      )


def beam_search(logits_LVV, max_length, width, penalty):
  """T5X's beam search with lists: [(score, tokens)], the best first."""
  live, finished = [(0.0, ())], []
  for _ in range(max_length):
    candidates = sorted(
      (
        (total + float(log_prob), (*made, token))
        for total, made in live
        for token, log_prob in enumerate(log_probs(logits_LVV, made))
      ),
      reverse=True,
    )[: 2 * width]
    finished += [
      (total / penalty(len(made)), made)
      for total, made in candidates
      if made[-1] == EOS
    ]
    finished = sorted(finished, reverse=True)[:width]
    live = [pair for pair in candidates if pair[1][-1] != EOS][:width]
  left = [(total / penalty(max_length), made) for total, made in live]
  return (finished + left)[:width]


def padded(outputs, length):
  """Tuples of ids as rows."""
  return np.array(
    [[*made, *[0] * (length - len(made))] for made in outputs], np.int32
  )
