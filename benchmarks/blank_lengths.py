"""Measures whether blanks are filled with as many words as they ask for.

    zoo train --gin_file=runs/miniature_pretrain.gin \
      --gin_file=objectives/blanks.gin \
      --gin.Blanks.sizes="(1, 2, 4, 8, 16, 32)" \
      --gin.TASK_FEATURE_LENGTHS="{'inputs': 64, 'targets': 48}" \
      --gin.TRAIN_STEPS=6000 --gin.BATCH_SIZE=16 \
      --gin.MODEL_DIR="'runs/blanks'"
    python benchmarks/blank_lengths.py --checkpoint runs/blanks

Of held-out documents of the miniature corpus, stretches of as many words are
taken, N of them are hidden behind `_N_`, and `zoo infer` fills the blank,
greedily unless further options, which it is given, say how. The table has, for
each N, the mean number of words that were filled in and the share of blanks
whose number is within a third of N.
"""

import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile

from tasks.miniature import source
from tasks.miniature.documents import domains


def blanks(
  sizes: list[int], number: int, length: int, seed: int
) -> list[tuple[int, str]]:
  """Makes texts of a length with a blank, and the words that it asks for."""
  dice = random.Random(seed)
  start = source.NUM_DOCUMENTS["train"]
  count = source.NUM_DOCUMENTS["validation"]
  words = " ".join(
    domains.documents("chronicle", start=start, count=count)
  ).split()
  made = []
  for size in sizes:
    for _ in range(number):
      first = dice.randrange(len(words) - length)
      text = words[first : first + length]
      place = dice.randrange(length - size + 1)
      text[place : place + size] = [f"_{size}_"]
      made.append((size, " ".join(text)))
  return made


def fill(checkpoint: str, texts: list[str], options: list[str]) -> list[str]:
  """Returns what `zoo infer` writes into the blank of each text."""
  with tempfile.TemporaryDirectory() as folder:
    path = pathlib.Path(folder) / "texts.jsonl"
    path.write_text("".join(json.dumps({"inputs": t}) + "\n" for t in texts))
    output = path.with_name("answers.jsonl")
    subprocess.run(
      [
        *(sys.executable, "-m", "transformer_zoo.cli.main", "infer"),
        *("--checkpoint", checkpoint, str(path), "--output", str(output)),
        *options,
      ],
      check=True,
    )
    lines = output.read_text().splitlines()
  return [json.loads(line)["prediction"] for line in lines]


def main() -> None:
  """Prints a line of the table for each size."""
  parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
  parser.add_argument("--checkpoint", required=True)
  parser.add_argument("--sizes", type=int, nargs="+", default=[1, 2, 4, 8, 16])
  parser.add_argument("--texts", type=int, default=100)
  parser.add_argument(
    "--words",
    type=int,
    default=43,  # About the 56 tokens of a text in the training above.
    help="words of a text",
  )
  parser.add_argument("--seed", type=int, default=0)
  arguments, options = parser.parse_known_args()
  made = blanks(
    arguments.sizes, arguments.texts, arguments.words, arguments.seed
  )
  filled = fill(arguments.checkpoint, [text for _, text in made], options)
  print("| N | words, mean | fewest | most | within a third, % |")
  print("|---|---|---|---|---|")
  for size in arguments.sizes:
    words = [
      len(text.split())
      for (asked, _), text in zip(made, filled, strict=True)
      if asked == size
    ]
    near = sum(abs(number - size) <= size / 3 for number in words)
    print(
      f"| {size} | {sum(words) / len(words):.1f} | {min(words)} | {max(words)}"
      f" | {100 * near / len(words):.0f} |"
    )
  for (_, text), words in list(zip(made, filled, strict=True))[
    :: len(made) // 5
  ]:
    print(f"{text}\n  -> {words}")


if __name__ == "__main__":
  main()
