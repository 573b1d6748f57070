"""Causal tracing: which states carry a fact (Meng et al. 2022, section 2).

A subject's embeddings are disturbed until the model no longer knows the answer;
then one state, of one token after one layer, is restored. What this gives back
of the answer's probability is the indirect effect of the state. Around a layer,
the outputs of the feed-forward networks or of the attentions of several layers
are restored at a time.
"""

import dataclasses
import os
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

from transformer_zoo.editing import interventions
from transformer_zoo.editing import programs
from transformer_zoo.editing.facts import Fact
from transformer_zoo.editing.rome import Memory
from transformer_zoo.errors import UserError

# What is restored, and the part of a layer that computes it.
KINDS = {"states": "", "mlp": "/mlp", "attention": "/self_attention"}
Kind = Literal["states", "mlp", "attention"]


@dataclasses.dataclass(frozen=True)
class Trace:
  """The effects of the states of one prompt.

  Attributes:
    effects_LN: The probability of the answer with a state restored, [L, N] by
      token and layer.
    clean: The probability without disturbance.
    disturbed: The probability with it.
    tokens: The tokens, as text.
    subject: The first place of the subject and the one after its last.
    answer: The token whose probability is meant.
    kind: A key of `KINDS`.
  """

  effects_LN: np.ndarray
  clean: float
  disturbed: float
  tokens: tuple[str, ...]
  subject: tuple[int, int]
  answer: str
  kind: str

  def save(self, path: str | os.PathLike[str]) -> None:
    """Writes an .npz with all of it."""
    np.savez(path, **dataclasses.asdict(self))

  def table(self) -> list[dict]:
    """Rows of token, layer and the indirect effect, the largest first."""
    effects_LN = self.effects_LN - self.disturbed
    order = np.argsort(-effects_LN, axis=None, kind="stable")
    return [
      {
        "token": self.tokens[place],
        "place": int(place),
        "layer": int(layer),
        "effect": float(effects_LN[place, layer]),
      }
      for place, layer in zip(
        *np.unravel_index(order, effects_LN.shape), strict=True
      )
    ]

  def plot(self, path: str | os.PathLike[str]) -> None:
    """Draws the heat map, an SVG; tokens of the subject have an asterisk."""
    import matplotlib.figure

    count, layers = self.effects_LN.shape
    figure = matplotlib.figure.Figure(
      figsize=(2.5 + 0.25 * layers, 1.2 + 0.22 * count), layout="constrained"
    )
    axis = figure.add_subplot()
    image = axis.pcolormesh(
      self.effects_LN, cmap="Purples", vmin=min(self.disturbed, self.clean)
    )
    first, stop = self.subject
    marked = [
      f"{token}*" if first <= place < stop else token
      for place, token in enumerate(self.tokens)
    ]
    axis.set_yticks(0.5 + np.arange(count), marked)
    axis.set_xticks(0.5 + np.arange(layers), range(layers))
    axis.invert_yaxis()
    title = f"Causal trace of the answer {self.answer.strip()}"
    axis.set_title(title, parse_math=False)
    axis.set_xlabel(f"layer ({self.kind} restored)")
    figure.colorbar(image).set_label(f"p({self.answer.strip()})")
    figure.savefig(path, format="svg", metadata={"Date": None})


def noise_level(memory: Memory, facts: list[Fact]) -> float:
  """Three standard deviations of the embeddings of subjects, as published."""
  path = memory.layer(0)

  @programs.compiled
  def embeddings(params, batch):
    _, read = interventions.apply(memory.model, params, batch, inputs_of=[path])
    return read[path].astype(jnp.float32)

  values = []
  for fact in facts:
    rows = memory.reader.of_facts([(fact.prompt, fact.subject, "")])
    first, last = rows.first_B[0], rows.places_B[0]
    found_BLD = np.asarray(embeddings(memory.params, rows.batch))
    values.append(found_BLD[0, first : last + 1])
  return 3 * float(np.concatenate(values).std())


def trace(
  memory: Memory,
  fact: Fact,
  noise: float,
  *,
  kind: Kind = "states",
  window: int = 10,
  samples: int = 10,
  seed: int = 1,
) -> Trace:
  """Restores every state of a prompt in turn.

  Args:
    memory: The model.
    fact: The prompt; what the model says after it is the answer.
    noise: The standard deviation of the disturbance (`noise_level`).
    kind: A key of `KINDS`.
    window: The number of layers around one whose parts are restored together;
      states are restored one at a time.
    samples: The number of disturbances whose mean is taken.
    seed: That of numpy's RandomState, which draws them.

  Raises:
    UserError: There is no such kind.
  """
  if kind not in KINDS:
    raise UserError(
      f"nothing called {kind!r} is restored; choose among {', '.join(KINDS)}"
    )
  rows = memory.reader.of_facts([(fact.prompt, fact.subject, "")])
  length, last = int(rows.lengths_B[0]), int(rows.last_B[0])
  first, stop = int(rows.first_B[0]), int(rows.places_B[0]) + 1
  batch = {
    name: np.repeat(array, samples + 1, axis=0)
    for name, array in rows.batch.items()
  }
  layers = memory.model.decoder.transformer.layer_stack.num_layers
  paths = [f"{memory.layer(i)}{KINDS[kind]}" for i in range(layers)]
  width = 1 if kind == "states" else window
  before = width // 2

  @programs.compiled
  def run(params, noise_SKD, place, layer):
    def disturb(x_BLD):
      noise_ = noise_SKD.astype(x_BLD.dtype)
      return x_BLD.at[1:, first:stop].add(noise_)

    def restore(number):
      # `layer` - width // 2 up to `layer` + (width - 1) // 2, as published.
      near = (number >= layer - before) & (number < layer - before + width)

      def change(x_BLD):
        here_1L1 = (jnp.arange(x_BLD.shape[1]) == place)[None, :, None]
        return jnp.where(here_1L1 & near, x_BLD[:1], x_BLD)

      return change

    logits_BLV, _ = interventions.apply(
      memory.model,
      params,
      batch,
      changes={path: restore(i) for i, path in enumerate(paths)},
      input_changes={memory.layer(0): disturb},
    )
    probabilities_BV = jax.nn.softmax(logits_BLV[:, last])
    answer = probabilities_BV[0].argmax()
    chosen_B = probabilities_BV[:, answer]
    return answer, chosen_B[0], chosen_B[1:].mean()

  features = _width(memory, rows)
  drawn = np.random.RandomState(seed).randn(samples, stop - first, features)
  noise_SKD = jnp.asarray(noise * drawn, jnp.float32)
  # A place that is not there restores nothing.
  answer, clean, disturbed = run(memory.params, noise_SKD, -1, 0)
  effects_LN = np.array(
    [
      [
        float(run(memory.params, noise_SKD, place, layer)[2])
        for layer in range(layers)
      ]
      for place in range(length)
    ]
  )
  decode = memory.reader.vocabulary.decode
  # A piece of a space alone is decoded as nothing.
  tokens = [
    decode([int(token)]) or " "
    for token in rows.batch["decoder_input_tokens"][0, :length]
  ]
  if memory.reader.start_id is not None:
    tokens[0] = "(start)"
  return Trace(
    effects_LN,
    float(clean),
    float(disturbed),
    tuple(tokens),
    (first, stop),
    decode([int(answer)]),
    kind,
  )


def _width(memory: Memory, rows) -> int:
  def width(params):
    path = memory.layer(0)
    _, read = interventions.apply(
      memory.model, params, rows.batch, inputs_of=[path]
    )
    return read[path]

  return jax.eval_shape(width, memory.params).shape[-1]
