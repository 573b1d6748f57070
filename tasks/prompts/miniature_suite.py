"""The miniature tasks under prompts: what T0's studies are run on here.

Sentiment, paraphrase, acceptability, answers, choices and summaries are
trained on; inference, pronouns, effects and word senses are held out
(`mixtures/t0.py`).
"""

from collections.abc import Callable, Mapping
import inspect
from typing import Any

import tensorflow as tf

from tasks.miniature import source
from tasks.miniature.examples import pairs
from tasks.miniature.examples import reading
from tasks.miniature.examples import single
from tasks.miniature.examples import splits
from tasks.miniature.for_encoders import examples as of_encoders
from tasks.your_data.prompted import register_prompts


def rows_source(
  write: Callable,
  stream: int,
  sizes: Mapping[str, int] = splits.SIZES,
  **arguments: Any,
) -> source.GeneratedSource:
  """Returns the source of the raw examples of a task of the suite.

  Args:
    write: The example writer.
    stream: The number of the task's random choices.
    sizes: split -> number of examples.
    **arguments: Further arguments of `splits.examples`.
  """

  def read(split, shuffle_files=False, seed=None):
    del shuffle_files, seed  # The examples are in random order already.
    rows = splits.examples(
      write, stream=stream, split=split, sizes=sizes, **arguments
    )
    columns = {field: [row[field] for row in rows] for field in rows[0]}
    if "answers" in columns:  # Lists of several lengths.
      answers = columns.pop("answers")
      columns["answer"] = [accepted[0] for accepted in answers]
    return tf.data.Dataset.from_tensor_slices(columns)

  settings = repr((inspect.getsource(write), stream, sizes, arguments))
  return source.GeneratedSource(read, settings, dict(sizes))


# Trained on.
register_prompts(
  "mini_sst2.yaml",
  rows_source(single.sentiment, stream=1),
  features=source.FEATURES,
)
register_prompts(
  "mini_mrpc.yaml",
  rows_source(pairs.paraphrase, stream=2),
  features=source.FEATURES,
)
register_prompts(
  "mini_cola.yaml",
  rows_source(single.acceptability, stream=0),
  features=source.FEATURES,
)
register_prompts(
  "mini_squad.yaml",
  rows_source(reading.span_answer, stream=8),
  metrics=["sequence_accuracy"],
  features=source.FEATURES,
)
register_prompts(
  "mini_race.yaml",
  rows_source(of_encoders.choice, stream=14),
  features=source.FEATURES,
)
register_prompts(
  "mini_summarize.yaml",
  rows_source(
    reading.summary,
    stream=9,
    sizes=splits.SIZES_OF_SUMMARIES,
    own_words=False,
  ),
  metrics=["rouge"],
  features=source.FEATURES,
)

# Held out.
register_prompts(
  "mini_nli.yaml",
  rows_source(pairs.entailment, stream=4),
  features=source.FEATURES,
)
register_prompts(
  "mini_wsc.yaml",
  rows_source(single.referent, stream=6),
  features=source.FEATURES,
)
register_prompts(
  "mini_copa.yaml",
  rows_source(pairs.cause_or_effect, stream=5),
  features=source.FEATURES,
)
register_prompts(
  "mini_wic.yaml",
  rows_source(pairs.word_in_context, stream=7),
  features=source.FEATURES,
)
