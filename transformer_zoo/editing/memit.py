"""MEMIT: many facts written at once into several layers (Meng et al. 2023).

What the last of these layers says at the last token of each subject, z, is
searched as ROME searches its value. Then layer after layer takes its share of
what is missing there, R = (z - z now) / (layers left), by the change of its
projection that maps all keys K to it and disturbs the others least,

  W + (lambda C + K^T K)^-1 K^T R

(equation 14; kernels are [in, out] and keys rows here). C is the covariance of
keys of that layer and lambda the number of keys of a text that it stands for.
The constants are taken from `hparams/MEMIT/EleutherAI_gpt-j-6B.json` in the
authors' repository.
"""

from collections.abc import Mapping, Sequence
import dataclasses

import numpy as np

from transformer_zoo.editing import edits
from transformer_zoo.editing import rome
from transformer_zoo.editing.facts import Fact
from transformer_zoo.editing.rome import Memory
from transformer_zoo.errors import UserError


@dataclasses.dataclass(frozen=True)
class Settings:
  """The constants of the edits of a set of facts.

  Attributes:
    layers: The numbers of the edited layers, from 0 on, in their order; 3 to 8
      of 28 in GPT-J.
    moment_weight: lambda; None for the number of features that a projection
      reads. It is 15,000 for GPT-J, which has 16,384 of them.
    ridge: As in `rome.Settings`.
    steps: As in `rome.Settings`.
    learning_rate: As in `rome.Settings`.
    kept_factor: As in `rome.Settings`.
    clamp: The largest |delta| / |z|.
  """

  layers: tuple[int, ...]
  moment_weight: float | None = None
  ridge: float = 0.0
  steps: int = 25
  learning_rate: float = 0.5
  kept_factor: float = 1.0
  clamp: float = 0.75

  def __post_init__(self):
    if not self.layers or sorted(set(self.layers)) != list(self.layers):
      raise UserError(
        f"the layers of an edit are {list(self.layers)}; name one or more, "
        "each once, from the first to the last"
      )
    if self.moment_weight is not None and not self.moment_weight > 0:
      raise UserError(
        f"moment_weight of an edit is {self.moment_weight}; it must be positive"
      )

  @property
  def search(self) -> rome.Settings:
    """The constants of the search for z."""
    return rome.Settings(
      self.layers[-1],
      steps=self.steps,
      learning_rate=self.learning_rate,
      kept_factor=self.kept_factor,
      clamp=self.clamp,
      ridge=self.ridge,
    )


def edit(
  memory: Memory,
  facts: Sequence[Fact],
  settings: Settings,
  *,
  moments: Mapping[int, np.ndarray],
  prefixes: Sequence[str] = ("",),
) -> list[edits.Edit]:
  """Makes the edits that write facts into layers, one of each layer.

  Args:
    memory: The model; its parameters stay as they are.
    facts: The facts.
    settings: The constants.
    moments: C of each layer (`rome.second_moment`).
    prefixes: What precedes prompts (`rome.sample_prefixes`); a key is the mean
      of that behind the first and of the mean behind the others.

  Raises:
    UserError: There is no fact, a layer is not there, or a matrix of keys has
      no inverse.
  """
  if not facts:
    raise UserError("there is no fact to write; name a file that has one")
  last = memory.layer(settings.layers[-1])
  found = [
    rome.value(memory, fact, settings.search, prefixes, of_layer=True)
    for fact in facts
  ]
  wanted_BD = np.stack([each.before_D + each.delta_D for each in found])
  asked = [(fact.prompt, fact.subject) for fact in facts]
  behind = [
    (prefix + prompt, subject)
    for prompt, subject in asked
    for prefix in prefixes
  ]
  made, current = [], memory
  for number, layer in enumerate(settings.layers):
    path = memory.layer(layer)
    keys_BPF = rome.keys(current, behind, layer)
    keys_BPF = keys_BPF.reshape(len(facts), len(prefixes), -1)
    _, now_BD = rome.keys_and_outputs(current, asked, path, last)
    share_BD = (wanted_BD - now_BD) / (len(settings.layers) - number)
    weight = settings.moment_weight or keys_BPF.shape[-1]
    left_FB = spread(_mean(keys_BPF), moments[layer], weight, settings.ridge)
    kernel = rome.kernel_path(path)
    one = edits.Edit.make(
      kernel,
      edits.kernel_of(current.params, kernel),
      left_FB,
      share_BD,
      notes={
        "method": "MEMIT",
        "facts": [
          [*pair, f.target] for pair, f in zip(asked, facts, strict=True)
        ],
        "settings": dataclasses.asdict(settings),
        "losses": [each.losses[-1]["loss"] for each in found],
      },
    )
    params = one.apply(current.params)
    current = dataclasses.replace(current, params=params)
    made.append(one)
  return made


def spread(
  keys_BF: np.ndarray,
  moment_FF: np.ndarray,
  moment_weight: float,
  ridge: float = 0.0,
) -> np.ndarray:
  """Returns (lambda C + K^T K)^-1 K^T, float64 [F, B].

  Args:
    keys_BF: K, a key a row.
    moment_FF: C.
    moment_weight: lambda.
    ridge: What is added to the diagonal of C, in units of its mean.

  Raises:
    UserError: The sum has no inverse.
  """
  keys_BF = np.asarray(keys_BF, np.float64)
  matrix_FF = moment_weight * rome.regular(moment_FF, ridge)
  return rome.solved(matrix_FF + keys_BF.T @ keys_BF, keys_BF.T)


def _mean(keys_BPF: np.ndarray) -> np.ndarray:
  """The key of each fact: half of it is that of the prompt alone."""
  if keys_BPF.shape[1] == 1:
    return keys_BPF[:, 0]
  return (keys_BPF[:, 0] + keys_BPF[:, 1:].mean(1)) / 2
