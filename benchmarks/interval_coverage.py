"""Coverage of a study's intervals for true differences, by simulation.

Two rows that are equally good answer the same examples with S seeds each; an
example is answered right by chance, which depends on the example, on the row,
on the seed, and on all of these together. Printed is the share of simulated
studies whose 95 % interval has zero in it: of the interval that reports give,
of the plain percentile interval of a paired bootstrap over seeds and examples,
and of Welch's interval over seeds alone. docs/reference/statistics.md has the
numbers.

    python benchmarks/interval_coverage.py

One CPU core, two minutes.
"""

import dataclasses

import numpy as np

from transformer_zoo.studies.statistics import inference

STUDIES = 600
RESAMPLES = 200


@dataclasses.dataclass(frozen=True)
class World:
  """Where scores come from.

  Attributes:
    examples: how many are evaluated.
    deviations: of what seeds do to all examples of a row, for both rows.
    common: share of that variance which a seed has in both rows.
  """

  examples: int
  deviations: tuple[float, float]
  common: float = 0.0

  def study(self, rng, num_seeds):
    """Returns scores [2, S] and their resampled differences [B, S]."""
    both_S = rng.normal(size=num_seeds) * np.sqrt(self.common)
    own_2S = rng.normal(size=(2, num_seeds)) * np.sqrt(1 - self.common)
    seeds_2S = (both_S + own_2S) * np.array(self.deviations)[:, None]
    examples_2N = rng.normal(size=self.examples)
    examples_2N = examples_2N + 0.7 * rng.normal(size=(2, self.examples))
    rest = 0.7 * rng.normal(size=(2, num_seeds, self.examples))
    right = seeds_2S[..., None] + examples_2N[:, None] + rest > 0
    right = 100.0 * right
    uniform = np.full(self.examples, 1 / self.examples)
    counts_BN = rng.multinomial(self.examples, uniform, size=RESAMPLES)
    means_2SB = right @ (counts_BN / self.examples).T
    return right.mean(2), (means_2SB[0] - means_2SB[1]).T


WORLDS = {
  "examples alone": World(200, (0.0, 0.0)),
  "mostly seeds": World(2000, (0.3, 0.3)),
  "both": World(200, (0.15, 0.15)),
  "uneven rows": World(500, (0.05, 0.4)),
  "seeds in common": World(500, (0.3, 0.3), common=0.8),
}


def coverage(world: World, num_seeds: int) -> tuple[float, float, float]:
  """Returns the shares of intervals that hold, of the three kinds."""
  rng = np.random.default_rng(num_seeds)
  held = np.zeros(3)
  for _ in range(STUDIES):
    scores_2S, difference_BS = world.study(rng, num_seeds)
    variance = inference.examples_variance(difference_BS)
    full = inference.estimate(*scores_2S, variance)
    seeds = inference.estimate(*scores_2S)
    low, high = inference.percentile_interval(difference_BS)
    held += [
      full.low <= 0 <= full.high,
      low <= 0 <= high,
      seeds.low <= 0 <= seeds.high,
    ]
  return tuple(held / STUDIES)


def main() -> None:
  """Prints a line for each world and number of seeds."""
  print(
    "| differences come from | seeds | reported | percentile | seeds alone |"
  )
  print("|---|---|---|---|---|")
  for name, world in WORLDS.items():
    for num_seeds in (2, 3, 5, 10):
      shares = " | ".join(f"{x:.2f}" for x in coverage(world, num_seeds))
      print(f"| {name} | {num_seeds} | {shares} |", flush=True)


if __name__ == "__main__":
  main()
