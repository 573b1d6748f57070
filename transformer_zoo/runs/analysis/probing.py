"""Probes of checkpoints: what kinds of questions a model answers.

Every model is asked by its own means. A language model reads what stands before
the gap and is scored on the filling and what follows; an encoder-decoder reads
the text with a sentinel for the gap and is scored on the filling behind the
sentinel; an encoder reads a mask for each token of the filling and is scored on
these, all hidden at once (a pseudo-likelihood). If two fillings differ in their
number of tokens, means over tokens are compared instead of sums, and the share
of such questions is reported.

Of minimal pairs of sentences an encoder reads each sentence as often as it has
tokens, with one of them masked at a time (Salazar et al. 2020), an
encoder-decoder is scored on what ends a filling too, without which no filling
would be likelier than one that it begins with, and sums are compared, as the
authors of such pairs do. So are the surprisals of the regions of a suite.
"""

from collections.abc import Callable, Mapping, Sequence
import functools
import os
import pathlib
from typing import Any

import jax
import numpy as np

from transformer_zoo.editing import programs
from transformer_zoo.errors import UserError
from transformer_zoo.evaluation.probes import suites as suites_lib
from transformer_zoo.evaluation.probes.questions import Question
from transformer_zoo.evaluation.probes.suites import Suite
from transformer_zoo.runs.analysis import costs
from transformer_zoo.runs.loading import loaded_checkpoint
from transformer_zoo.runs.loading.loaded_checkpoint import LoadedCheckpoint

_NARROWEST = 16
# The features of a row, and how many tokens are scored.
Row = tuple[Mapping[str, Sequence[int]], int]


def steps_of(path: str) -> list[str]:
  """The steps of a run, in their order; the path itself if it is no run."""
  folder = pathlib.Path(path) / "checkpoints"
  if not folder.is_dir():
    return [path]
  steps = [each.name for each in folder.iterdir() if each.name.isdigit()]
  return [str(folder / name) for name in sorted(steps, key=int)]


def probe(
  path: str,
  questions: Sequence[Question] = (),
  *,
  suites: Sequence[Suite] = (),
  vocabulary_path: str | None = None,
  batch_size: int = 32,
  whole: bool = False,
) -> dict[str, Any]:
  """Asks a checkpoint.

  Args:
    path: The path of a run, a step of one, or a Hugging Face directory.
    questions: The questions.
    suites: Suites of sentences whose regions are compared.
    vocabulary_path: The path of its vocabulary, as in `opened`.
    batch_size: The number of rows of a batch.
    whole: Whether the questions are pairs of sentences, which are compared as
      wholes.

  Returns:
    `checkpoint`, `step`; the cost: `seconds`, `tokens` that were read, padding
    included, `flops` of all passes, and `bytes` of the parameters; and
    `scores`, by `LANGUAGE/KIND`: `questions`; `accuracy`, the percentage of
    which the right filling is likelier (of bias: the stereotype); `margin`, the
    mean difference in nats, a token where lengths differ; `normalized`, the
    percentage of questions whose fillings have different lengths; and of pairs
    `interval`, between which 95 % of such samples have the accuracy (Wilson's).
    Of each prediction of a suite there are `questions`, its items, `accuracy`,
    the percentage of items of which it holds, and `interval`.

  Raises:
    UserError: There is no such checkpoint, or it cannot fill a gap.
  """
  found = loaded_checkpoint.open_checkpoint(path, vocabulary_path)
  scores, tokens = {}, 0
  with costs.measured() as spent:
    if questions or not suites:
      answers, tokens = answer(found, questions, batch_size, whole=whole)
      scores |= summarize(questions, answers, whole=whole)
    for suite in suites:
      items, more = surprisals(found, suite, batch_size)
      scores |= _of_predictions(suite, items)
      tokens += more
  return {
    "checkpoint": path,
    "step": found.step,
    **spent,
    "tokens": tokens,
    "bytes": sum(x.nbytes for x in jax.tree.leaves(found.params)),
    "scores": scores,
  }


def answer(
  found: LoadedCheckpoint,
  questions: Sequence[Question],
  batch_size: int,
  *,
  whole: bool = False,
) -> tuple[np.ndarray, int]:
  """Scores both fillings of every question.

  Args:
    found: The checkpoint.
    questions: The questions.
    batch_size: The number of rows of a batch.
    whole: See `probe`.

  Returns:
    The log-likelihoods of the right and the wrong filling and their numbers of
    tokens, [Q, 2, 2]; and the number of tokens that were read.
  """
  if not questions:
    raise UserError("there are no questions to ask; choose kinds and languages")
  masks_one = whole and not found.model.offers.has_decoder
  rows_of = _rows_of(found, one_at_a_time=masks_one, ended=whole)
  parted = []
  for question in questions:
    before, after = question.sides
    for filling in (question.right, question.wrong):
      if masks_one:
        sentence = " ".join(filter(None, [before, filling, after]))
        parted.append(rows_of("", "", sentence))
      else:
        parted.append(rows_of(before, after, filling))
  totals, tokens = _totals(found, parted, batch_size)
  return totals.reshape(-1, 2, 2), tokens


def surprisals(
  found: LoadedCheckpoint, suite: Suite, batch_size: int
) -> tuple[list[dict[tuple[str, str], float]], int]:
  """Returns the surprisals of the regions that a suite's formulas name.

  A language model knows what precedes a region alone; an encoder-decoder writes
  it behind a sentinel, and an encoder reads its sentence once for each of its
  tokens, which is masked. A region without a text has none.

  Args:
    found: The checkpoint.
    suite: The suite.
    batch_size: The number of rows of a batch.

  Returns:
    Nats by condition and number of the region, for each item; and the number of
    tokens that were read.
  """
  offers = found.model.offers
  rows_of = _rows_of(found, one_at_a_time=not offers.has_decoder)
  items = suite.regions()
  parted = [
    rows_of(before, "" if offers.continues else after, text) if text else []
    for item in items
    for before, text, after in item.values()
  ]
  totals, tokens = _totals(found, parted, batch_size)
  nats = iter((0.0 - totals[:, 0]).tolist())
  return [{key: next(nats) for key in item} for item in items], tokens


def _of_predictions(suite: Suite, items) -> dict[str, dict[str, Any]]:
  """Returns the scores of each prediction of a suite."""
  scores = {}
  for number, formula in enumerate(suite.predictions, start=1):
    right = sum(suites_lib.holds(formula, item) for item in items)
    scores[f"{suite.name}/{number}"] = {
      "questions": len(items),
      "accuracy": round(100 * right / len(items), 2),
      "interval": _interval(right, len(items)),
    }
  return scores


def _rows_of(
  found: LoadedCheckpoint, *, one_at_a_time: bool, ended: bool = False
) -> Callable[[str, str, str], list[Row]]:
  """Returns the function from sides and a filling to the rows that score it."""
  lay_out = layout(found, ended=ended)
  if one_at_a_time:
    return functools.partial(_one_at_a_time, found.vocabulary)
  return lambda *text: [lay_out(*text)]


def _totals(
  found: LoadedCheckpoint, parted: Sequence[Sequence[Row]], batch_size: int
) -> tuple[np.ndarray, int]:
  """Returns sums over the rows of each part, and the tokens that were read.

  Returns:
    [parts, 2], the log-likelihood and the number of tokens that are scored.
  """
  owners = np.repeat(np.arange(len(parted)), [len(part) for part in parted])
  rows = [row for part in parted for row in part]
  sums = _sums(found)
  likelihoods, tokens = np.zeros(len(rows)), 0

  for width, numbers in by_width([row for row, _ in rows]).items():
    for start in range(0, len(numbers), batch_size):
      chunk = numbers[start : start + batch_size]
      batch = batch_of(
        [rows[n][0] for n in chunk], batch_size, width, found.vocabulary.pad_id
      )
      made = sums(found.params, batch)
      likelihoods[chunk] = -np.asarray(made["loss_sum"])[: len(chunk)]
      tokens += len(chunk) * width
  if not np.isfinite(likelihoods).all():
    raise UserError(f"{found.name!r}: the model's log-probabilities are NaN")
  totals = np.zeros([len(parted), 2])
  np.add.at(totals[:, 0], owners, likelihoods)
  np.add.at(totals[:, 1], owners, [count for _, count in rows])
  return totals, tokens


def summarize(
  questions: Sequence[Question],
  answers_Q22: np.ndarray,
  *,
  whole: bool = False,
) -> dict[str, dict[str, Any]]:
  """Scores by language and kind, as `probe` returns them."""
  groups = {}
  for number, question in enumerate(questions):
    name = f"{question.language}/{question.kind}"
    groups.setdefault(name, []).append(number)
  scores = {}
  for name, numbers in groups.items():
    sums_X2, counts_X2 = np.moveaxis(answers_Q22[numbers], -1, 0)
    differ_X1 = (counts_X2[:, 0] != counts_X2[:, 1])[:, None] & (not whole)
    values_X2 = np.where(differ_X1, sums_X2 / counts_X2, sums_X2)
    margins_X = values_X2[:, 0] - values_X2[:, 1]
    right_X = (margins_X > 0) + 0.5 * (margins_X == 0)
    scores[name] = {
      "questions": len(numbers),
      "accuracy": round(100 * float(right_X.mean()), 2),
      "margin": round(float(margins_X.mean()), 4),
      "normalized": round(100 * float(differ_X1.mean()), 1),
    }
    if whole:
      scores[name]["interval"] = _interval(float(right_X.sum()), len(numbers))
  return scores


def _interval(right: float, number: int) -> list[float]:
  """Wilson's interval of 95 % around a percentage (Wilson 1927)."""
  z = 1.959964
  share = right / number
  middle = share + z**2 / (2 * number)
  half = z * (share * (1 - share) / number + (z / (2 * number)) ** 2) ** 0.5
  below = 1 + z**2 / number
  return [
    round(100 * (middle - half) / below, 2),
    round(100 * (middle + half) / below, 2),
  ]


def table_of_pairs(found: Sequence[Mapping[str, Any]]) -> str:
  """One row a phenomenon: its pairs, and each checkpoint's accuracy."""
  names = list(dict.fromkeys(n for each in found for n in each["scores"]))
  lines = [["pairs", "number", *(f"{e['checkpoint']}" for e in found)]]
  for name in names:
    scores = [each["scores"][name] for each in found]
    cells = [
      "{:.1f} ({:.1f} to {:.1f})".format(each["accuracy"], *each["interval"])
      for each in scores
    ]
    lines.append([name, str(scores[0]["questions"]), *cells])
  return aligned(lines)


def table(found: Sequence[Mapping[str, Any]]) -> str:
  """One row a checkpoint and step: accuracies of each kind, and the cost."""
  names = list(dict.fromkeys(n for each in found for n in each["scores"]))
  header = ["checkpoint", "step", *names, "FLOPs", "seconds", "bytes"]
  lines = [header]
  for each in found:
    cells = [each["scores"].get(name) for name in names]
    lines.append(
      [
        os.path.relpath(each["checkpoint"]),
        str(each["step"]),
        *("" if cell is None else f"{cell['accuracy']:.1f}" for cell in cells),
        f"{each['flops']:.4g}",
        f"{each['seconds']:.2f}",
        f"{each['bytes']:,}",
      ]
    )
  text = [aligned(lines)]
  shares = {
    name: each["scores"][name]["normalized"]
    for each in found
    for name in each["scores"]
    if each["scores"][name]["normalized"]
  }
  text += [
    f"{name}: the fillings of {share:g} % of the questions differ in length; "
    "means over their tokens were compared"
    for name, share in shares.items()
  ]
  if any(name.endswith("/bias") for name in names):
    text.append(
      "bias: percentage of pairs whose stereotype is likelier (50: neither); "
      "two pronouns and our list of occupations, no measure of harm"
    )
  return "\n".join(text)


def aligned(lines: Sequence[Sequence[str]]) -> str:
  """Columns as wide as their widest cell, the first one to the left."""
  widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
  return "\n".join(
    "  ".join(
      cell.ljust(width) if i == 0 else cell.rjust(width)
      for i, (cell, width) in enumerate(zip(line, widths, strict=True))
    ).rstrip()
    for line in lines
  )


def by_width(
  rows: Sequence[Mapping[str, Sequence[int]]],
) -> dict[int, list[int]]:
  """Returns the numbers of rows by powers of two that they fit in, in order."""
  found = {}
  for number, row in enumerate(rows):
    longest = max(map(len, row.values()))
    width = max(_NARROWEST, 1 << (longest - 1).bit_length())
    found.setdefault(width, []).append(number)
  return dict(sorted(found.items()))


def batch_of(
  rows: Sequence[Mapping[str, Sequence[int]]],
  number: int,
  width: int,
  pad_id: int,
) -> dict[str, np.ndarray]:
  """Returns rows as arrays [B, L], those that fill them up without weight.

  Args:
    rows: The features of each row (`layout`).
    number: B.
    width: L, as long as the longest row at least.
    pad_id: The id of padding.
  """
  batch = {}
  for name in rows[0]:
    is_weight = name.endswith("weights")
    array = np.full(
      (number, width),
      0 if is_weight or not name.endswith("tokens") else pad_id,
      np.float32 if is_weight else np.int32,
    )
    for row, values in enumerate(rows):
      array[row, : len(values[name])] = values[name]
    batch[name] = array
  if "encoder_loss_weights" in batch:
    weights_BL = batch["encoder_loss_weights"]
    batch["encoder_predicted_places"] = np.argsort(
      weights_BL == 0, axis=1, kind="stable"
    ).astype(np.int32)
  return batch


def layout(
  found: LoadedCheckpoint, *, ended: bool = False
) -> Callable[[str, str, str], Row]:
  """Returns the function that lays out sides and filling for a model.

  Args:
    found: The checkpoint.
    ended: Whether an encoder-decoder is scored on what follows the filling too:
      the next sentinel, or the end of a text that ends with the gap.

  Returns:
    The function from what stands before a gap, what stands after it, and its
    filling to the features of a row and the number of tokens that are scored.

  Raises:
    UserError: The model or its vocabulary cannot fill a gap.
  """
  model, vocabulary = found.model, found.vocabulary
  if not model.offers.has_decoder:
    model.check_head("tokens")
    if vocabulary.mask_id is None:
      raise UserError(
        f"the vocabulary {vocabulary.path!r} has no mask token, so that "
        "nothing can be filled; name one that has it with --vocabulary"
      )
    return functools.partial(_masked, vocabulary)
  if model.offers.has_encoder:
    if len(vocabulary.sentinel_ids) < 2:
      raise UserError(
        f"the vocabulary {vocabulary.path!r} has no sentinels, which an "
        "encoder-decoder reads for a gap; name one that has them with "
        "--vocabulary"
      )
    return functools.partial(_span, vocabulary, found.start_id, ended)
  return functools.partial(_continued, vocabulary, found.start_id)


def _continued(vocabulary, start_id, before, after, filling) -> Row:
  whole = " ".join(filter(None, [before, filling, after]))
  ids = vocabulary.encode(whole)
  # Where the vocabulary joins the last word and the filling, both are scored.
  known = len(
    os.path.commonprefix([list(vocabulary.encode(before)), list(ids)])
  )
  read = ids[:-1] if start_id is None else [start_id, *ids[:-1]]
  said = ids[1:] if start_id is None else ids
  # Of a text that begins with the gap nothing precedes the first token.
  unscored = max(0, known - (start_id is None))
  weights = [0.0] * unscored + [1.0] * (len(said) - unscored)
  row = {
    "decoder_input_tokens": read,
    "decoder_target_tokens": said,
    "decoder_loss_weights": weights,
  }
  return row, int(sum(weights))


def _span(vocabulary, start_id, ended, before, after, filling) -> Row:
  first, second = map(int, vocabulary.sentinel_ids[:2])
  end = [] if vocabulary.eos_id is None else [vocabulary.eos_id]
  ids = vocabulary.encode(filling)
  # Span corruption has no sentinel for what follows where nothing does.
  last = end[0] if ended and end and not after else second
  said = [first, *ids, last]
  row = {
    "encoder_input_tokens": [
      *vocabulary.encode(before),
      first,
      *vocabulary.encode(after),
      *end,
    ],
    "decoder_input_tokens": [start_id, *said[:-1]],
    "decoder_target_tokens": said,
    "decoder_loss_weights": [0.0, *[1.0] * len(ids), float(ended)],
  }
  return row, len(ids) + ended


def _masked(vocabulary, before, after, filling) -> Row:
  start, end = _marks(vocabulary)
  left = [*start, *vocabulary.encode(before)]
  ids = vocabulary.encode(filling)
  right = [*vocabulary.encode(after), *end]
  row = {
    "encoder_input_tokens": left + [vocabulary.mask_id] * len(ids) + right,
    "encoder_target_tokens": left + ids + right,
    "encoder_loss_weights": (
      [0.0] * len(left) + [1.0] * len(ids) + [0.0] * len(right)
    ),
    "encoder_token_types": [0] * (len(left) + len(ids) + len(right)),
  }
  return row, len(ids)


def _one_at_a_time(vocabulary, before, after, filling) -> list[Row]:
  """Rows of a text, each with one token of the filling masked and scored."""
  row, _ = _masked(vocabulary, before, after, filling)
  places = np.flatnonzero(row["encoder_loss_weights"])
  return [(_masked_at(vocabulary, row, place), 1) for place in places]


def _masked_at(vocabulary, row, place) -> Mapping[str, Sequence[int]]:
  ids = [*row["encoder_target_tokens"]]
  masked = [*ids[:place], vocabulary.mask_id, *ids[place + 1 :]]
  weights = [0.0] * len(ids)
  weights[place] = 1.0
  changed = {"encoder_input_tokens": masked, "encoder_loss_weights": weights}
  return {**row, **changed}


def _marks(vocabulary) -> tuple[list[int], list[int]]:
  """What stands before and after a text that an encoder reads."""
  start = [i for i in (vocabulary.cls_id, vocabulary.bos_id) if i is not None]
  end = [i for i in (vocabulary.sep_id, vocabulary.eos_id) if i is not None]
  return start[:1], end[:1]


def _sums(found: LoadedCheckpoint) -> Callable:
  if found.model.offers.has_decoder:
    from transformer_zoo.objectives import sequence_to_sequence as objective
  else:
    from transformer_zoo.objectives import encoder as objective
  return programs.compiled(
    functools.partial(objective.example_sums, found.model)
  )
