"""Draws the curves of runs in the terminal, while they run.

A folder belongs to a run, to a run that has not begun, or to a study, whose
runs are found below it. Ctrl-C ends the command and leaves the runs alone.
"""

import argparse
import contextlib

from transformer_zoo.errors import UserError

SUMMARY = "draw the curves of one or several runs, while they run"
EXAMPLE = "zoo watch runs/a runs/b --metric 'train/loss' --smooth 0.9"


def add_arguments(parser: argparse.ArgumentParser) -> None:
  """Adds the folders and the choice of what is shown."""
  parser.add_argument("folder", nargs="+", metavar="DIR")
  parser.add_argument(
    "--metric",
    action="append",
    metavar="NAME",
    help="a metric to draw, or a pattern: 'gradient_norm/*'; repeatable",
  )
  parser.add_argument(
    "--smooth",
    type=float,
    default=0.0,
    metavar="WEIGHT",
    help="the weight of the running mean: 0 for no smoothing, 0.9 for much",
  )
  parser.add_argument(
    "--log", action="store_true", help="draw a logarithmic axis"
  )
  parser.add_argument(
    "--once", action="store_true", help="draw the charts once and exit"
  )
  parser.add_argument(
    "--list", action="store_true", help="print the names of all metrics"
  )
  parser.add_argument(
    "--every",
    type=float,
    default=2.0,
    metavar="SECONDS",
    help="the time between two drawings; 2 by default",
  )


def run(arguments: argparse.Namespace) -> None:
  """Draws the curves, once or until all runs have finished.

  Raises:
    UserError: An option has a value that is not allowed, or nothing is recorded
      of what is to be drawn.
  """
  if not 0 <= arguments.smooth < 1:
    raise UserError(
      f"--smooth is {arguments.smooth:g}; it must be 0 or more and below 1"
    )
  for folder in arguments.folder:
    if "://" in folder:
      raise UserError(f"{folder!r} is a URL; copy its *.jsonl into a folder")
  if arguments.every <= 0:
    raise UserError(f"--every is {arguments.every:g}; it must be above 0")
  import rich.console

  from transformer_zoo.curves import runs
  from transformer_zoo.curves import screen as screen_lib

  patterns = arguments.metric or screen_lib.DEFAULT_METRICS
  view = screen_lib.View(patterns, arguments.smooth, arguments.log)
  screen = screen_lib.Screen(arguments.folder, view)
  console = rich.console.Console(highlight=False)
  if not (arguments.once or arguments.list) and console.is_terminal:
    with contextlib.suppress(KeyboardInterrupt):
      screen_lib.show_live(screen, console, arguments.every)
    return
  screen.update()
  if arguments.list:
    print("\n".join(screen.metrics()))
    return
  chosen, missing = runs.choose(patterns, screen.metrics())
  if screen.metrics() and not chosen:
    raise UserError(missing[0])
  if not chosen:
    raise UserError(
      f"nothing is recorded in {', '.join(arguments.folder)} yet: give the "
      "folder of a run or a study; in a terminal and without --once, it is "
      "waited for"
    )
  console.print(screen.draw(console.width, console.height))
