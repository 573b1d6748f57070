"""Cleans web pages as C4 was cleaned, into files that pre-training tasks read.

A gin file has the rules, cleaning/c4.gin by default; what each drops is in a
table and in report.json. The runner is local, in this process, unless --runner
names one of Beam; flags that are not listed here go to Beam.
"""

import argparse
import contextlib

from transformer_zoo.cli import common

SUMMARY = "clean web pages as C4 was cleaned"
EXAMPLE = (
  "zoo clean --input 'crawl/*.warc.wet.gz' --bad_words words.txt "
  "--output_dir cleaned"
)
# Flags that stand for a binding of the same name.
_FILES = {
  "bad_words": "a word or phrase a line; pages with one are dropped",
  "host_names": "a host a line, or RealNews' JSON; others are dropped",
  "urls": "an address a line; pages of others are dropped",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
  """Adds input and output, the lists, the runner, and the gin arguments."""
  parser.set_defaults(takes_more=True)
  parser.add_argument(
    "--input",
    required=True,
    action="append",
    metavar="PATTERN",
    help="WET or JSON Lines files, gzip or not; repeatable",
  )
  parser.add_argument(
    "--output_dir",
    required=True,
    metavar="DIR",
    help="the folder of the output, which must be absent or empty",
  )
  for name, text in _FILES.items():
    parser.add_argument(f"--{name}", metavar="FILE", help=text)
  parser.add_argument(
    "--runner",
    default="local",
    metavar="NAME",
    help="the runner: local, or the name of a runner of Beam",
  )
  parser.add_argument(
    "--num_shards",
    type=int,
    default=8,
    help="the number of shards of the output",
  )
  parser.add_argument(
    "--skip_bad_rows",
    action="store_true",
    help="skip bad rows and damaged files, and count them",
  )
  common.add_gin_arguments(parser)


def run(arguments: argparse.Namespace) -> None:
  """Cleans; prints a line for each stage and the table."""
  given = {name: getattr(arguments, name) for name in _FILES}
  common.load_gin(
    arguments,
    "clean",
    gin_files=arguments.gin_file or ["cleaning/c4.gin"],
    extra=[f"clean.{name}={path!r}" for name, path in given.items() if path],
    given=["inputs", "output_dir"],
  )
  from transformer_zoo import config

  # Beam logs each failure with a trace, and which cloud packages are missing.
  quiet = arguments.runner == "local"
  with common.quiet_stderr() if quiet else contextlib.nullcontext():
    report = config.call(
      "clean",
      inputs=arguments.input,
      output_dir=arguments.output_dir,
      runner=arguments.runner,
      beam_options=arguments.more,
      num_shards=arguments.num_shards,
      skip_bad_rows=arguments.skip_bad_rows,
      configuration=config.operative_config(),
      report=print,
    )
  report.print()
