"""The layers of a stack on the stages of a pipeline (Huang et al. 2019, GPipe).

Stage s of S holds the parameters of its N / S layers. A batch is cut into M
microbatches; at tick t stage s computes microbatch t - s and hands it to stage
s + 1, so that after M + S - 1 ticks all are done, of which S - 1 are idle for
every stage. Layers are what they are without stages: activations alone travel,
between neighbours, and the output once to all stages, for what reads it.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from transformer_zoo import axes

STAGE = "stage"
# Microbatches for each stage, where the batch has rows enough: of the ticks at
# most (S - 1) / (5 S - 1), a fifth, are idle.
_FOR_EACH_STAGE = 4

# (x, parameters of a layer, its own values, what all layers are given, its
# number, the number of the microbatch) -> x.
Layer = Callable[[Any, Any, Any, Any, jax.Array, jax.Array], Any]


def num_microbatches(rows: int) -> int:
  """The number of microbatches of a batch, each whole on every data shard."""
  shares = axes.partitions("batch")
  if rows % shares:
    return 1
  most = _FOR_EACH_STAGE * axes.num_stages()
  return max(d for d in range(1, most + 1) if rows // shares % d == 0)


def apply(
  layer: Layer,
  params_N: Any,
  own_N: Any,
  x_BLD: Any,
  given: Any,
) -> Any:
  """Applies stacked layers, the layers of a stage on its devices.

  Args:
    layer: A layer as a function.
    params_N: The parameters of all layers, stacked along their first axis.
    own_N: Values that differ by layer, stacked in the same way.
    x_BLD: What the first layer reads, an array or a tree of them.
    given: What all layers are given. Arrays with as many rows as x are cut with
      it; others are whole for every microbatch.

  Returns:
    What the last layer gives, in the form of x.
  """
  stages = axes.num_stages()
  rows = jax.tree.leaves(x_BLD)[0].shape[0]
  count = num_microbatches(rows)

  def cut(array):
    # Strided, so that every microbatch lies over all shards of the batch.
    parts = array.reshape(rows // count, count, *array.shape[1:])
    return jnp.swapaxes(parts, 0, 1)

  def join(array):
    return jnp.swapaxes(array, 0, 1).reshape(rows, *array.shape[2:])

  leaves, tree = jax.tree.flatten(given)
  leaves = [jnp.asarray(leaf) for leaf in leaves]
  is_cut = [leaf.ndim > 0 and leaf.shape[0] == rows for leaf in leaves]
  with_rows = [cut(x) for x, c in zip(leaves, is_cut, strict=True) if c]
  whole = [x for x, c in zip(leaves, is_cut, strict=True) if not c]

  def given_of(with_rows, whole, number):
    with_rows = iter(jax.tree.map(lambda x: x[number], with_rows))
    whole = iter(whole)
    return jax.tree.unflatten(
      tree, [next(with_rows) if c else next(whole) for c in is_cut]
    )

  def run(params_n, own_n, x_M, with_rows, whole):
    stage = jax.lax.axis_index(STAGE)
    per_stage = jax.tree.leaves(params_n)[0].shape[0]

    def of_stage(x, number):
      values = given_of(with_rows, whole, number)

      def one(x, each):
        params, own, index = each
        place = stage * per_stage + index
        return layer(x, params, own, values, place, number), None

      return jax.lax.scan(one, x, (params_n, own_n, jnp.arange(per_stage)))[0]

    def tick(carry, time):
      received, done_M = carry
      number = jnp.clip(time - stage, 0, count - 1)
      x = jax.tree.map(
        lambda all_M, x: jnp.where(stage == 0, all_M[number], x),
        x_M,
        received,
      )
      x = of_stage(x, number)
      finished = (stage == stages - 1) & (time >= stage)
      done_M = jax.tree.map(
        lambda all_M, x: all_M.at[number].set(
          jnp.where(finished, x, all_M[number])
        ),
        done_M,
        x,
      )
      neighbours = [(s, s + 1) for s in range(stages - 1)]
      handed = jax.tree.map(lambda x: jax.lax.ppermute(x, STAGE, neighbours), x)
      return (handed, done_M), None

    start = jax.tree.map(lambda all_M: all_M[0], x_M)
    empty_M = jax.tree.map(jnp.zeros_like, x_M)
    (_, done_M), _ = jax.lax.scan(
      tick, (start, empty_M), jnp.arange(count + stages - 1)
    )
    return jax.lax.psum(done_M, STAGE)

  over, whole_spec = jax.P(STAGE), jax.P()
  mapped = jax.shard_map(
    run,
    in_specs=(over, over, whole_spec, whole_spec, whole_spec),
    out_specs=whole_spec,
    axis_names={STAGE},
    # Nothing says of ppermute's zeros that they vary over the stages.
    check_vma=False,
  )
  made = mapped(params_N, own_N, jax.tree.map(cut, x_BLD), with_rows, whole)
  return jax.tree.map(join, made)


def apply_with_cache(
  layer: Callable[..., tuple[Any, Any]],
  params_N: Any,
  cache_N: Any | None,
  own_N: Any,
  x_BLD: Any,
  given: Any,
) -> tuple[Any, Any]:
  """Applies stacked layers one stage after the other; each keeps its cache.

  A step of decoding has one token a row, which is not cut: a stage is busy in
  one of S ticks.

  Args:
    layer: A layer as a function of x, its parameters, its cache or None, its
      own values and what all layers are given; returns x and its cache.
    params_N: As in `apply`.
    cache_N: The caches of all layers, stacked; None if they begin here.
    own_N: As in `apply`.
    x_BLD: What the first layer reads.
    given: What all layers are given.

  Returns:
    What the last layer gives, and the caches.
  """
  stages = axes.num_stages()
  given = jax.tree.map(jnp.asarray, given)

  def run(params_n, cache_n, own_n, x, given):
    stage = jax.lax.axis_index(STAGE)

    def of_stage(x, cache_n):
      def one(x, each):
        params, cache, own = each
        return layer(x, params, cache, own, given)

      return jax.lax.scan(one, x, (params_n, cache_n, own_n))

    def tick(carry, time):
      x, cache_n = carry
      made, new_n = of_stage(x, cache_n if cache_N is not None else None)
      # Of other ticks nothing stays: what they read is not theirs.
      cache_n = jax.tree.map(
        lambda new, old: jnp.where(time == stage, new, old), new_n, cache_n
      )
      last = jnp.where((stage == stages - 1) & (time == stages - 1), 1, 0)
      done = jax.tree.map(lambda x: x * last.astype(x.dtype), made)
      neighbours = [(s, s + 1) for s in range(stages - 1)]
      made = jax.tree.map(
        lambda x: jax.lax.ppermute(x, STAGE, neighbours), made
      )
      # Stage 0 goes on with what it has read, so that nothing is undefined.
      made = jax.tree.map(
        lambda x, first: jnp.where(stage == 0, first, x), made, x
      )
      return (made, cache_n), done

    if cache_N is None:
      shapes = jax.eval_shape(of_stage, x, None)[1]
      cache_n = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)
    (_, cache_n), done = jax.lax.scan(tick, (x, cache_n), jnp.arange(stages))
    output = jax.tree.map(lambda all_T: all_T[-1], done)
    return jax.lax.psum(output, STAGE), cache_n

  over, whole = jax.P(STAGE), jax.P()
  mapped = jax.shard_map(
    run,
    in_specs=(over, over, over, whole, whole),
    out_specs=(whole, over),
    axis_names={STAGE},
    check_vma=False,
  )
  return mapped(params_N, cache_N, own_N, x_BLD, given)
