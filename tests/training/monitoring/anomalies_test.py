"""NaN, infinities and spikes inside the compiled step, on 8 devices."""

import json

from flax import linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from transformer_zoo.architectures.offers import Offers
from transformer_zoo.errors import UserError
from transformer_zoo.objectives.interface import Objective
from transformer_zoo.objectives.terms import Term
from transformer_zoo.training.monitoring import anomalies
from transformer_zoo.training.monitoring.anomalies import Anomalies
from transformer_zoo.training.program import TrainProgram
from transformer_zoo.training.sharding.partitioning import Partitioning

KEY = jax.random.key(0)
WIDTH = 16


class Line(nn.Module):
  """One kernel."""

  pad_id = 0
  offers = Offers(
    reads=("encoder_input_tokens",), transformers={}, embedders={}, pad_id=0
  )

  @nn.compact
  def all_logits(self, batch):
    make = nn.with_logical_partitioning(nn.initializers.ones, ("mlp",))
    kernel = self.param("kernel", make, (WIDTH,))
    return batch["encoder_input_tokens"] * kernel[0]


class Slope(Objective):
  """The slope of the loss is the batch; its poison is added to the loss."""

  def __call__(self, model, params, batch, dropout_key=None):
    per_row = batch["slope"] * jnp.sum(params["kernel"]) + batch["poison"]
    total = jnp.sum(per_row)
    weight = jnp.float32(len(per_row))
    return {"rows": Term(total, weight, {"loss_sum": total})}


def schedule(step):
  return 0.01 * (step + 1)


def make_program(**settings):
  partitioning = Partitioning(num_partitions=2)
  return TrainProgram(
    Line(),
    Slope(),
    optax.adam(schedule),
    schedule,
    partitioning,
    partitioning.mesh(),
    anomalies=Anomalies(**settings),
  )


def batch(slope, poison=0.0):
  slopes = np.full(8, slope, np.float32)
  return {"slope": slopes, "poison": np.full(8, poison, np.float32)}


def follow(program, batches, history=None):
  """Takes steps: the states as numpy, the sums, and the last history."""
  state = program.initial_state(KEY)
  history = program.place_history(history or anomalies.initial_history())
  states, all_sums = [jax.tree.map(np.array, state)], []
  for one in batches:
    given = state
    state, sums = program.step(state, one, KEY, history)
    assert all(leaf.is_deleted() for leaf in jax.tree.leaves(given))
    history = sums.pop("history")
    states.append(jax.tree.map(np.array, state))
    all_sums.append({name: np.asarray(v) for name, v in sums.items()})
  return states, all_sums, history


def same(one, other):
  """Whether two states have equal parameters and optimizer states."""
  pairs = zip(
    jax.tree.leaves((one.params, one.opt_state)),
    jax.tree.leaves((other.params, other.opt_state)),
    strict=True,
  )
  return all(np.array_equal(a, b) for a, b in pairs)


@pytest.fixture(scope="module")
def skipping():
  with jax.set_mesh(Partitioning(num_partitions=2).mesh()):
    yield make_program(on_not_finite="skip", on_spike="skip", horizon=4)


@pytest.mark.parametrize(
  "slope, poison", [(np.nan, 0), (np.inf, 0), (1, -np.inf)]
)
def test_a_step_that_is_not_finite_changes_nothing_but_the_step(
  skipping, slope, poison
):
  states, sums, _ = follow(skipping, [batch(1), batch(slope, poison), batch(2)])
  assert same(states[1], states[2]) and not same(states[0], states[1])
  assert [int(state.step) for state in states] == [0, 1, 2, 3]
  assert [float(s["skipped"]) for s in sums] == [0, 1, 0]
  assert [float(s["not_finite"]) for s in sums] == [0, 1, 0]
  # The step after is the one that would have been without it.
  without, _, _ = follow(skipping, [batch(1), batch(2)])
  assert same(states[3], without[2])


def test_the_rate_is_that_of_the_update_after_skipped_steps(skipping):
  slopes = [1, np.nan, np.inf, 1]
  states, sums, _ = follow(skipping, map(batch, slopes))
  rates = [float(s["learning_rate"]) for s in sums]
  np.testing.assert_allclose(rates, [0.01, 0.02, 0.02, 0.02], rtol=1e-6)
  # Adam's step of equal gradients is as long as the rate.
  moved = states[-2].params["kernel"] - states[-1].params["kernel"]
  np.testing.assert_allclose(moved, rates[-1], rtol=1e-3)


def test_a_spike_is_what_lies_far_above_the_steps_before(skipping):
  slopes = [1.0, 1.1, 0.9, 1.0, 1.0, 30.0, 1.1, 0.01]
  states, sums, _ = follow(skipping, map(batch, slopes))
  assert [int(s["spike"]) for s in sums] == [0, 0, 0, 0, 0, 1, 0, 0]
  assert same(states[5], states[6]) and not same(states[6], states[7])
  # Nothing is a spike before the horizon, however high.
  _, sums, _ = follow(skipping, map(batch, [1.0, 1.0, 30.0, 1.0]))
  assert not any(s["spike"] for s in sums)


def test_a_level_that_stays_is_a_spike_only_for_a_while(skipping):
  _, sums, _ = follow(skipping, map(batch, [1.0, 1.1] * 3 + [4.0] * 8))
  spikes = [int(s["spike"]) for s in sums]
  assert spikes[:7] == [0] * 6 + [1] and spikes[-1] == 0


def test_limits_are_of_the_means_and_deviations_before(skipping):
  losses, norms = [], []
  slopes = [1.0, 1.5, 0.5, 1.25]
  _, sums, history = follow(skipping, [batch(s, 3.0) for s in slopes])
  for one in sums:
    losses.append(one["loss"])
    norms.append(one["gradient_norm"])
  series = np.array([losses, norms])
  np.testing.assert_allclose(history["mean"], series.mean(1), rtol=1e-5)
  np.testing.assert_allclose(history["variance"], series.var(1), rtol=1e-4)
  _, (after,), _ = follow(skipping, [batch(1)], jax.device_get(history))
  expected = series.mean(1) + 6 * series.std(1)
  np.testing.assert_allclose(after["limits"], expected, rtol=1e-4)


def test_a_history_that_went_through_json_gives_the_same_bits(skipping):
  slopes = [1.0, 1.3, 0.7, 1.1, 0.9]
  _, _, middle = follow(skipping, map(batch, slopes))
  saved = json.loads(json.dumps(anomalies.to_json(middle)))
  again = anomalies.from_json(saved)
  for name, value in jax.device_get(middle).items():
    assert again[name].dtype == np.float32
    np.testing.assert_array_equal(again[name], value)


def test_one_program_whose_state_is_where_the_one_before_was(skipping):
  follow(skipping, [batch(1), batch(2), batch(3)])
  assert skipping.step._cache_size() == 1
  state = skipping.abstract_state
  history = skipping.place_history(anomalies.initial_history())
  compiled = skipping.step.lower(state, batch(1), KEY, history).compile()
  per_device = sum(
    leaf.sharding.shard_shape(leaf.shape)[0] * 4 if leaf.ndim else 4
    for leaf in jax.tree.leaves(state)
  )
  assert compiled.memory_analysis().alias_size_in_bytes == per_device


def test_noted_and_ignored_spikes_move_the_parameters():
  slopes = [1.0] * 5 + [30.0]
  with jax.set_mesh(Partitioning(num_partitions=2).mesh()):
    for how in ("note", "stop"):
      program = make_program(on_spike=how, horizon=4)
      states, sums, _ = follow(program, map(batch, slopes))
      assert sums[-1]["spike"] and not sums[-1]["skipped"]
      assert not same(states[-2], states[-1])


def test_without_them_the_step_has_no_part_in_it():
  with jax.set_mesh(Partitioning().mesh()):
    program = make_program()
    assert not program.anomalies.are_looked_for
    _, sums = program.step(program.initial_state(KEY), batch(1), KEY)
  assert "history" not in sums and "skipped" not in sums


@pytest.mark.parametrize(
  "settings, sentence",
  [
    (
      {"on_spike": "skipp"},
      "on_spike='skipp' is none of ignore, note, skip, stop",
    ),
    ({"on_not_finite": "note"}, "on_not_finite='note' is none of stop, skip"),
    (
      {"horizon": 1},
      "anomalies need deviations above 0, a horizon of 2 or more and "
      "max_in_a_row of 1 or more, not deviations=6.0, horizon=1, "
      "max_in_a_row=10",
    ),
  ],
)
def test_settings_that_are_refused(settings, sentence):
  with pytest.raises(UserError) as caught:
    Anomalies(**settings)
  assert str(caught.value) == sentence
