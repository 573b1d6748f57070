"""Answers of an encoder to texts: by a head, or by filling masks.

An input is one text, or several that tabs divide: a pair, a question and its
context, a text and its choices.
"""

import collections
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
import contextlib
import dataclasses
import functools
import os
import re
import types
from typing import Any

from flax import linen as nn
import jax
import numpy as np

from transformer_zoo.checkpoints import checkpoint_sources
from transformer_zoo.corruption.ragged import Ragged
from transformer_zoo.data.features import converters
from transformer_zoo.data.features import forms
from transformer_zoo.data.features import prompts
from transformer_zoo.data.loader.evaluation_split import EvaluationBatch
from transformer_zoo.data.storage import manifest
from transformer_zoo.data.vocabularies import Vocabulary
from transformer_zoo.decoding.options import DecodingOptions
from transformer_zoo.errors import UserError
from transformer_zoo.evaluation.scorers.interface import Scorer
from transformer_zoo.runs.answers import answering
from transformer_zoo.runs.answers import scoring
from transformer_zoo.training.sharding import partitioning as partitioning_lib

Example = Mapping[str, Any]

# The mask in a text, in BERT's spelling or RoBERTa's, whatever the vocabulary.
# The space before it belongs to it, as in RoBERTa's tokenizer.
_MASK = re.compile(r"\s*(?:\[MASK\]|<mask>)")
_OF_ANSWERS = (
  *answering.OF_ANSWERS,
  *("probabilities", "spans", "null_score", "tags", "fillings"),
)


@dataclasses.dataclass(frozen=True)
class HeadAnswers:
  """The answers of a head, or tokens for masks.

  Attributes:
    form: As `PreparedTask.form`; None fills masks.
    scorer: Reads the head; None fills masks.
    num_fillings: The number of tokens that are named for each mask.
    pairs: Whether an example without a second text is refused, because the
      model was trained on pairs alone.
  """

  form: Mapping[str, Any] | None
  scorer: Scorer | None
  num_fillings: int
  pairs: bool = False

  @classmethod
  def of(
    cls,
    model: nn.Module,
    converter: converters.Encoder,
    checkpoint: str | os.PathLike[str],
    mixture_or_task_name: str | None,
    prepared_dir: str,
    *,
    scorer: Callable[..., Scorer] | None,
    num_fillings: int,
  ) -> "HeadAnswers":
    """Returns the answers of a model, with the names of its classes.

    Classes and tags that the checkpoint does not name, or several of them
    alike, are called by their numbers.

    Args:
      model: The encoder, or an ensemble.
      converter: The layout of a batch, which names the form.
      checkpoint: The path of the checkpoint.
      mixture_or_task_name: The name of the task that the model was trained on;
        None if it is unknown.
      prepared_dir: The folder of prepared data, which need not be there.
      scorer: See `scoring.make_encoder_scorer`.
      num_fillings: See the class.

    Raises:
      UserError: The model has not the head that the form needs, or tensors of
        the checkpoint are missing beside it.
    """
    form = converter.form
    head = scoring.head_of(converter, scorer)
    try:
      model.check_head(head)
    except UserError as error:
      # If tensors are missing, as of a head, the error of opening names them.
      checkpoint_sources.open_source(checkpoint)
      has = ", ".join(map(repr, model.offers.heads)) or "none"
      raise UserError(
        f"{str(checkpoint)!r} has no head {head!r} that "
        + (f"answers {form}" if form else "fills masks")
        + f"; it has {has}: take its vectors with --embeddings, or train the "
        "head first, with INITIAL_CHECKPOINT_PATH set to this checkpoint"
      ) from error
    if form is None:
      return cls(None, None, num_fillings)
    found, pairs = {"form": form}, False
    if mixture_or_task_name is not None:
      name = forms.name_in_form(mixture_or_task_name, form)
      with contextlib.suppress(UserError):
        tasks = manifest.load(name, prepared_dir).tasks
        found, pairs = dict(tasks[0].form), _are_pairs(tasks)
    if forms.FORMS[form].names:
      number = model.offers.heads[head].num_classes
      names = checkpoint_sources.open_source(checkpoint).find_class_names()
      if converter.head is not None:  # A checkpoint has the names of one head.
        names = found.get(form, ())
      if len(names) != number or len(set(names)) < number:
        names = _numbers(number)
      found[form] = list(names)
    scorer = scoring.make_encoder_scorer(model, converter, scorer)
    return cls(found, scorer, num_fillings, pairs)

  @property
  def class_names(self) -> Sequence[str]:
    """The names of the classes or tags in order; none if they are numbers."""
    names = (self.form or {}).get((self.form or {}).get("form"), [])
    return () if names == _numbers(len(names)) else names

  def check(
    self, examples: Iterable[Example], vocabulary: Vocabulary
  ) -> Iterator[Example]:
    """Yields the examples, whose texts have to be what the form reads.

    Args:
      examples: The examples, with `inputs`.
      vocabulary: The vocabulary of the texts.

    Raises:
      UserError: The vocabulary has no mask; an example has no mask to fill, no
        second text, more texts than the form reads, or a choice twice.
    """
    if self.form is not None:
      form = self.form["form"]
      least, most = forms.FORMS[form].num_texts
      examples = check_number(examples, max(least, 1 + self.pairs), most)
      return _with_distinct_choices(examples) if form == "choices" else examples
    if vocabulary.mask_id is None:
      raise UserError(
        f"the vocabulary {vocabulary.path!r} has no mask token, so that "
        "nothing can be filled; name one that has it with --vocabulary"
      )
    return _with_masks(check_number(examples, 1, 2))

  def answering(
    self,
    model: nn.Module,
    vocabulary: Vocabulary,
    *,
    lengths: Mapping[str, int],
    decoding: DecodingOptions,
    **parts: Any,
  ) -> "EncoderAnswering":
    """Returns an `EncoderAnswering` of these parts."""
    del decoding
    return EncoderAnswering(
      model,
      vocabulary,
      form=self.form,
      scorer=self.scorer,
      num_fillings=self.num_fillings,
      length=lengths["inputs"],
      **parts,
    )


def _are_pairs(tasks: Iterable[manifest.PreparedTask]) -> bool:
  """Whether every example that is prepared has a second text."""
  return all(
    split.quantiles.get("second", {}).get("0", 0) > 0
    for task in tasks
    for split in task.splits.values()
  )


def _numbers(number: int) -> list[str]:
  return list(map(str, range(number)))


def check_number(
  examples: Iterable[Example], least: int, most: int | None
) -> Iterator[Example]:
  """Yields the examples, whose `inputs` have to be so many texts.

  Args:
    examples: The examples.
    least: The least number of texts with tabs between them.
    most: The largest number; None for any.

  Raises:
    UserError: An example has fewer or more.
  """
  allowed = f"{least} or more" if most is None else f"{least} to {most}"
  for number, example in enumerate(examples, 1):
    found = example["inputs"].count("\t") + 1
    if found < least or most is not None and found > most:
      raise UserError(
        f"the number of texts in example {number}, which tabs divide, is "
        f"{found}; the model reads {allowed if least != most else most}"
      )
    yield example


def _with_masks(examples: Iterable[Example]) -> Iterator[Example]:
  for number, example in enumerate(examples, 1):
    if not _MASK.search(example["inputs"]):
      raise UserError(
        f"example {number} has no [MASK] to fill; write one where a token is "
        "missing"
      )
    yield example


def _with_distinct_choices(examples: Iterable[Example]) -> Iterator[Example]:
  for number, example in enumerate(examples, 1):
    _, *choices = example["inputs"].split("\t")
    (choice, times), *_ = collections.Counter(choices).most_common(1)
    if times > 1:
      raise UserError(
        f"example {number} has the choice {choice!r} {times} times; give each "
        "choice once, so that its text identifies its probability"
      )
    yield example


@dataclasses.dataclass(frozen=True)
class Rows:
  """Batches of rows for an encoder.

  Attributes:
    converter: The layout of a batch.
    vocabulary: The vocabulary of the rows.
    length: The most tokens of a row.
    num_rows: The number of rows of a batch; those without a text are padding.
  """

  converter: converters.Encoder
  vocabulary: Vocabulary
  length: int
  num_rows: int

  def __call__(self, rows: Sequence[forms.Row]) -> dict[str, np.ndarray]:
    """Returns a batch, as wide as its longest row needs."""
    zeros = [np.zeros_like(row["inputs"]) for row in rows]
    rows = [
      {"targets": zero, "weights": zero, **row}
      for row, zero in zip(rows, zeros, strict=True)
    ]
    examples = {
      name: Ragged.of([row[name] for row in rows]) for name in rows[0]
    }
    return self.converter(
      examples,
      np.arange(len(rows)),
      num_rows=self.num_rows,
      lengths={"inputs": answering.width(examples["inputs"], self.length)},
      packing=False,
      pad_id=self.vocabulary.pad_id,
    )


@dataclasses.dataclass(frozen=True)
class Texts:
  """Rows of one or two texts each, in which a mask may stand.

  Attributes:
    vocabulary: The vocabulary of the texts.
    separators: The number of separators between two texts.
    length: The most tokens of a row; the longer text loses its end.
    report: A function that is called with a sentence on texts that are cut.
    cls_place: Where [CLS] stands, as in `forms.Frame.of`.
    first_new_id: As in `forms.Frame.of`.
  """

  vocabulary: Vocabulary
  separators: int
  length: int
  report: Callable[[str], None]
  cls_place: str = "first"
  first_new_id: int | None = None

  def rows(self, texts: Sequence[Sequence[str]], first: int) -> list[forms.Row]:
    """Returns a row for each one or two texts.

    Args:
      texts: The texts of each row.
      first: The number of the first example, for messages.

    Raises:
      UserError: A mask stands behind the last token that is read.
    """
    frame = forms.Frame.of(
      self.vocabulary, self.separators, self.cls_place, self.first_new_id
    )
    rows, cut = [], []
    for number, segments in enumerate(texts, first + 1):
      ids = [self._pieces(text) for text in (*segments, "")[:2]]
      row = frame.join_cut(*ids, self.length)
      whole = frame.join(*ids)
      if len(row["inputs"]) < len(whole["inputs"]):
        cut.append(number)
      if self.num_masks(row) < self.num_masks(whole):
        raise UserError(
          f"example {number} has a mask behind the {self.length} tokens that "
          "are read; shorten it, or raise TASK_FEATURE_LENGTHS"
        )
      rows.append(row)
    report_cut(cut, self.length, self.report)
    return rows

  def num_masks(self, row: forms.Row) -> int:
    """Returns the number of masks in a row."""
    return np.count_nonzero(row["inputs"] == self.vocabulary.mask_id)

  def _pieces(self, text: str) -> np.ndarray:
    if self.vocabulary.mask_id is None:
      return encoded(self.vocabulary, text)
    mask = np.array([self.vocabulary.mask_id], np.int32)
    between = [encoded(self.vocabulary, part) for part in _MASK.split(text)]
    return np.concatenate([x for each in between for x in (mask, each)][1:])


def encoded(vocabulary: Vocabulary, text: str) -> np.ndarray:
  """Returns the ids of a text, int32 [pieces]."""
  return np.array(vocabulary.encode(text), np.int32)


def report_cut(
  numbers: Sequence[int],
  length: int,
  report: Callable[[str], None],
  what: str = "inputs",
) -> None:
  """Reports the examples of these numbers, which are cut, if there are any.

  Args:
    numbers: The numbers of the examples.
    length: The most tokens of what is cut.
    report: A function that is called with a sentence.
    what: What is cut, in the plural.
  """
  if numbers:
    report(
      f"{what} of example {', '.join(map(str, numbers))} exceed {length} "
      "tokens and lose their end; TASK_FEATURE_LENGTHS has the lengths"
    )


class EncoderAnswering:
  """Computes answers batch by batch, as `Answering` does for what writes.

  Call it inside of `Partitioning.activate`.
  """

  def __init__(
    self,
    model: nn.Module,
    vocabulary: Vocabulary,
    *,
    params: Any,
    mesh: jax.sharding.Mesh,
    length: int,
    batch_size: int,
    converter: converters.Encoder,
    form: Mapping[str, Any] | None,
    scorer: Scorer | None,
    num_fillings: int,
    report: Callable[[str], None],
  ):
    """Prepares the functions; nothing is compiled.

    Args:
      model: An encoder.
      vocabulary: The vocabulary of the texts.
      params: The parameters on the mesh.
      mesh: The mesh of devices.
      length: The most tokens of a row; longer texts lose their end, a context
        is read in windows.
      batch_size: The number of rows of a batch, a multiple of the data axis of
        the mesh.
      converter: The layout of a batch.
      form: As in `HeadAnswers`.
      scorer: As in `HeadAnswers`.
      num_fillings: The number of tokens that are named for each mask.
      report: A function that is called with a sentence on texts that are cut.

    Raises:
      UserError: The length is too short for the form, or masks are to be filled
        by models of several directions.
    """
    self._vocabulary = vocabulary
    self._params = params
    self._mesh = mesh
    self._batch_size = batch_size
    self._form = form
    self._report = report
    self._texts = Texts(
      vocabulary, converter.separators, length, report, converter.cls_place
    )
    self._batch = Rows(converter, vocabulary, length, batch_size)
    if form is None:
      self._direction = _mask_offset(model)
      number = min(num_fillings, vocabulary.size)
      self._fill = jax.jit(
        functools.partial(_likeliest, model, vocabulary.size, number)
      )
    else:
      self._rows_of = forms.of_task(
        form,
        vocabulary,
        length,
        separators=converter.separators,
        longest=converter.longest_example,
        answering=converter.answering,
        cls_place=converter.cls_place,
        first_new_id=converter.first_new_id,
        both_orders=converter.both_orders,
        num_texts=converter.num_texts,
      )
      self._scorer = scorer

  def answers(
    self, examples: Iterable[Example], first: int = 0
  ) -> Iterator[list[dict[str, Any]]]:
    """Yields, for each batch, its examples with their answers.

    Each has `prediction`: the class, the number, the choice, the span, the text
    with brackets around what is tagged, or the text with its masks filled.
    Beside it are `probabilities` of classes or choices by their names, `spans`
    with their scores, the best first, and `null_score`, the score of no answer
    minus the best span's; `tags` of words; or `fillings`, the likeliest tokens
    of each mask with their probabilities. Values of these names from an earlier
    answer are left out.

    Args:
      examples: The examples, as `HeadAnswers.check` yields them.
      first: The number of the first example, for messages.

    Raises:
      UserError: A mask stands behind the last token that is read, or where a
        model of one direction has no token to predict it from; or the model's
        logits are NaN.
    """
    answer = self._filled if self._form is None else self._scored
    for batch in answering.batches(examples, self._batch_size):
      texts = [example["inputs"].split("\t") for example in batch]
      yield [
        {k: v for k, v in example.items() if k not in _OF_ANSWERS} | found
        for example, found in zip(batch, answer(texts, first), strict=True)
      ]
      first += len(batch)

  def _scored(
    self, texts: Sequence[list[str]], first: int
  ) -> Iterator[dict[str, Any]]:
    """Yields the answers of a head."""
    rows, cut = [], collections.defaultdict(list)
    record = forms.FORMS[self._form["form"]].record
    for number, segments in enumerate(texts, first + 1):
      ids, text = record(self._vocabulary, segments)
      lengths = np.array([[len(ids["first"]), len(ids["second"])]])
      for window in range(int(self._rows_of.num_rows(lengths)[0])):
        row, described = self._rows_of(ids, text, window)
        if "window" in described:
          described["window"]["example"] = number
        rows.append((row, text | described, number))
      if (limit := self._rows_of.exceeded(ids, text)) is not None:
        cut[limit].append(number)
    what = self._rows_of.cut_part
    for limit, numbers in cut.items():
      report_cut(numbers, limit, self._report, what)
    task = types.SimpleNamespace(form=self._form)
    known, scored = [], []
    for some in answering.batches(rows, self._batch_size):
      made, described, numbers = zip(*some, strict=True)
      batch = self._laid_out(made, described)
      outputs = self._scorer.compute(
        self._params, batch, self._put, answered=True
      )
      outputs = jax.tree.map(partitioning_lib.fetch_whole, outputs)
      for number, logits_PK in zip(numbers, outputs, strict=False):
        answering.check_numbers("logits", logits_PK, number)
      scored += self._scorer.rows(task, batch, outputs)
      known += batch.texts
    pairs = zip(*self._scorer.joined(task, known, scored), strict=True)
    return (self._answer(text, row) for text, row in pairs)

  def _answer(self, text, row) -> dict[str, Any]:
    """Returns what is shown of a scorer's row."""
    shown = {"prediction": row["prediction"]}
    if "probabilities" in row:
      names = text.get("choices", self._form.get("classes"))
      pairs = zip(names, row["probabilities"], strict=True)
      shown["probabilities"] = dict(pairs)
    for name in ("spans", "null_score", "tags"):
      if name in row:
        shown[name] = row[name]
    if shown.get("null_score") is not None and not self._form.get("no_answer"):
      del shown["null_score"]
    return shown

  def _filled(
    self, texts: Sequence[list[str]], first: int
  ) -> Iterator[dict[str, Any]]:
    """Yields texts with their masks filled."""
    rows = self._texts.rows(texts, first)
    batch = self._laid_out(rows, [{}] * len(rows))
    hidden_BL = batch.inputs == self._vocabulary.mask_id
    most = answering.width(
      Ragged.of([np.flatnonzero(hidden_L) for hidden_L in hidden_BL]), np.inf
    )
    places_BP = np.argsort(~hidden_BL, axis=1, kind="stable")[:, :most]
    self._check_predicted(hidden_BL, batch, first)
    # Some rows have fewer masks, and places that are only filled up.
    last = hidden_BL.shape[1] - 1
    places_BP = np.clip(places_BP + self._direction, 0, last)
    put = self._put({**batch.arrays, "places": places_BP.astype(np.int32)})
    ids_BPK, shares_BPK = jax.tree.map(
      partitioning_lib.fetch_whole, self._fill(self._params, put)
    )
    for row, segments in enumerate(texts):
      answering.check_numbers("probabilities", shares_BPK[row], first + row + 1)
      fillings = [
        [
          {
            "token": self._written(token),
            "probability": round(share, 6),
          }
          for token, share in zip(ids, shares, strict=True)
        ]
        for ids, shares in zip(
          ids_BPK[row, : np.count_nonzero(hidden_BL[row])].tolist(),
          shares_BPK[row].tolist(),
          strict=False,
        )
      ]
      best = [each[0]["token"] for each in fillings]
      yield {"prediction": _written_in(segments, best), "fillings": fillings}

  def _check_predicted(
    self, hidden_BL: np.ndarray, batch: EvaluationBatch, first: int
  ) -> None:
    """Raises UserError for a mask without a token to predict it from."""
    if not self._direction:
      return
    reads, end, side = {
      -1: ("left to right", "beginning", "before"),
      1: ("right to left", "end", "behind"),
    }[self._direction]
    lengths_B = batch.prompt_length + batch.input_lengths
    for row, length in enumerate(lengths_B.tolist()):
      places = np.flatnonzero(hidden_BL[row]) + self._direction
      if ((places < 0) | (places >= length)).any():
        raise UserError(
          f"example {first + row + 1} has a mask at its {end}, and the model "
          f"reads from {reads}, so that it has no token to predict it from; "
          f"write one {side} the mask"
        )

  def _written(self, token: int) -> str:
    """Returns the text of a token; of a special one, its name."""
    text = self._vocabulary.decode([token]).strip()
    return text or str(self._vocabulary.pieces()[token])

  def _laid_out(self, rows, texts) -> EvaluationBatch:
    arrays = self._batch(rows)
    lengths_B = np.array([len(row["inputs"]) for row in rows], np.int32)
    return EvaluationBatch(
      arrays,
      np.arange(len(rows)),
      list(texts),
      [{}] * len(rows),
      arrays["encoder_input_tokens"],
      lengths_B,
      prompt_length=prompts.length_of(self._batch.converter),
    )

  def _put(self, arrays: dict[str, np.ndarray]) -> dict[str, jax.Array]:
    return partitioning_lib.put_whole_batch(arrays, self._mesh)


def _written_in(segments: Sequence[str], tokens: Iterable[str]) -> str:
  """Returns texts with tokens in the places of their masks, and tabs between.

  Args:
    segments: The texts.
    tokens: A token for each mask, over all texts.
  """
  tokens = iter(tokens)
  written = [_MASK.sub(lambda _: f" {next(tokens)}", text) for text in segments]
  return "\t".join(text.strip(" ") for text in written)


def _mask_offset(model: nn.Module) -> int:
  """Returns how far from a mask the token is that predicts it.

  Returns:
    -1 for a model that reads from left to right, whose tokens predict the next
    one; 1 for one that reads from right to left, whose tokens predict the one
    before; 0 for one that reads both ways and predicts masks in their places.

  Raises:
    UserError: The members of an ensemble differ.
  """
  if model.offers.direction is None:
    raise UserError(
      "the checkpoints read in several directions and predict a mask from "
      "several places, so that their logits have no mean; give "
      "checkpoints of one direction"
    )
  return model.offers.mask_offset


def _likeliest(model, vocabulary_size, number, params, batch):
  """Returns the likeliest tokens of places, [B, P, K] ids and probabilities."""
  apply = functools.partial(model.apply, {"params": params})
  hidden_BLD = apply(batch, method="hidden")
  logits_BPV = apply(hidden_BLD, places_BP=batch["places"], method="logits")
  # Rows of the embedding that only fill it up are no tokens.
  shares_BPV = jax.nn.softmax(logits_BPV[..., :vocabulary_size])
  shares_BPK, ids_BPK = jax.lax.top_k(shares_BPV, number)
  return ids_BPK, shares_BPK
