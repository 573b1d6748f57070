"""Shows which tokens every head of a model attends to in one text.

An encoder reads one text, or two with a tab between them. Another model reads
the text and, after a tab, what it is to write; without a tab what it answers.
Writes a page with a map of each head, `FILE.html`, and the weights for
numpy.load, `FILE.npz`; prints the entropy and the distance of each head, and
the cost of the pass.
"""

import argparse
import pathlib

from transformer_zoo.cli import checkpoint_arguments
from transformer_zoo.cli import common
from transformer_zoo.errors import UserError

SUMMARY = "where the heads of a model attend in a text"
EXAMPLE = (
  "zoo inspect attention runs/first 'mini_sst2 sentence: a fine day.' \\\n"
  "    --output attention"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
  """Adds the checkpoint, the text, the output and the gin arguments."""
  parser.add_argument("checkpoint", nargs=1, metavar="CHECKPOINT")
  parser.add_argument("text", metavar="TEXT")
  parser.add_argument(
    "--output",
    default="attention",
    metavar="FILE",
    help="FILE.html and FILE.npz are written",
  )
  checkpoint_arguments.add_vocabulary_argument(parser)
  common.add_gin_arguments(parser)
  common.add_json_argument(parser)


def run(arguments: argparse.Namespace) -> None:
  """Reads the text with the checkpoint, writes both files, prints the table.

  Raises:
    UserError: There is no folder for the output, or no such checkpoint.
  """
  output = pathlib.Path(arguments.output)
  if not output.parent.is_dir():
    raise UserError(f"there is no folder {str(output.parent)!r} for --output")
  import numpy as np

  text, tab, targets = arguments.text.partition("\t")
  checkpoint_arguments.load_for_inference(
    arguments, ["infer.reading=@AttentionMaps()"]
  )
  from transformer_zoo import config
  from transformer_zoo.runs.analysis import attention_page
  from transformer_zoo.runs.analysis import costs

  if not config.value("CONVERTER").writes:
    example = {"inputs": arguments.text}
  else:
    example = {"inputs": text} | ({"targets": targets} if tab else {})
  (found,) = config.call("infer").answers([example], one_by_one=True)
  maps = found["attention"]
  page = attention_page.render(arguments.text, arguments.checkpoint[0], maps)
  files = [output.with_suffix(ending) for ending in (".html", ".npz")]
  files[0].write_text(page)
  np.savez(files[1], **attention_page.arrays(maps))
  written = sum(file.stat().st_size for file in files)
  spent = {**found["cost"], "bytes": written}
  rows = attention_page.table(maps)
  if arguments.json:
    common.print_json({"heads": rows, "cost": spent})
    return
  width = max(len(row["attention"]) for row in rows)
  print(f"{'attention':{width}}  head  entropy  distance")
  for row in rows:
    distance = "" if row["distance"] is None else f"{row['distance']:8.2f}"
    print(
      f"{row['attention']:{width}}  {row['head']:4}  {row['entropy']:7.3f}  "
      f"{distance}".rstrip()
    )
  print(costs.line(spent))
  print(", ".join(map(str, files)))
