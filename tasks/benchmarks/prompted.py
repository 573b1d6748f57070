"""The data sets for which we ship prompts (`tasks/prompts`, our own words).

Each template is a task and each file a mixture; the names stand in the files.
"""

from collections.abc import Callable
import inspect

import tensorflow as tf

from tasks.miniature import examples
from tasks.miniature import examples_pairs
from tasks.miniature import examples_single
from tasks.miniature import source as miniature
from tasks.sources.tfds import PreparedTfdsDataSource
from tasks.your_data.prompted import register_prompts
from tasks.your_data.rows import RowFiles

_SPLITS = ("train", "validation", "test")

register_prompts(
  "rte.yaml", PreparedTfdsDataSource("super_glue/rte:1.0.2", splits=_SPLITS)
)
register_prompts(
  "cb.yaml", PreparedTfdsDataSource("super_glue/cb:1.0.2", splits=_SPLITS)
)
# The choices are sentences of different lengths.
register_prompts(
  "copa.yaml",
  PreparedTfdsDataSource("super_glue/copa:1.0.2", splits=_SPLITS),
  length_normalized=True,
)
register_prompts(
  "wic.yaml", PreparedTfdsDataSource("super_glue/wic:1.0.2", splits=_SPLITS)
)
register_prompts(
  "wsc.yaml",
  PreparedTfdsDataSource("super_glue/wsc.fixed:1.0.2", splits=_SPLITS),
)
register_prompts(
  "boolq.yaml",
  PreparedTfdsDataSource("super_glue/boolq:1.0.2", splits=_SPLITS),
)
register_prompts(
  "sst2.yaml", PreparedTfdsDataSource("glue/sst2:2.0.0", splits=_SPLITS)
)
register_prompts(
  "sst2_very.yaml", PreparedTfdsDataSource("glue/sst2:2.0.0", splits=_SPLITS)
)
register_prompts(
  "mrpc.yaml", PreparedTfdsDataSource("glue/mrpc:2.0.0", splits=_SPLITS)
)
register_prompts(
  "anli.yaml", PreparedTfdsDataSource("anli/r1:0.1.0", splits=_SPLITS)
)
# Their choices are of different lengths.
register_prompts(
  "hellaswag.yaml",
  PreparedTfdsDataSource("hellaswag:1.1.0", splits=_SPLITS),
  length_normalized=True,
)
register_prompts(
  "winogrande.yaml",
  PreparedTfdsDataSource(
    "winogrande:1.2.0",
    splits={"train": "train_xl", "validation": "validation"},
  ),
)
register_prompts(
  "story_cloze.yaml",
  RowFiles(
    {split: f"gpt/story_cloze/{split}.csv" for split in ("validation", "test")},
    "csv",
  ),
  length_normalized=True,
)


def _miniature_rows(write: Callable, stream: int) -> miniature.GeneratedSource:
  """Returns the raw examples of a task of the miniature suite.

  Args:
    write: the example writer.
    stream: the number of the task's random choices.
  """

  def read(split, shuffle_files=False, seed=None):
    del shuffle_files, seed  # The examples are in random order already.
    rows = examples.examples(write, stream=stream, split=split)
    columns = {field: [row[field] for row in rows] for field in rows[0]}
    return tf.data.Dataset.from_tensor_slices(columns)

  arguments = repr((inspect.getsource(write), stream))
  return miniature.GeneratedSource(read, arguments, examples.SIZES)


register_prompts(
  "mini_nli.yaml",
  _miniature_rows(examples_pairs.entailment, stream=4),
  features=miniature.FEATURES,
)
register_prompts(
  "mini_sst2.yaml",
  _miniature_rows(examples_single.sentiment, stream=1),
  features=miniature.FEATURES,
)
register_prompts(
  "mini_sst2_very.yaml",
  _miniature_rows(examples_single.sentiment, stream=1),
  features=miniature.FEATURES,
)
