"""Prints the rates of mixtures as JSON: {mixture: {task: rate}}.

    python -m tests.oracles.t5.mixture_rates {ours|t5}

Tasks of which both count the examples are taken to have those of `COUNTS`.
"""

from collections.abc import Callable, Container, Iterable
import json
import os
import sys

import seqio

COUNTS = {
  "c4_v020_unsupervised": 364_868_901,
  "cnn_dailymail_v002": 287_113,
  "squad_v010_allanswers": 87_599,
  "trivia_qa_v010": 1_000_003,
  "wmt_t2t_ende_v003": 4_592_289,
  "wmt15_enfr_v003": 40_853_137,
  "wmt16_enro_v003": 610_320,
}


def counts_of_all() -> dict[str, int]:
  """Returns the training examples of every task."""
  from mixtures import counts

  return counts.GLUE | counts.SUPER_GLUE | counts.SUPER_GLUE_SENTINEL | COUNTS


def ours(wanted: Callable[[str], bool] = bool) -> dict[str, dict[str, float]]:
  """Returns the rates of those of our mixtures whose names are wanted."""
  import mixtures  # noqa: F401
  import tasks  # noqa: F401
  from transformer_zoo.data.prepare import reading

  given = counts_of_all()
  with reading.known_counts(given):
    return rates_of(filter(wanted, seqio.MixtureRegistry.names()), given)


def rates_of(
  names: Iterable[str], given: Container[str]
) -> dict[str, dict[str, float]]:
  """Returns the rates of mixtures all of whose tasks are given."""
  found = {}
  for name in names:
    mixture = seqio.MixtureRegistry.get(name)
    if all(task.name in given for task in mixture.tasks):
      found[name] = {
        task.name: mixture.get_rate(task) for task in mixture.tasks
      }
  return found


def main() -> None:
  """Prints one line."""
  if sys.argv[1] == "ours":
    rates = ours()
  else:
    import t5.data.mixtures  # noqa: F401

    given = json.loads(sys.argv[2])
    seqio.Task.num_input_examples = lambda task, split: given[task.name]
    rates = rates_of(seqio.MixtureRegistry.names(), given)
  print(json.dumps(rates))
  sys.stdout.flush()
  os._exit(0)


if __name__ == "__main__":
  main()
