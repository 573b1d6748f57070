"""Files for the GLUE and SuperGLUE servers, from the rows of a test split.

Formats: the sample submissions of gluebenchmark.com and
super.gluebenchmark.com, and t5 `scripts/prepare_glue_submission.py`.
"""

from collections.abc import Callable, Mapping, Sequence
import dataclasses
import json
import os
import pathlib
from typing import Any

from transformer_zoo.errors import UserError

INVALID_RULE = "an answer that is no label is given the first label"
_NLI = ("entailment", "neutral", "contradiction")
_TWO_WAY = ("entailment", "not_entailment")
_BINARY = (0, 1)


@dataclasses.dataclass(frozen=True)
class Format:
  """One file of a submission.

  Attributes:
    file: The name of the file; `.tsv` for GLUE, `.jsonl` for SuperGLUE.
    labels: The server's name of each class; None if the answer itself is
      submitted, a number in GLUE and a text in SuperGLUE.
  """

  file: str
  labels: tuple[str | int, ...] | None


FORMATS = {
  "glue_cola_v002": Format("CoLA.tsv", _BINARY),
  "glue_sst2_v002": Format("SST-2.tsv", _BINARY),
  "glue_mrpc_v002": Format("MRPC.tsv", _BINARY),
  "glue_stsb_v002": Format("STS-B.tsv", None),
  "glue_qqp_v002": Format("QQP.tsv", _BINARY),
  "glue_mnli_matched_v002": Format("MNLI-m.tsv", _NLI),
  "glue_mnli_mismatched_v002": Format("MNLI-mm.tsv", _NLI),
  "glue_qnli_v002": Format("QNLI.tsv", _TWO_WAY),
  "glue_rte_v002": Format("RTE.tsv", _TWO_WAY),
  "glue_wnli_v002": Format("WNLI.tsv", _BINARY),
  "glue_wnli_v002_simple_eval": Format("WNLI.tsv", _BINARY),
  "glue_ax_v002": Format("AX.tsv", _NLI),
  "super_glue_boolq_v102": Format("BoolQ.jsonl", ("false", "true")),
  "super_glue_cb_v102": Format(
    "CB.jsonl", ("entailment", "contradiction", "neutral")
  ),
  "super_glue_copa_v102": Format("COPA.jsonl", _BINARY),
  "super_glue_multirc_v102": Format("MultiRC.jsonl", _BINARY),
  "super_glue_record_v102": Format("ReCoRD.jsonl", None),
  "super_glue_rte_v102": Format("RTE.jsonl", _TWO_WAY),
  "super_glue_wic_v102": Format("WiC.jsonl", ("false", "true")),
  "super_glue_wsc_v102": Format("WSC.jsonl", ("False", "True")),
  "super_glue_wsc_v102_simple_eval": Format("WSC.jsonl", ("False", "True")),
  "super_glue_axb_v102": Format("AX-b.jsonl", _TWO_WAY),
  "super_glue_axg_v102": Format("AX-g.jsonl", _TWO_WAY),
}


@dataclasses.dataclass(frozen=True)
class Written:
  """A file that was written.

  Attributes:
    path: The path of the file.
    rows: The number of answers in the file.
    invalid: The number of predictions that were no label and got the first one.
  """

  path: pathlib.Path
  rows: int
  invalid: int


def form_of(task: str) -> Format | None:
  """Returns the format of a task's file, None where no server takes one."""
  # The same examples with a sentinel in their text.
  return FORMATS.get(task.replace("_1_sentinel", ""))


def write(
  folder: str | os.PathLike[str],
  task: str,
  examples: Sequence[Mapping[str, Any]],
  predictions: Sequence[Any],
) -> Written:
  """Writes the file of one task, sorted by index, every row in it.

  Args:
    folder: The folder of the files, made if absent.
    task: The name of a task that has a format.
    examples: The examples with `idx`; in MultiRC `idx/paragraph`,
      `idx/question` and `idx/answer`, in ReCoRD `idx/query`.
    predictions: the task's post-processed answer for each example.

  Raises:
    UserError: two rows have the same index, or a row has none.
  """
  form = form_of(task)
  index = _INDICES.get(form.file, _simple_index)
  labels, invalid = {}, 0
  for example, prediction in zip(examples, predictions, strict=True):
    try:
      place = index(example)
    except (KeyError, TypeError, ValueError):
      raise UserError(
        f"A row of {task!r} has no index ({sorted(example)}), so {form.file} "
        "cannot be written: prepare the task from a source that gives 'idx'."
      ) from None
    label, is_valid = _label(form, prediction)
    # ReCoRD's labelled splits have a row for each right answer of a query.
    if labels.get(place, label) != label or (
      place in labels and form.file != "ReCoRD.jsonl"
    ):
      raise UserError(
        f"Two rows of {task!r} have the index {place}, so {form.file} cannot "
        "be written."
      )
    labels[place] = label
    invalid += not is_valid
  path = pathlib.Path(folder) / form.file
  path.parent.mkdir(parents=True, exist_ok=True)
  temporary = path.with_name(f"{path.name}.new")
  temporary.write_text(_content(form, sorted(labels.items())), encoding="utf-8")
  os.replace(temporary, path)
  return Written(path, len(labels), invalid)


def missing(written: Sequence[str]) -> dict[str, list[str]]:
  """Returns benchmark -> files that the server wants and that are not there.

  Args:
    written: names of files; a benchmark with none of them is left out.
  """
  absent = {}
  for benchmark, suffix in (("GLUE", ".tsv"), ("SuperGLUE", ".jsonl")):
    files = dict.fromkeys(
      form.file for form in FORMATS.values() if form.file.endswith(suffix)
    )
    if any(file in files for file in written):
      absent[benchmark] = [file for file in files if file not in written]
  return absent


def _label(form: Format, prediction: Any) -> tuple[str | int, bool]:
  """Returns the label submitted for an answer, and whether it was valid."""
  if isinstance(prediction, Mapping):  # MultiRC's and ReCoRD's have a group
    prediction = prediction["value"]
  if form.labels is not None:
    is_class = prediction in range(len(form.labels))
    return form.labels[prediction if is_class else 0], is_class
  if form.file.endswith(".jsonl"):
    return str(prediction), True
  # A similarity; text that is no number has become -1.
  return f"{min(max(float(prediction), 0.0), 5.0):.3f}", prediction != -1


def _simple_index(example: Mapping[str, Any]) -> int:
  return int(example["idx"])


_INDICES: dict[str, Callable[[Mapping[str, Any]], Any]] = {
  "MultiRC.jsonl": lambda example: tuple(
    int(example[f"idx/{part}"]) for part in ("paragraph", "question", "answer")
  ),
  "ReCoRD.jsonl": lambda example: int(example["idx/query"]),
}


def _content(form: Format, rows: Sequence[tuple[Any, str | int]]) -> str:
  if form.file.endswith(".tsv"):
    lines = [f"{place}\t{label}" for place, label in rows]
    return "\n".join(["index\tprediction", *lines]) + "\n"
  if form.file == "MultiRC.jsonl":
    objects = _nested(rows)
  else:
    objects = [{"idx": place, "label": label} for place, label in rows]
  return "".join(
    json.dumps(value, ensure_ascii=False) + "\n" for value in objects
  )


def _nested(rows: Sequence[tuple[Any, str | int]]) -> list[dict[str, Any]]:
  """MultiRC's answers within questions within passages, all sorted."""
  passages = {}
  for (passage, question, answer), label in rows:
    questions = passages.setdefault(passage, {})
    questions.setdefault(question, []).append({"idx": answer, "label": label})
  return [
    {
      "idx": passage,
      "passage": {
        "questions": [
          {"idx": question, "answers": answers}
          for question, answers in questions.items()
        ]
      },
    }
    for passage, questions in passages.items()
  ]
