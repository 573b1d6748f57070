"""The stages of a cleaning: from pages to pages, in Beam.

What is sent between workers is pages, their keys (`duplicates.page_key`) and
digests of spans; no function has a corpus in memory.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

import apache_beam as beam

from transformer_zoo.cleaning import addresses
from transformer_zoo.cleaning import duplicates
from transformer_zoo.cleaning.jobs import count
from transformer_zoo.cleaning.jobs import order
from transformer_zoo.cleaning.jobs import page_key
from transformer_zoo.cleaning.languages import LanguageFilter
from transformer_zoo.cleaning.pages import PageCleaning
from transformer_zoo.cleaning.reading import Page
from transformer_zoo.cleaning.rules import Counts
from transformer_zoo.cleaning.rules import DISCARDED
from transformer_zoo.cleaning.rules import LINES
from transformer_zoo.cleaning.rules import PAGES


def select_and_clean(
  pages: beam.PCollection,
  *,
  cleaning: PageCleaning,
  hosts: addresses.Hosts | None,
  urls: Sequence[str],
  one_page_per_url: bool,
) -> beam.PCollection:
  """Chooses pages by their addresses and applies the rules of one page.

  Args:
    pages: The pages as they were read.
    cleaning: the rules.
    hosts: pages of others are dropped.
    urls: files with addresses; pages of others are dropped.
    one_page_per_url: whether the newest page of an address is kept alone.

  Returns:
    The pages that are left, cleaned.
  """
  if hosts is not None:
    pages |= "hosts" >> beam.Filter(_is_of_hosts, hosts)
  if one_page_per_url:
    pages |= "by address" >> beam.Map(_with_address)
    pages |= "pages of address" >> beam.GroupByKey()
    pages |= "newest" >> beam.MapTuple(_newest)
  if urls:
    listed = (
      pages.pipeline
      | "url files" >> beam.Create(list(urls))
      | "urls" >> beam.FlatMap(_read_urls)
    )
    pages |= "with address" >> beam.Map(_with_address)
    pages = {"pages": pages, "listed": listed} | beam.CoGroupByKey()
    pages |= "listed" >> beam.FlatMapTuple(_of_urls)
  return pages | "rules" >> beam.FlatMap(_cleaned, cleaning)


def drop_duplicates(
  pages: beam.PCollection, *, cleaning: PageCleaning
) -> beam.PCollection:
  """One round: discards what other pages keep, as far as that is undisputed.

  Args:
    pages: The pages without repeats within a page.
    cleaning: The cleaning of one page, with the spans that may not occur twice.

  Returns:
    The pages that are left; what lost a span has been settled anew.
  """
  length = cleaning.spans.length
  keyed = (
    pages
    | "key" >> beam.Map(lambda page: (page_key(page), page))
    | "copies" >> beam.GroupByKey()
    | "one of copies" >> beam.MapTuple(_keep_one)
  )
  claims = (
    keyed
    | "spans" >> beam.FlatMapTuple(partial(_places, spans=cleaning.spans))
    | "by span" >> beam.GroupByKey()
    | "claims" >> beam.FlatMapTuple(duplicates.claims_of_pages)
  )
  kept = (
    claims
    | "by page" >> beam.GroupByKey()
    | "undisputed" >> beam.FlatMapTuple(partial(_spans_kept, length=length))
  )
  given_up = (
    claims
    | "given up" >> beam.Filter(lambda item: not item[1].kept)
    | "of span" >> beam.MapTuple(lambda key, c: (c.span, (key, c.start)))
  )
  starts = (
    {"kept": kept, "given_up": given_up}
    | "decisions" >> beam.CoGroupByKey()
    | "starts" >> beam.FlatMapTuple(_decide)
  )
  return (
    {"pages": keyed, "starts": starts}
    | "pages and starts" >> beam.CoGroupByKey()
    | "discard" >> beam.FlatMapTuple(partial(_discard, cleaning=cleaning))
  )


def keep_language(
  pages: beam.PCollection, *, language: LanguageFilter | None
) -> beam.PCollection:
  """Keeps the pages of one language, or all."""
  if language is None:
    return pages
  return pages | "language" >> beam.Filter(_is_in_language, language)


def _read_urls(path: str) -> Iterator[tuple[str, None]]:
  with beam.io.filesystems.FileSystems.open(path) as file:
    for line in file:
      if url := line.decode(errors="replace").strip():
        yield addresses.normalized(url), None


def _is_of_hosts(page: Page, hosts: addresses.Hosts) -> bool:
  return _counted("host_name", addresses.is_listed(_url(page), hosts))


def _is_in_language(page: Page, language: LanguageFilter) -> bool:
  return _counted("language", language.keeps(page["text"]))


def _with_address(page: Page) -> tuple[str, Page]:
  return addresses.normalized(_url(page)) or page["text"], page


def _newest(address: str, pages: Iterable[Page]) -> Page:
  del address
  pages = sorted(pages, key=lambda p: (p.get("timestamp") or "", order(p)))
  count(Counts({(PAGES, "older"): len(pages) - 1}))
  return pages[-1]


def _of_urls(address: str, joined: Mapping[str, list]) -> Iterator[Page]:
  del address
  for page in joined["pages"]:
    if _counted("url", bool(joined["listed"])):
      yield page


def _cleaned(page: Page, cleaning: PageCleaning) -> Iterator[Page]:
  text, counts = cleaning.clean(page["text"], _url(page))
  count(counts)
  if text is not None:
    yield {**page, "text": text}


def _keep_one(key: bytes, copies: Iterable[Page]) -> tuple[bytes, Page]:
  """Keeps one of the pages with the same text and address."""
  copies = sorted(copies, key=order)
  count(Counts({(PAGES, "copy"): len(copies) - 1}))
  return key, copies[0]


def _places(
  key: bytes, page: Page, spans: duplicates.DuplicateSpans
) -> Iterator[tuple[bytes, tuple[bytes, int]]]:
  for start, span in enumerate(spans.spans(page["text"])):
    yield span, (key, start)


def _spans_kept(
  key: bytes, claims: Iterable[duplicates.Claim], length: int
) -> Iterator[tuple[bytes, None]]:
  del key
  for span in duplicates.spans_kept(claims, length):
    yield span, None


def _decide(
  span: bytes, joined: Mapping[str, list]
) -> Iterator[tuple[bytes, int]]:
  del span
  if joined["kept"]:
    yield from joined["given_up"]


def _discard(
  key: bytes, joined: Mapping[str, list], cleaning: PageCleaning
) -> Iterator[Page]:
  del key
  (page,), starts = joined["pages"], joined["starts"]
  if not starts:
    yield page
    return
  text = cleaning.spans.discard(page["text"], starts)
  lines = page["text"].count("\n") - text.count("\n")
  count(Counts({DISCARDED: len(starts), (LINES, "duplicate"): lines}))
  yield from _cleaned({**page, "text": text}, cleaning)


def _counted(rule: str, keeps: bool) -> bool:
  """Returns `keeps`, and counts a page that it drops."""
  count(Counts({(PAGES, rule): not keeps}))
  return keeps


def _url(page: Page) -> str:
  return page.get("url") or ""
