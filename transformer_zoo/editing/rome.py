"""ROME: one fact written into one layer (Meng et al. 2022, section 3).

The output projection of a feed-forward network is an associative memory: what
enters it at the last token of a subject is a key k, what leaves it a value v.
Of all matrices that map k* to v*, the edited one disturbs the others least,

  W + u (v* - k W) / (k . u),   u = C^-1 k* / |C^-1 k*|

where C = E[k k^T] over a text (equation 2; kernels are [in, out] here). The
constants are taken from `hparams/ROME/gpt2-xl.json` in the authors' repository.
"""

from collections.abc import Callable, Iterable, Sequence
import dataclasses
import functools
from typing import Any

from flax import linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

from transformer_zoo.editing import edits
from transformer_zoo.editing import interventions
from transformer_zoo.editing import programs
from transformer_zoo.editing.facts import Fact
from transformer_zoo.editing.facts import GAP
from transformer_zoo.editing.facts import Reader
from transformer_zoo.errors import UserError

# What the essence of a subject is read from, and kept.
_ESSENCE = f"{GAP} is a"
_BEST = 5  # of which a token is sampled
_FACTS = 64  # that are read at a time
_NO_PREFIX = ("",)


@dataclasses.dataclass(frozen=True)
class Settings:
  """The constants of an edit.

  Attributes:
    layer: The number of the edited layer, from 0 on; 17 of 48 in GPT-2 XL, 5 of
      28 in GPT-J.
    steps: The number of evaluations of the loss; one fewer of Adam's steps.
    learning_rate: That of Adam.
    kl_factor: The factor of the divergence of what follows the subject itself
      in "{} is a", which a causal model does not see the rest of.
    kept_factor: The factor of the mean divergence of what follows the texts of
      `Fact.kept`; a fact without any is edited as published.
    weight_decay: The factor of |delta| / |v|^2.
    clamp: The largest |delta| / |v|.
    least_loss: A loss below which the search ends.
    ridge: What is added to the diagonal of C, in units of its mean; 0 in the
      paper, whose 100,000 texts give C its full rank.
  """

  layer: int
  steps: int = 20
  learning_rate: float = 0.5
  kl_factor: float = 0.0625
  kept_factor: float = 1.0
  weight_decay: float = 0.5
  clamp: float = 4.0
  least_loss: float = 0.05
  ridge: float = 0.0

  def __post_init__(self):
    least = {"steps": 1, "layer": 0, "ridge": 0}
    least |= {"kl_factor": 0, "kept_factor": 0}
    for name, smallest in least.items():
      if getattr(self, name) < smallest:
        raise UserError(
          f"{name} of an edit is {getattr(self, name)}; it must be at least "
          f"{smallest}"
        )
    for name in ("learning_rate", "clamp"):
      if not getattr(self, name) > 0:
        raise UserError(
          f"{name} of an edit is {getattr(self, name)}; it must be positive"
        )


@dataclasses.dataclass(frozen=True)
class Memory:
  """A model whose facts are edited.

  Attributes:
    model: A decoder-only model or an encoder-decoder of looped layers
      (`interventions.looped`), as both have a `decoder`.
    params: Its parameters.
    reader: How it reads texts.
  """

  model: nn.Module
  params: Any
  reader: Reader

  def __post_init__(self):
    if not self.model.offers.has_decoder:
      raise UserError(
        f"ROME edits what a decoder says next, and {type(self.model).__name__} "
        "has none; zoo edit needs a language model or an encoder-decoder"
      )

  def layer(self, number: int) -> str:
    """The path of a layer.

    Raises:
      UserError: There is none of that number, or it has no output projection.
    """
    stack = self.model.decoder.transformer.layer_stack
    if not 0 <= number < stack.num_layers:
      raise UserError(
        f"there is no layer {number}; the decoder has layers 0 to "
        f"{stack.num_layers - 1}"
      )
    if not hasattr(getattr(stack.layer, "mlp", None), "wo"):
      raise UserError(
        f"layer {number} has no projection mlp/wo, which ROME edits; choose an "
        "architecture with parts/feed_forward/*.gin"
      )
    if stack.num_groups is not None or "mlp" in stack.shared:
      raise UserError(
        "the layers share their feed-forward network, so that an edit of one "
        "changes them all; edit a model with Stack.num_groups = None and "
        "Stack.shared = ()"
      )
    return f"decoder/layers_{number}"


def kernel_path(layer: str) -> str:
  """The name of the edited kernel of a layer's path."""
  return f"{layer}/mlp/wo/kernel"


def second_moment(
  memory: Memory, texts: Iterable[str], layer: int, *, batch_size: int = 8
) -> tuple[np.ndarray, int]:
  """Returns C = E[k k^T] [F, F] over the tokens of texts, and their number.

  It is not centred, in float64 on the host.

  Args:
    memory: The model.
    texts: The texts.
    layer: The number of the layer.
    batch_size: The number of texts of a batch.

  Raises:
    UserError: There is no text.
  """
  path = f"{memory.layer(layer)}/mlp/wo"

  @programs.compiled
  def sums(params, batch, mask_BL):
    _, read = interventions.apply(memory.model, params, batch, inputs_of=[path])
    keys_BLF = read[path].astype(jnp.float32) * mask_BL[..., None]
    return jnp.einsum("blf,blg->fg", keys_BLF, keys_BLF)

  total, count = 0.0, 0
  texts = list(texts)
  if not texts:
    raise UserError("there is no text to take the covariance of keys from")
  for start in range(0, len(texts), batch_size):
    chunk = texts[start : start + batch_size]
    rows = memory.reader.rows(chunk + [chunk[0]] * (batch_size - len(chunk)))
    width = rows.weights_BL.shape[1]
    lengths_B = np.where(np.arange(batch_size) < len(chunk), rows.lengths_B, 0)
    mask_BL = np.arange(width)[None] < lengths_B[:, None]
    total += np.asarray(
      sums(memory.params, rows.batch, mask_BL.astype(np.float32)), np.float64
    )
    count += int(mask_BL.sum())
  return total / count, count


def sample_prefixes(
  memory: Memory,
  key: jax.Array,
  *,
  lengths: Sequence[int] = (5, 10),
  number: int = 10,
) -> list[str]:
  """Texts that the model begins with, after which prompts are averaged.

  `number` texts of each length, every token one of the 5 likeliest; and the
  empty text, which comes first (`get_context_templates` of the repository).

  Args:
    memory: The model.
    key: A random key.
    lengths: The numbers of tokens.
    number: The number of texts of each length.
  """
  vocabulary, start_id = memory.reader.vocabulary, memory.reader.start_id
  if start_id is None:
    first = (vocabulary.bos_id, vocabulary.eos_id, vocabulary.pad_id)
    start_id = next(i for i in first if i is not None)
  longest = max(lengths)
  begun_BL = np.full((number, longest + 1), vocabulary.pad_id, np.int32)
  begun_BL[:, 0] = start_id
  prefixes = [""]
  for draw, length in enumerate(lengths):
    drawn = jax.random.fold_in(key, draw)
    given_B = np.ones(number, np.int32)
    made_BL = sampled(memory, drawn, begun_BL, given_B, stop=length + 1)
    for row in made_BL[:, 1 : length + 1]:
      text = vocabulary.decode(row).replace(GAP, "").strip()
      if text:
        prefixes.append(f"{text}. ")
  return prefixes


def sampled(
  memory: Memory,
  key: jax.Array,
  begun_BL: np.ndarray,
  given_B: np.ndarray,
  *,
  stop: int,
) -> np.ndarray:
  """Continues rows of tokens by what the model says, [B, L].

  Every further token is one of the 5 likeliest, drawn by their probabilities.

  Args:
    memory: The model.
    key: A random key.
    begun_BL: The tokens that the decoder reads, from its first one on.
    given_B: The number of tokens of each row that stay, at least 1.
    stop: The number of tokens of a row afterwards, at most L.
  """
  rows = memory.reader.rows(["a"] * len(begun_BL))
  pad_id = memory.reader.vocabulary.pad_id
  next_tokens = _next_tokens(memory.model, pad_id)
  made_BL = begun_BL.copy()
  for place in range(int(given_B.min()), stop):
    drawn_B = next_tokens(
      memory.params,
      rows.batch,
      made_BL,
      place - 1,
      jax.random.fold_in(key, place),
    )
    made_BL[:, place] = np.where(
      place < given_B, made_BL[:, place], np.asarray(drawn_B)
    )
  return made_BL


@interventions.cached
def _next_tokens(model: nn.Module, pad_id: int) -> Callable:
  @programs.compiled
  def draw(params, batch, tokens_BL, place, key):
    # No place is padding to an encoder-decoder; causality hides later ones.
    batch = {
      **batch,
      "decoder_input_tokens": tokens_BL,
      "decoder_target_tokens": jnp.full_like(tokens_BL, pad_id + 1),
    }
    logits_BLV, _ = interventions.apply(model, params, batch)
    best_BK, ids_BK = jax.lax.top_k(logits_BLV[:, place], _BEST)
    chosen_B = jax.random.categorical(key, best_BK)
    return jnp.take_along_axis(ids_BK, chosen_B[:, None], axis=1)[:, 0]

  return draw


def keys(
  memory: Memory, facts: Sequence[tuple[str, str]], layer: int
) -> np.ndarray:
  """Returns the projection's inputs at the last tokens of subjects, [B, F].

  Args:
    memory: The model.
    facts: Prompts with `{}`, and their subjects.
    layer: The number of the layer.
  """
  path = memory.layer(layer)
  keys_BF, _ = keys_and_outputs(memory, facts, path, f"{path}/mlp")
  return keys_BF


def direction(
  key_F: np.ndarray, moment_FF: np.ndarray | None, ridge: float = 0.0
) -> np.ndarray:
  """Returns u = C^-1 k / |C^-1 k|, float32.

  Args:
    key_F: The mean key k* of a subject.
    moment_FF: C; the identity if None.
    ridge: As in `Settings`.

  Raises:
    UserError: C has no inverse.
  """
  solved_F = np.asarray(key_F, np.float64)
  if moment_FF is not None:
    solved_F = solved(regular(moment_FF, ridge), solved_F)
  return (solved_F / np.linalg.norm(solved_F)).astype(np.float32)


def regular(moment_FF: np.ndarray, ridge: float) -> np.ndarray:
  """Returns C with `ridge` times its mean diagonal on its diagonal."""
  size = len(moment_FF)
  return moment_FF + ridge * np.trace(moment_FF) / size * np.eye(size)


def solved(matrix_FF: np.ndarray, right: np.ndarray) -> np.ndarray:
  """Returns the product of the inverse of a matrix of keys and `right`.

  Raises:
    UserError: The matrix has no inverse.
  """
  size = len(matrix_FF)
  rank = np.linalg.matrix_rank(matrix_FF, hermitian=True)
  if rank < size:
    raise UserError(
      f"the covariance of keys has rank {rank} and the layer {size} "
      "features, so that nothing inverts it; give more text, or --ridge 1e-4"
    )
  return np.linalg.solve(matrix_FF, right)


@dataclasses.dataclass(frozen=True)
class Value:
  """The value that makes a model say the target.

  Attributes:
    before_D: The value at the subject of the first prompt.
    delta_D: What is added to it.
    losses: The loss and its terms at each step.
  """

  before_D: np.ndarray
  delta_D: np.ndarray
  losses: list[dict[str, float]]


def value(
  memory: Memory,
  fact: Fact,
  settings: Settings,
  prefixes: Sequence[str] = _NO_PREFIX,
  *,
  of_layer: bool = False,
) -> Value:
  """Searches v* by gradient descent (equation 4).

  The loss is the mean over prefixes of the target's mean negative
  log-likelihood, and `kl_factor` times the divergence of what follows the
  subject in "{} is a" from what did, and `weight_decay` |delta| / |v|^2. Texts
  of `fact.kept` add `kept_factor` times their mean divergence.

  Args:
    memory: The model.
    fact: The fact.
    settings: The constants.
    prefixes: What precedes the prompt; the first gives v.
    of_layer: Whether the value is what leaves the whole layer, as MEMIT has it,
      and not what leaves its feed-forward network.
  """
  layer = memory.layer(settings.layer)
  path = layer if of_layer else f"{layer}/mlp"
  prompts = [(p + fact.prompt, fact.subject, fact.target) for p in prefixes]
  rows = memory.reader.of_facts(prompts)
  last = memory.model.decoder.transformer.layer_stack.num_layers - 1
  if settings.layer == last and (rows.places_B < rows.last_B).all():
    raise UserError(
      f"layer {last} is the last, so that nothing after the subject "
      f"{fact.subject!r} reads what it says there; choose an earlier layer"
    )
  texts = (rows.batch, rows.places_B, rows.weights_BL)
  kept = _kept(memory.reader, fact, settings)
  start, step, optimizer = _search(memory.model, path, settings)
  width_D = edits.kernel_of(memory.params, kernel_path(layer)).shape[1]
  delta_D = jnp.zeros(width_D, jnp.float32)
  before_D, known_BV = start(memory.params, texts, kept, delta_D)
  state = optimizer.init(delta_D)
  losses = []
  for number in range(settings.steps):
    (total, terms), *changed = step(
      delta_D, state, memory.params, texts, kept, before_D, known_BV
    )
    losses.append({"loss": float(total), **jax.tree.map(float, terms)})
    if float(total) < settings.least_loss or number == settings.steps - 1:
      break
    delta_D, state = changed
  return Value(np.asarray(before_D), np.asarray(delta_D), losses)


def _kept(reader: Reader, fact: Fact, settings: Settings) -> tuple:
  """Lays out the texts after which what follows is to stay.

  Returns:
    The batch of the essence and of `fact.kept`, and of each text the places of
    the subject and of what is read, and the factor of its divergence.
  """
  kept = fact.kept if settings.kept_factor else ()
  prompts = [_ESSENCE, *map(fact.with_gap, kept)]
  rows = reader.of_facts([(prompt, fact.subject, "") for prompt in prompts])
  read_B = rows.last_B.copy()
  read_B[0] = rows.places_B[0]
  factors_B = np.full(len(prompts), settings.kept_factor, np.float32)
  factors_B /= max(1, len(kept))
  factors_B[0] = settings.kl_factor
  return rows.batch, rows.places_B, read_B, factors_B


@functools.cache
def _search(model: nn.Module, path: str, settings: Settings):
  """The compiled functions of `value`, the same for all facts.

  Args:
    model: The model.
    path: The path of what the value leaves.
    settings: The constants.

  Returns:
    The function that computes v and what follows the kept texts, the function
    that makes a step of Adam, and Adam.
  """

  def with_delta(params, batch, places_B, delta_D):
    rows_B = jnp.arange(len(places_B))

    def add(output_BLD):
      # Cast: a model may compute in bfloat16.
      return output_BLD.at[rows_B, places_B].add(
        delta_D.astype(output_BLD.dtype)
      )

    logits_BLV, read = interventions.apply(
      model, params, batch, outputs_of=[path], changes={path: add}
    )
    return jax.nn.log_softmax(logits_BLV), read[path][rows_B, places_B]

  @programs.compiled
  def start(params, texts, kept, zero_D):
    _, values_BD = with_delta(params, *texts[:2], zero_D)
    known_BV = following(params, kept, zero_D)
    return values_BD[0].astype(jnp.float32), known_BV

  def following(params, kept, delta_D):
    batch, places_B, read_B, _ = kept
    logs_BLV, _ = with_delta(params, batch, places_B, delta_D)
    return logs_BLV[jnp.arange(len(read_B)), read_B]

  def loss(delta_D, params, texts, kept, before_D, known_BV):
    batch, places_B, weights_BL = texts
    logs_BLV, _ = with_delta(params, batch, places_B, delta_D)
    logs_BL = jnp.take_along_axis(
      logs_BLV, batch["decoder_target_tokens"][..., None], axis=-1
    )[..., 0]
    nll_B = -(logs_BL * weights_BL).sum(1) / weights_BL.sum(1)
    now_BV = following(params, kept, delta_D)
    divergence_B = jnp.sum(jnp.exp(known_BV) * (known_BV - now_BV), axis=-1)
    terms = {
      "target": nll_B.mean(),
      "divergence": jnp.sum(kept[3] * divergence_B),
      "decay": settings.weight_decay
      * _norm(delta_D)
      / jnp.sum(jnp.square(before_D)),
    }
    return sum(terms.values()), terms

  optimizer = optax.adam(settings.learning_rate)

  @programs.compiled
  def step(delta_D, state, params, texts, kept, before_D, known_BV):
    found, gradient_D = jax.value_and_grad(loss, has_aux=True)(
      delta_D, params, texts, kept, before_D, known_BV
    )
    update_D, state = optimizer.update(gradient_D, state)
    delta_D = optax.apply_updates(delta_D, update_D)
    most = settings.clamp * jnp.linalg.norm(before_D)
    length = jnp.linalg.norm(delta_D)
    delta_D *= jnp.where(length > most, most / length, 1.0)
    return found, delta_D, state

  return start, step, optimizer


def edit(
  memory: Memory,
  fact: Fact,
  settings: Settings,
  *,
  moment_FF: np.ndarray | None = None,
  prefixes: Sequence[str] = _NO_PREFIX,
) -> edits.Edit:
  """Makes the edit that writes a fact into a layer.

  Args:
    memory: The model; its parameters stay as they are.
    fact: The fact.
    settings: The constants.
    moment_FF: C of the layer (`second_moment`); the identity if None.
    prefixes: What precedes prompts (`sample_prefixes`).

  Raises:
    UserError: The layer is not there or has no projection, or C no inverse.
  """
  layer = memory.layer(settings.layer)
  prompts = [(prefix + fact.prompt, fact.subject) for prefix in prefixes]
  mean_F = keys(memory, prompts, settings.layer).mean(0)
  left_F = direction(mean_F, moment_FF, settings.ridge)
  found = value(memory, fact, settings, prefixes)
  (key_F,), (value_D,) = keys_and_outputs(
    memory, [(fact.prompt, fact.subject)], layer, f"{layer}/mlp"
  )
  wanted_D = found.before_D + found.delta_D
  right_D = (wanted_D - value_D) / np.dot(key_F, left_F)
  path = kernel_path(layer)
  return edits.Edit.make(
    path,
    edits.kernel_of(memory.params, path),
    left_F[:, None],
    right_D[None],
    notes={
      "method": "ROME",
      "fact": [fact.prompt, fact.subject, fact.target],
      "kept": fact.kept,
      "settings": dataclasses.asdict(settings),
      "losses": found.losses,
    },
  )


def keys_and_outputs(
  memory: Memory, facts: Sequence[tuple[str, str]], layer: str, part: str
) -> tuple[np.ndarray, np.ndarray]:
  """Returns keys and what leaves a part at the last tokens of subjects.

  Args:
    memory: The model.
    facts: Prompts with `{}`, and their subjects.
    layer: The path of the layer of the keys.
    part: The path of the part.

  Returns:
    float32 [B, F] and [B, D].
  """
  compute = _compiled(memory.model, f"{layer}/mlp/wo", part)
  found = []
  for start in range(0, len(facts), _FACTS):
    chunk = list(facts[start : start + _FACTS])
    number = len(chunk)
    if start:  # One program for all chunks.
      chunk += chunk[:1] * (_FACTS - number)
    rows = memory.reader.of_facts([(*fact, "") for fact in chunk])
    made = compute(memory.params, rows.batch, rows.places_B)
    found.append([np.asarray(each)[:number] for each in made])
  return tuple(map(np.concatenate, zip(*found, strict=True)))


@functools.cache
def _compiled(model: nn.Module, projection: str, network: str) -> Callable:
  @programs.compiled
  def compute(params, batch, places_B):
    _, read = interventions.apply(
      model, params, batch, inputs_of=[projection], outputs_of=[network]
    )
    rows_B = jnp.arange(len(places_B))
    return tuple(
      read[path][rows_B, places_B].astype(jnp.float32)
      for path in (projection, network)
    )

  return compute


def _norm(x: jax.Array) -> jax.Array:
  """The Euclidean norm, whose gradient at 0 is 0 and not NaN."""
  squares = jnp.sum(jnp.square(x))
  positive = jnp.where(squares > 0, squares, 1.0)
  return jnp.where(squares > 0, jnp.sqrt(positive), 0.0)
