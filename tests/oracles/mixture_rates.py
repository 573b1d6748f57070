"""Prints the rates of mixtures as JSON: {mixture: {task: rate}}.

    python -m tests.oracles.mixture_rates {ours|t5}

Tasks of which both count the examples are taken to have those of `COUNTS`.
"""

import contextlib
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


def ours() -> None:
  """Registers our mixtures."""
  import mixtures  # noqa: F401
  import tasks  # noqa: F401


def main() -> None:
  """Prints one line."""
  if sys.argv[1] == "ours":
    ours()
    from transformer_zoo.data import mixing

    given = counts_of_all()
    context = mixing.known_counts(given)
  else:
    import t5.data.mixtures  # noqa: F401

    given = json.loads(sys.argv[2])
    context = contextlib.nullcontext()
    seqio.Task.num_input_examples = lambda task, split: given[task.name]
  rates = {}
  with context:
    for name in seqio.MixtureRegistry.names():
      mixture = seqio.MixtureRegistry.get(name)
      if all(task.name in given for task in mixture.tasks):
        rates[name] = {
          task.name: mixture.get_rate(task) for task in mixture.tasks
        }
  print(json.dumps(rates))
  sys.stdout.flush()
  os._exit(0)


if __name__ == "__main__":
  main()
