"""The tasks of the t5 package, in a process of their own.

They have the names of ours in SeqIO's registry, and the package is installed
apart. `python -m tests.oracles.t5.t5_package DATA_DIR` reads requests from its
standard input (`text_to_text_rows` says what they are) and writes the lines of
each to its standard output, then `null`, or a JSON string where it fails.
"""

import functools
import json
import os
import pathlib
import sys

import seqio
from t5.data import postprocessors
from t5.data import preprocessors
import t5.data.tasks  # noqa: F401 (registers them)

from tests.oracles.t5 import text_to_text_rows

VOCABULARY = "t5_cc_all_32000/sentencepiece.model"

# The marked form of WSC has its functions in t5, but no task.
seqio.TaskRegistry.add(
  "super_glue_wsc_v102",
  source=seqio.TfdsDataSource("super_glue/wsc.fixed:1.0.2"),
  preprocessors=[preprocessors.wsc, seqio.preprocessors.tokenize],
  postprocess_fn=functools.partial(
    postprocessors.string_label_to_class_id, label_classes=["False", "True"]
  ),
  output_features=t5.data.tasks.DEFAULT_OUTPUT_FEATURES,
)


def main() -> None:
  """Answers requests until the standard input ends."""
  vocabulary = pathlib.Path(sys.argv[1]).parent / "vocab" / VOCABULARY
  for feature in t5.data.tasks.DEFAULT_OUTPUT_FEATURES.values():
    # t5's is in a bucket; answers to sentinels are decoded with it.
    feature.vocabulary._sentencepiece_model_file = str(vocabulary)
  # What a library prints must not come among the lines.
  output = os.fdopen(os.dup(1), "w", encoding="utf-8")
  os.dup2(2, 1)
  for request in sys.stdin:
    try:
      for line in text_to_text_rows.lines(json.loads(request), sys.argv[1]):
        output.write(line + "\n")
      output.write("null\n")
    except Exception as error:
      output.write(json.dumps(f"{type(error).__name__}: {error}") + "\n")
    output.flush()


if __name__ == "__main__":
  main()
