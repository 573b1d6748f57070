"""Beam jobs from files of pages to files of pages."""

from collections.abc import Callable, Iterator, Sequence
import gzip
import json
import re
from typing import Any
import uuid

import apache_beam as beam
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems
from apache_beam.metrics import Metrics
from apache_beam.options import pipeline_options
from apache_beam.runners import runner as beam_runner

from transformer_zoo.cleaning import duplicates
from transformer_zoo.cleaning import places
from transformer_zoo.cleaning import reading
from transformer_zoo.cleaning.reading import Page
from transformer_zoo.cleaning.rules import Counts
from transformer_zoo.cleaning.rules import TOTALS
from transformer_zoo.errors import nearest
from transformer_zoo.errors import UserError

# Beam's in-process runner. What Beam calls DirectRunner looks for a Go program
# on the network first.
LOCAL = "local"
_FN_API = "apache_beam.runners.portability.fn_api_runner.FnApiRunner"
_PLAIN = CompressionTypes.UNCOMPRESSED
_LEVEL = 5  # of gzip; 9 takes twice as long for one percent
# An error of a worker process comes back as text, with its trace.
_SENTENCE = re.compile(r"UserError: (.*)")
_PLACE = re.compile(r" \[while running .*")


def make_runner(name: str) -> Any:
  """Returns Beam's runner of a name or import path, or the local one.

  Raises:
    UserError: there is none.
  """
  known = [LOCAL, *pipeline_options.StandardOptions.KNOWN_RUNNER_NAMES]
  try:
    return beam_runner.create_runner(_FN_API if name == LOCAL else name)
  except (ValueError, ImportError, AttributeError) as error:
    raise UserError(
      f"Beam has no runner {name!r}, or what it needs is not installed"
      f"{nearest(name, known)}"
    ) from error


class _Parser(pipeline_options._BeamArgumentParser):
  def error(self, message: str) -> None:
    raise UserError(f"Beam: {message}.")


def make_options(flags: Sequence[str], runner: str) -> Any:
  """Returns Beam's options of command-line flags.

  Args:
    flags: `--name=value`, or `--name` and `value`.
    runner: the local one takes no flag that Beam does not know; others may.

  Raises:
    UserError: a flag is no option of Beam, or has a value that is not allowed.
  """
  parser = _Parser(allow_abbrev=False, add_help=False)
  for kind in pipeline_options.PipelineOptions.__subclasses__():
    kind._add_argparse_args(parser)
  _, unknown = parser.parse_known_args(list(flags))
  if unknown and runner == LOCAL:
    name = unknown[0].partition("=")[0]
    raise UserError(
      f"{name!r} is an option neither of this command nor of Beam"
      f"{nearest(name, parser._option_string_actions)}"
    )
  return pipeline_options.PipelineOptions(list(flags))


class Steps:
  """Stages that run one after the other, and what each counted.

  Attributes:
    counts: a counter for each stage so far: (namespace, name) -> number.
  """

  def __init__(
    self,
    work: str,
    *,
    runner: Any,
    options: Any,
    num_shards: int,
    skip_bad: bool,
    report: Callable[[str], None],
  ):
    self._work = work
    self._runner = runner
    self._options = options
    self._num_shards = num_shards
    self._skip_bad = skip_bad
    self._report = report
    self.counts: list[Counts] = []

  def run(
    self,
    name: str,
    stage: Callable[[beam.PCollection], beam.PCollection],
    files: Sequence[str],
  ) -> list[str]:
    """Runs a stage over files of pages; returns the files that it wrote.

    Raises:
      UserError: a file has bad rows or is damaged.
    """
    pipeline = _make_pipeline(self._runner, self._options)
    pages = (
      pipeline
      | "files" >> beam.Create(list(files))
      | "spread" >> beam.Reshuffle()
      | "read" >> beam.FlatMap(_read, self._skip_bad)
    )
    output = f"{self._work}/{name}/pages"
    _write(stage(pages), output, self._num_shards)
    self.counts.append(run(pipeline))
    read, written = (
      self.counts[-1][TOTALS, f"pages_{what}"] for what in ("read", "written")
    )
    self._report(f"{name}: {read:,} pages read, {written:,} left")
    return places.find([f"{output}-*"]) if written else []


def _make_pipeline(runner: Any, options: Any) -> beam.Pipeline:
  try:
    return beam.Pipeline(runner=runner, options=options)
  except ValueError as error:  # options that the runner needs
    raise UserError(" ".join(str(error).split())) from error


def count(counts: Counts) -> None:
  """Adds to Beam's counters."""
  for (namespace, name), number in counts.items():
    Metrics.counter(namespace, name).inc(number)


def page_key(page: Page) -> bytes:
  """Returns `duplicates.page_key` of a page."""
  return duplicates.page_key(page["text"], page.get("url") or "")


def run(pipeline: beam.Pipeline) -> Counts:
  """Runs a pipeline; returns what it counted.

  Raises:
    UserError: a worker raised one, or a runner other than the local one failed.
  """
  try:
    result = pipeline.run()
    result.wait_until_finish()
  except Exception as error:
    text = f"{type(error).__name__}: {error}"
    if found := _SENTENCE.search(text):
      raise UserError(_PLACE.sub("", found[1])) from error
    runner = type(pipeline.runner).__name__
    if _FN_API.endswith(runner):
      raise
    raise UserError(f"{runner} failed: {text.splitlines()[0]}") from error
  counters = result.metrics().query()["counters"]
  return Counts(
    {
      (counter.key.metric.namespace, counter.key.metric.name): counter.result
      for counter in counters
    }
  )


def _read(path: str, skip_bad: bool) -> Iterator[Page]:
  on_bad = _count_bad if skip_bad else reading.refuse
  try:
    with FileSystems.open(path, compression_type=_PLAIN) as file:
      for page in reading.read_pages(file, path, on_bad):
        _count_size("read", page)
        yield page
  except OSError as error:
    on_bad(f"The file {path!r} cannot be read ({error})")


def _count_bad(sentence: str) -> None:
  del sentence  # A counter holds no text.
  count(Counts({(TOTALS, "bad_rows"): 1}))


def _count_size(what: str, page: Page) -> None:
  lines = len(page["text"].splitlines())
  count(
    Counts({(TOTALS, f"pages_{what}"): 1, (TOTALS, f"lines_{what}"): lines})
  )


def _write(pages: beam.PCollection, output: str, num_shards: int) -> None:
  """Writes every page to the shard that its key says, in the order of keys.

  A shard without pages is no file: tasks refuse empty ones.
  """
  _ = (
    pages
    | "shard" >> beam.Map(_with_shard, num_shards)
    | "by shard" >> beam.GroupByKey()
    | "write" >> beam.Map(_write_shard, output)
  )


def _with_shard(page: Page, num_shards: int):
  return int.from_bytes(page_key(page)[-4:]) % num_shards, page


def _write_shard(item, output: str) -> None:
  """Writes aside and renames: a shard that is retried is there once."""
  shard, pages = item
  path = f"{output}-{shard:05d}.jsonl.gz"
  aside = f"{path}.{uuid.uuid4().hex}"
  with FileSystems.create(aside, compression_type=_PLAIN) as file:
    # Without name and time: the same pages make the same file.
    with gzip.GzipFile("", "wb", _LEVEL, file, mtime=0) as packed:
      for page in sorted(pages, key=order):
        _count_size("written", page)
        packed.write(json.dumps(page, ensure_ascii=False).encode() + b"\n")
  if FileSystems.exists(path):
    FileSystems.delete([path])
  FileSystems.rename([aside], [path])


def order(page: Page) -> tuple[bytes, str]:
  """Returns what pages are sorted by, copies of one another too."""
  return page_key(page), json.dumps(page, sort_keys=True)
