"""Vocabularies learned from text: `zoo train-vocabulary`."""

from collections.abc import Sequence
import dataclasses
import json
import os
import pathlib
import shutil
from typing import Any

from transformer_zoo.data.vocabularies import Vocabulary
from transformer_zoo.data.vocabularies.training import text
from transformer_zoo.data.vocabularies.training import trainers
from transformer_zoo.errors import nearest
from transformer_zoo.errors import UserError

REPORT_FILE = "report.json"
MAX_LINES = 200_000


def train_vocabulary(
  patterns: Sequence[str],
  output_dir: str,
  *,
  kind: str,
  size: int,
  special_tokens: str | None = None,
  extra_ids: int | None = None,
  character_coverage: float = 0.9995,
  byte_fallback: bool = False,
  lower_case: bool = False,
  field: str = "text",
  max_lines: int = MAX_LINES,
  seed: int = 0,
) -> dict[str, Any]:
  """Learns a vocabulary from text, and describes it.

  The same text and arguments give the same files. Memory is bounded by
  `max_lines`, of 2,000 characters at the most: 203,000 lines of Wikipedia take
  1.8 GB as 'unigram', less than 0.5 GB as 'wordpiece' and 'byte_bpe'.

  Args:
    patterns: files or glob patterns; see `text.read_lines`.
    output_dir: a folder that does not exist yet. It gets the vocabulary's files
      (`trainers.train`), which `Vocabulary(output_dir)` reads, and report.json.
    kind: 'unigram', 'bpe', 'wordpiece' or 'byte_bpe'.
    size: pieces, the special ones included, sentinels not.
    special_tokens: The family of special tokens, a key of
      `trainers.SPECIAL_TOKENS[kind]`.
    extra_ids: sentinels that a task adds, for the report; see `Vocabulary`.
    character_coverage: The share of characters that are covered, as in
      `trainers.Settings`.
    byte_fallback: True to spell unknown characters in bytes, as in
      `trainers.Settings`.
    lower_case: True to lower the case, as in `trainers.Settings`.
    field: The field of JSON Lines that has the text.
    max_lines: more are sampled.
    seed: The seed of the sample.

  Returns:
    The content of report.json: the settings, counts of lines and what
    `text.measure_vocabulary` says of lines that were held out.

  Raises:
    UserError: the arguments cannot be meant, the text cannot be read, or it
      does not allow a vocabulary of that size.
  """
  settings = _settings(
    kind, size, special_tokens, character_coverage, byte_fallback, lower_case
  )
  if max_lines < 1:
    raise UserError(
      f"{max_lines} lines are none to learn from; use --max_lines"
    )
  output = pathlib.Path(output_dir)
  if output.exists():
    raise UserError(
      f"{output_dir!r} exists already; name another folder, or delete it"
    )
  files = text.find_files(patterns)
  sample = text.sample(text.read_lines(files, field), max_lines, seed)
  partial = output.with_name(f".{output.name}.{os.getpid()}")
  partial.mkdir(parents=True)
  try:
    trainers.train(sample.lines, settings, partial)
    vocabulary = Vocabulary(partial, extra_ids)
    found = dataclasses.asdict(settings) | {
      "pieces": size,
      "extra_ids": vocabulary.extra_ids,
      "size": vocabulary.size,
      "files": [os.path.basename(path) for path in files],
      "seed": seed,
      "lines": sample.num_lines,
      "lines_learned_from": len(sample.lines),
      "held_out": text.measure_vocabulary(vocabulary, sample.held_out),
    }
    content = json.dumps(found, indent=2, ensure_ascii=False) + "\n"
    (partial / REPORT_FILE).write_text(content, encoding="utf-8")
    partial.rename(output)
  finally:
    shutil.rmtree(partial, ignore_errors=True)
  return found


def _settings(
  kind: str,
  size: int,
  special_tokens: str | None,
  character_coverage: float,
  byte_fallback: bool,
  lower_case: bool,
) -> trainers.Settings:
  if kind not in trainers.KINDS:
    raise UserError(
      f"there is no kind of vocabulary {kind!r}{nearest(kind, trainers.KINDS)}"
    )
  known = trainers.SPECIAL_TOKENS[kind]
  special_tokens = special_tokens or next(iter(known))
  if special_tokens not in known:
    raise UserError(
      f"a vocabulary of kind {kind!r} has no special tokens "
      f"{special_tokens!r}{nearest(special_tokens, known)}"
    )
  if size < 1:
    raise UserError(f"a vocabulary of {size} pieces is empty; give --size")
  if not 0 < character_coverage <= 1:
    raise UserError(
      f"the character coverage is {character_coverage:g}; it is a share of the "
      "text, above 0 and at most 1"
    )
  if byte_fallback and kind not in ("unigram", "bpe"):
    raise UserError(
      f"byte fallback is for unigram and bpe, not for {kind}; leave it out"
    )
  if lower_case and kind == "byte_bpe":
    raise UserError("byte_bpe has no text without case; leave lower case out")
  return trainers.Settings(
    kind, size, special_tokens, character_coverage, byte_fallback, lower_case
  )
