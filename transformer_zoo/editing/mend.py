"""MEND: editors that make an edit of a gradient (Mitchell et al. 2022).

The gradient of a matrix is a sum of outer products of what enters it, x, and of
the gradient of what leaves it, d. An editor transforms both of each token by a
small network, g(z) of z = [x; d], and the matrix changes by -alpha sum x' d'.
Editors are learned: edited models are to say the edits, in other words too, and
nothing else (section 3). After the repository: networks of two residual layers
of low rank that are the identity at first, one for all matrices of a shape,
with scales and shifts of each matrix; whitened inputs.
"""

from collections.abc import Iterator, Mapping, Sequence
import dataclasses
import functools
from typing import Any

from flax import linen as nn
from flax import traverse_util
import jax
import jax.numpy as jnp
import numpy as np
import optax

from transformer_zoo.editing import edits
from transformer_zoo.editing import interventions
from transformer_zoo.editing import programs
from transformer_zoo.errors import UserError

# Path -> x [T, F] and d [T, D] of every token of a batch.
Factors = Mapping[str, tuple[jax.Array, jax.Array]]
Batch = Mapping[str, jax.Array]
_SMALL = 1e-7


def last_projections(
  model: nn.Module, blocks: int = 2, projections: Sequence[str] = ("wi", "wo")
) -> tuple[str, ...]:
  """The paths of the feed-forward projections of the last blocks.

  Args:
    model: Any architecture; of an encoder-decoder the last blocks of both.
    blocks: The number of blocks.
    projections: The names of the projections.

  Raises:
    UserError: There are fewer blocks, or no such projection.
  """
  paths = []
  for side, transformer in model.offers.transformers.items():
    stack = transformer.layer_stack
    if stack.num_layers < blocks:
      raise UserError(
        f"the {side} has {stack.num_layers} layers, fewer than the {blocks} "
        "whose projections are edited"
      )
    there = [
      name
      for name in ("wi", "wi_0", "wi_1", "wo")
      if hasattr(stack.layer.mlp, name)
    ]
    for name in projections:
      if name not in there:
        raise UserError(
          f"the feed-forward network {type(stack.layer.mlp).__name__} has no "
          f"projection {name!r}; it has {', '.join(there)}"
        )
    for layer in range(stack.num_layers - blocks, stack.num_layers):
      paths += [f"{side}/layers_{layer}/mlp/{name}" for name in projections]
  return tuple(paths)


@dataclasses.dataclass(frozen=True)
class Mend:
  """Editors of some projections of a model.

  Attributes:
    model: A model of looped layers, of any architecture with a head of tokens.
    paths: The paths of the edited projections (`last_projections`).
    rank: The rank of the layers of an editor; 1920 in the paper.
    edit_factor: The factor of the loss of edits, against locality.
  """

  model: nn.Module
  paths: tuple[str, ...]
  rank: int = 1920
  edit_factor: float = 0.1

  def init(self, key: jax.Array, params: Any, rate: float = 1e-4) -> Any:
    """Returns the parameters of editors that are the identity.

    Args:
      key: A random key.
      params: The parameters of the model.
      rate: The initial alpha of every matrix.
    """
    editors = {}
    for shape, paths in self._shapes(params).items():
      size = sum(shape)
      for layer in range(2):
        key, drawn = jax.random.split(key)
        editors[f"{_name(shape)}_{layer}"] = {
          "down": jax.random.normal(drawn, (size, self.rank)) / size**0.5,
          "up": jnp.zeros((self.rank, size)),
          "bias": jnp.zeros(size),
          "scale": jnp.ones((len(paths), size)),
          "shift": jnp.zeros((len(paths), size)),
        }
    rates = {path.replace("/", "."): jnp.array(rate) for path in self.paths}
    return {"networks": editors, "rates": rates}

  def factors(self, params: Any, batch: Batch) -> Factors:
    """Returns x and d of the loss of a batch, for every matrix.

    Where d is 0, no token is: padding, and what no target depends on.
    """
    shapes = jax.eval_shape(
      lambda p: interventions.apply(
        self.model, p, batch, outputs_of=self.paths
      )[1],
      params,
    )
    zeros = {path: jnp.zeros(s.shape, s.dtype) for path, s in shapes.items()}

    def loss(added):
      changes = {
        path: functools.partial(jnp.add, each) for path, each in added.items()
      }
      logits, inputs = interventions.apply(
        self.model, params, batch, inputs_of=self.paths, changes=changes
      )
      return nll(logits, batch).sum(), inputs

    gradients, inputs = jax.grad(loss, has_aux=True)(zeros)

    def flat(x):
      return x.reshape(-1, x.shape[-1]).astype(jnp.float32)

    return {p: (flat(inputs[p]), flat(gradients[p])) for p in self.paths}

  def statistics(self, params: Any, batches: Sequence[Batch]) -> Any:
    """Means and deviations of x and d over edits, which whiten them.

    Args:
      params: The parameters of the model.
      batches: Batches of edits.

    Returns:
      By the shape of a matrix, as `transformed` takes them.
    """
    gathered = {}
    compute = programs.compiled(self.factors)
    for batch in batches:
      found = compute(params, batch)
      for shape, paths in self._shapes(params).items():
        for path in paths:
          x_TF, d_TD = (np.asarray(each) for each in found[path])
          kept = (d_TD != 0).any(1) & (x_TF != 0).any(1)
          gathered.setdefault(_name(shape), []).append(
            np.concatenate([x_TF[kept], d_TD[kept]], axis=1)
          )
    return {
      name: (
        jnp.asarray(np.concatenate(rows).mean(0)),
        jnp.asarray(np.concatenate(rows).std(0)),
      )
      for name, rows in gathered.items()
    }

  def transformed(
    self, editor: Any, statistics: Any, factors: Factors
  ) -> Factors:
    """Returns x' and -alpha d' of every matrix; their product is added."""
    shapes = {}
    for path in self.paths:
      shapes.setdefault(tuple(f.shape[1] for f in factors[path]), []).append(
        path
      )
    found = {}
    for shape, paths in shapes.items():
      name = _name(shape)
      for number, path in enumerate(paths):
        x_TF, d_TD = factors[path]
        kept_T1 = (d_TD != 0).any(1, keepdims=True)
        kept_T1 &= (x_TF != 0).any(1, keepdims=True)
        z_TZ = jnp.concatenate([x_TF, d_TD], axis=1)
        mean_Z, deviation_Z = statistics[name]
        z_TZ = (z_TZ - mean_Z[None]) / (deviation_Z[None] + _SMALL)
        for layer in range(2):
          weights = editor["networks"][f"{name}_{layer}"]
          y_TZ = z_TZ @ weights["down"] @ weights["up"] + weights["bias"][None]
          y_TZ = weights["scale"][number][None] * y_TZ
          y_TZ += weights["shift"][number][None]
          z_TZ += jax.nn.relu(y_TZ) if layer == 0 else y_TZ
        z_TZ = jnp.where(kept_T1, z_TZ, 0)
        rate = editor["rates"][path.replace("/", ".")]
        found[path] = z_TZ[:, : shape[0]], -rate * z_TZ[:, shape[0] :]
    return found

  def edited(self, params: Any, changed: Factors) -> Any:
    """Returns the parameters with the products of factors added."""
    flat = dict(traverse_util.flatten_dict(params, sep="/"))
    for path, (x_TF, d_TD) in changed.items():
      flat[f"{path}/kernel"] = flat[f"{path}/kernel"] + x_TF.T @ d_TD
    return traverse_util.unflatten_dict(flat, sep="/")

  def apply(
    self, editor: Any, statistics: Any, params: Any, batch: Batch
  ) -> Any:
    """Returns the parameters with all edits of a batch, made at once."""
    found = self.transformed(editor, statistics, self.factors(params, batch))
    return self.edited(params, found)

  def edits(
    self,
    editor: Any,
    statistics: Any,
    params: Any,
    batch: Batch,
    notes: Mapping[str, Any] | None = None,
  ) -> list[edits.Edit]:
    """Returns the edits of a batch as files have them, one a matrix."""
    factors = programs.compiled(self.factors)(params, batch)
    found = programs.compiled(self.transformed)(editor, statistics, factors)
    made = []
    for path, (x_TF, d_TD) in found.items():
      kept = np.asarray((d_TD != 0).any(1))
      made.append(
        edits.Edit.make(
          f"{path}/kernel",
          edits.kernel_of(params, f"{path}/kernel"),
          np.asarray(x_TF)[kept].T,
          np.asarray(d_TD)[kept],
          notes={"method": "MEND", **(notes or {})},
        )
      )
    return made

  def loss(
    self,
    editor: Any,
    statistics: Any,
    params: Any,
    edit: Batch,
    equivalent: Batch,
    other: Batch,
  ) -> tuple[jax.Array, dict[str, jax.Array]]:
    """The loss of editors: 0.1 of the edits' and the divergence elsewhere.

    Args:
      editor: The parameters of the editors.
      statistics: What whitens (`statistics`).
      params: The parameters of the model.
      edit: A batch of edits, made at once.
      equivalent: The edits in other words.
      other: Texts of which nothing is to change.

    Returns:
      The loss, and its two terms.
    """
    changed = self.apply(editor, statistics, params, edit)
    logits, _ = interventions.apply(self.model, changed, equivalent)
    said = nll(logits, equivalent).mean()
    before, _ = interventions.apply(self.model, params, other)
    after, _ = interventions.apply(self.model, changed, other)
    terms = {"edit": said, "locality": divergence(before, after, other)}
    return self.edit_factor * said + terms["locality"], terms

  def train(
    self,
    key: jax.Array,
    params: Any,
    examples: Iterator[tuple[Batch, Batch, Batch]],
    *,
    steps: int,
    statistics: Any,
    learning_rate: float = 1e-6,
    rate_learning_rate: float = 1e-4,
    accumulate: int = 10,
    initial_rate: float = 1e-4,
  ) -> tuple[Any, list[dict[str, float]]]:
    """Learns editors by Adam.

    Args:
      key: A random key.
      params: The parameters of the model, which stay.
      examples: Edits, the same in other words, and other texts, without end.
      steps: The number of examples.
      statistics: What whitens (`statistics`).
      learning_rate: That of the networks.
      rate_learning_rate: That of every alpha.
      accumulate: The number of examples whose gradients are averaged.
      initial_rate: The initial alpha.

    Returns:
      The editors and the terms of each step.
    """
    labels = {"networks": "networks", "rates": "rates"}
    optimizer = optax.MultiSteps(
      optax.multi_transform(
        {
          "networks": optax.adam(learning_rate),
          "rates": optax.adam(rate_learning_rate),
        },
        labels,
      ),
      accumulate,
    )
    editor = self.init(key, params, initial_rate)
    state = optimizer.init(editor)

    @programs.compiled
    def step(editor, state, params, statistics, edit, equivalent, other):
      gradients, terms = jax.grad(self.loss, has_aux=True)(
        editor, statistics, params, edit, equivalent, other
      )
      updates, state = optimizer.update(gradients, state, editor)
      return optax.apply_updates(editor, updates), state, terms

    history = []
    for _ in range(steps):
      editor, state, terms = step(
        editor, state, params, statistics, *next(examples)
      )
      history.append(terms)
    return editor, [{k: float(v) for k, v in each.items()} for each in history]

  def _shapes(self, params: Any) -> dict[tuple[int, int], list[str]]:
    """The paths of the matrices of each shape."""
    shapes = {}
    for path in self.paths:
      shape = edits.kernel_of(params, f"{path}/kernel").shape
      shapes.setdefault(shape, []).append(path)
    return shapes


def targets_of(batch: Batch) -> tuple[jax.Array, jax.Array]:
  """The tokens that a batch asks for, and their weights, [B, L] both."""
  side = "decoder" if "decoder_target_tokens" in batch else "encoder"
  return batch[f"{side}_target_tokens"], batch[f"{side}_loss_weights"]


def nll(logits_BLV: jax.Array, batch: Batch) -> jax.Array:
  """The mean negative log-likelihood of the targets of each row, [B]."""
  tokens_BL, weights_BL = targets_of(batch)
  logs_BL = jnp.take_along_axis(
    jax.nn.log_softmax(logits_BLV), tokens_BL[..., None], axis=-1
  )[..., 0]
  counts_B = jnp.maximum(weights_BL.sum(1), 1)
  return -(logs_BL * weights_BL).sum(1) / counts_B


def divergence(
  before_BLV: jax.Array, after_BLV: jax.Array, batch: Batch
) -> jax.Array:
  """The mean KL divergence of what is said after from before, at targets."""
  _, weights_BL = targets_of(batch)
  before, after = (
    jax.nn.log_softmax(logits) for logits in (before_BLV, after_BLV)
  )
  each_BL = (jnp.exp(before) * (before - after)).sum(-1)
  return (each_BL * weights_BL).sum() / jnp.maximum(weights_BL.sum(), 1)


def fine_tuned(
  model: nn.Module,
  params: Any,
  paths: Sequence[str],
  batch: Batch,
  *,
  learning_rate: float = 1e-2,
  steps: int = 25,
  least_loss: float = 0.05,
) -> Any:
  """Fine-tunes projections on an edit, the baseline of both papers.

  Args:
    model: A model of looped layers.
    params: Its parameters.
    paths: The paths of the projections.
    batch: The edit.
    learning_rate: That of Adam.
    steps: The largest number of steps.
    least_loss: A loss below which it ends.
  """
  flat = dict(traverse_util.flatten_dict(params, sep="/"))
  kernels = {path: jnp.asarray(flat[f"{path}/kernel"]) for path in paths}

  def put(kernels):
    named = {f"{path}/kernel": kernel for path, kernel in kernels.items()}
    return traverse_util.unflatten_dict(flat | named, sep="/")

  step, optimizer = _fine_tuning(model, tuple(paths), learning_rate)
  state = optimizer.init(kernels)
  for _ in range(steps):
    loss, changed, state = step(params, kernels, state, batch)
    if float(loss) < least_loss:
      break
    kernels = changed
  return put(kernels)


@interventions.cached
def _fine_tuning(model, paths, learning_rate):
  optimizer = optax.adam(learning_rate)

  @programs.compiled
  def step(params, kernels, state, batch):
    def loss(kernels):
      flat = dict(traverse_util.flatten_dict(params, sep="/"))
      flat |= {f"{path}/kernel": kernels[path] for path in paths}
      whole = traverse_util.unflatten_dict(flat, sep="/")
      logits, _ = interventions.apply(model, whole, batch)
      return nll(logits, batch).mean()

    value, gradients = jax.value_and_grad(loss)(kernels)
    updates, state = optimizer.update(gradients, state)
    return value, optax.apply_updates(kernels, updates), state

  return step, optimizer


def _name(shape: tuple[int, int]) -> str:
  return "x".join(map(str, shape))
