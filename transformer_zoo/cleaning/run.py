"""A cleaning from input files to an output folder that appears whole."""

from collections.abc import Callable, Sequence
import functools

import gin

from transformer_zoo.cleaning import addresses
from transformer_zoo.cleaning import reports
from transformer_zoo.cleaning import rules as rules_lib
from transformer_zoo.cleaning.duplicates import DuplicateSpans
from transformer_zoo.cleaning.languages import LanguageFilter
from transformer_zoo.cleaning.pages import PageCleaning
from transformer_zoo.cleaning.rules import BadWords
from transformer_zoo.cleaning.rules import DISCARDED
from transformer_zoo.cleaning.rules import Rules
from transformer_zoo.errors import UserError


@gin.register
def clean(
  inputs: Sequence[str],
  output_dir: str,
  *,
  rules: Rules | None = None,
  duplicates: DuplicateSpans | None = None,
  language: LanguageFilter | None = None,
  one_page_per_url: bool = False,
  bad_words: str | None = None,
  host_names: str | None = None,
  urls: str | None = None,
  runner: str = "local",
  beam_options: Sequence[str] = (),
  num_shards: int = 8,
  skip_bad_rows: bool = False,
  configuration: str = "",
  report: Callable[[str], None] = lambda line: None,
) -> reports.Report:
  """Cleans pages as C4 was cleaned; cleaning the output changes nothing.

  Rules of a page, then duplicates of all pages, in rounds until a round finds
  none, then the language, which is asked of the text as it will be. The output
  is the same whatever the order of the pages and however they lie in files.

  Args:
    inputs: patterns of files, WET or JSON Lines, gzip or not.
    output_dir: folder to make; local or of any file system of Beam.
    rules: The rules for one page; None to keep pages as they are.
    duplicates: The spans that may not occur twice; None for no such rule.
    language: The language of the pages; None to keep all.
    one_page_per_url: whether of pages with one address the newest is kept.
    bad_words: file with a word or phrase a line, for the rule about them.
    host_names: file with hosts (`addresses.read_hosts`); others are dropped.
    urls: pattern of files with an address a line; others are dropped.
    runner: `local`, or a runner of Beam by name or import path.
    beam_options: flags for Beam.
    num_shards: most files of the output; each fits into a worker's memory.
    skip_bad_rows: whether bad rows and damaged files are passed over and
      counted.
    configuration: written to `config.gin` beside the output.
    report: called with a line for each stage.

  Returns:
    what was read, dropped and written; also in `report.json`.

  Raises:
    UserError: bad input, an output folder with something in it, or options and
      runners that do not exist.
  """
  from transformer_zoo.cleaning import jobs
  from transformer_zoo.cleaning import places
  from transformer_zoo.cleaning import stages

  if num_shards < 1:
    raise UserError(f"num_shards is {num_shards}; it is 1 or more.")
  if bad_words and rules is None:
    raise UserError("A list of bad words is given, and no rules that use it.")
  words = bad_words and BadWords(
    places.read(bad_words, rules_lib.read_words), rules.bad_words_share
  )
  cleaning = PageCleaning(rules, duplicates, words or None)
  first = functools.partial(
    stages.select_and_clean,
    cleaning=cleaning,
    hosts=places.read(host_names, addresses.read_hosts) if host_names else None,
    urls=places.find([urls]) if urls else (),
    one_page_per_url=one_page_per_url,
  )
  again = functools.partial(stages.drop_duplicates, cleaning=cleaning)
  last = functools.partial(stages.keep_language, language=language)
  runs = functools.partial(
    jobs.Steps,
    runner=jobs.make_runner(runner),
    options=jobs.make_options(beam_options, runner),
    num_shards=num_shards,
    skip_bad=skip_bad_rows,
    report=report,
  )
  files = places.find(inputs)
  with places.appearing(output_dir) as work:
    steps = runs(work)
    files, rounds = steps.run("rules", first, files), 0
    while duplicates and (rounds == 0 or steps.counts[-1][DISCARDED]):
      rounds += 1
      files = steps.run(f"duplicates_{rounds}", again, files)
    steps.run("output", last, files)
    found = reports.make_report(steps.counts, rounds)
    places.write(f"{work}/output/report.json", found.as_json())
    if configuration:
      places.write(f"{work}/output/config.gin", configuration)
  return found
