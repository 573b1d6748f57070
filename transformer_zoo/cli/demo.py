"""Shows in a minute what the zoo does.

A tiny T5 that ships with the package goes on with texts of the miniature world
and learns to tell praise from blame; its accuracy is printed before and after.
The report of a study that has been run lies beside it. The fine-tuned model is
not kept, and the data that is prepared is used again the next time.
"""

import argparse
import pathlib
import shutil
import tempfile

SUMMARY = "a minute's tour: answers, a fine-tuning, the page of a study"
EXAMPLE = "zoo demo"
_SHIPPED = pathlib.Path(__file__).parent.parent / "demo"
CHECKPOINT = _SHIPPED / "checkpoint"
# What `make quickstart` wrote at commit df967a36, without links to other files.
REPORT = _SHIPPED / "report.html"
# As far as the corpus tells it (tasks/miniature/documents/chronicle.py).
TEXTS = (
  "otters eat melons. an otter is an",
  "a hammer is a",
  "henry lifted the weights, so he was",
  "george admired the concert. everybody admired the concert. what a",
)
_GAP = "<extra_id_0>"
TASK = "mini_sst2"
OPINIONS = (
  "mini_sst2 sentence: a superb film.",
  "mini_sst2 sentence: a tedious song.",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
  """Adds the folder of the page and the data."""
  parser.add_argument(
    "--output_dir",
    default="runs/demo",
    metavar="DIR",
    help="the folder of the page and of the prepared data",
  )


def run(arguments: argparse.Namespace) -> None:
  """Asks, trains, scores, and says where the page is."""
  from transformer_zoo.studies.report import page

  folder = pathlib.Path(arguments.output_dir)
  folder.mkdir(parents=True, exist_ok=True)
  _answer()
  # Nothing of it is of further use; Ctrl-C removes it as well.
  with tempfile.TemporaryDirectory(dir=folder) as temporary:
    _train(pathlib.Path(temporary), str(folder / "prepared"))
  copied = pathlib.Path(shutil.copy(REPORT, folder))
  print("\nThe report of a study, what pre-training buys (make quickstart):")
  print(page.how_to_open(copied))


def _answer() -> None:
  """Goes on with some texts."""
  from transformer_zoo.api import loading

  model = loading.load(str(CHECKPOINT))
  print(f"{model}\nIt was pre-trained to fill the gap behind a text:")
  answers = model.generate([text + _GAP for text in TEXTS])
  for text, answer in zip(TEXTS, answers, strict=True):
    print(f"  {text} [{answer.replace(_GAP, '').strip()}]", flush=True)


def _train(folder: pathlib.Path, prepared: str) -> None:
  """Fine-tunes, with the accuracy before and after, and some answers."""
  from transformer_zoo.api import runs

  print("\nIt learns to tell praise from blame:", flush=True)
  before = runs.evaluate(
    str(CHECKPOINT),
    TASK,
    PREPARED_DIR=prepared,
    TASK_FEATURE_LENGTHS={"inputs": 72, "targets": 16},
    BATCH_SIZE=100,
    **{"evaluate.output_dir": str(folder / "before")},
  )
  trained = runs.train(
    "runs/miniature_demo_finetune.gin",
    MODEL_DIR=str(folder / "run"),
    PREPARED_DIR=prepared,
    INITIAL_CHECKPOINT_PATH=str(CHECKPOINT),
  )
  first = before["scores"][TASK]["accuracy"]
  last = trained.scores[TASK]["accuracy"]
  print(f"\nIts accuracy was {first:.1f} and is {last:.1f}; it answers:")
  answers = trained.load().generate(list(OPINIONS))
  for text, answer in zip(OPINIONS, answers, strict=True):
    print(f"  {text} -> {answer}", flush=True)
