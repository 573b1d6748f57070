"""Facts that checkpoints recall: the object of a gap, first of all tokens.

Precision at 1 of LAMA (Petroni et al. 2019, section 4.6): of the objects that
are one token of the vocabulary, how many are the likeliest token of the gap.
The *typed* one of mLAMA (Kassner et al. 2021, section 3): how many objects, of
any number of tokens, are the likeliest of all objects of the relation, by the
mean of their tokens' log-probabilities. Models are asked as probes ask them; a
language model reads what stands before the gap alone.
"""

from collections.abc import Callable, Sequence
import os
import pathlib
from typing import Any

from flax import linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from transformer_zoo.editing import interventions
from transformer_zoo.editing import programs
from transformer_zoo.errors import UserError
from transformer_zoo.evaluation.probes.questions import GAP
from transformer_zoo.evaluation.probes.relations import Relation
from transformer_zoo.runs.analysis import costs
from transformer_zoo.runs.analysis import probing
from transformer_zoo.runs.loading import loaded_checkpoint
from transformer_zoo.runs.loading.loaded_checkpoint import LoadedCheckpoint


def recall(
  path: str,
  relations: Sequence[Relation],
  *,
  vocabulary_path: str | None = None,
  words: Sequence[str] | None = None,
  batch_size: int = 32,
) -> dict[str, Any]:
  """Asks a checkpoint for the objects of facts.

  Args:
    path: The path of a run, a step of one, or a Hugging Face directory.
    relations: The facts.
    vocabulary_path: The path of its vocabulary, as in `opened`.
    words: The words among which an object is to be the first, as LAMA's
      `common_vocab_cased.txt`; None for all tokens.
    batch_size: The number of rows of a batch.

  Returns:
    `checkpoint`, `step`, and the cost, as `probing.probe`; and `scores`, by the
    name of a relation and as `mean` over relations: `facts`, those whose object
    is one token, and `precision`, the percentage of them; `typed_facts` and
    `typed_precision`, of relations with a template.

  Raises:
    UserError: There is no such checkpoint, or it cannot fill a gap.
  """
  found = loaded_checkpoint.open_checkpoint(path, vocabulary_path)
  with costs.measured() as spent:
    scores = {
      relation.name: score(found, relation, batch_size, words=words)
      for relation in relations
    }
  scores["mean"] = {
    name: float(
      np.mean([each[name] for each in scores.values() if name in each])
    )
    for name in ("precision", "typed_precision")
    if any(name in each for each in scores.values())
  }
  return {
    "checkpoint": path,
    "step": found.step,
    **spent,
    "bytes": sum(x.nbytes for x in jax.tree.leaves(found.params)),
    "scores": scores,
  }


def score(
  found: LoadedCheckpoint,
  relation: Relation,
  batch_size: int,
  *,
  words: Sequence[str] | None = None,
) -> dict[str, float]:
  """Scores a relation, as `recall` returns it.

  Args:
    found: The checkpoint.
    relation: The relation.
    batch_size: The number of rows of a batch.
    words: As in `recall`.

  Raises:
    UserError: The model cannot fill a gap, or its probabilities are NaN.
  """
  are_first, are_likeliest = answer(found, relation, batch_size, words=words)
  made = {"facts": len(are_first)}
  if are_first:
    made["precision"] = 100 * float(np.mean(list(are_first.values())))
  if relation.objects:
    made["typed_facts"] = len(are_likeliest)
    if are_likeliest:
      made["typed_precision"] = 100 * float(
        np.mean(list(are_likeliest.values()))
      )
  return made


def answer(
  found: LoadedCheckpoint,
  relation: Relation,
  batch_size: int,
  *,
  words: Sequence[str] | None = None,
) -> tuple[dict[int, bool], dict[int, bool]]:
  """Asks for the object of each fact of a relation.

  Args:
    found: The checkpoint.
    relation: The relation.
    batch_size: The number of rows of a batch.
    words: As in `recall`.

  Returns:
    By the number of the fact, whether its object is the likeliest token, of
    objects of one token; and whether it is the likeliest object of the
    relation, of relations with a template.

  Raises:
    UserError: The model cannot fill a gap, or its probabilities are NaN.
  """
  lay_out = probing.layout(found)
  rows, wanted = {}, []
  for number, (text, answer) in enumerate(relation.facts):
    before, _, after = text.partition(GAP)
    sides = before.rstrip(), after.lstrip()
    if found.model.offers.continues:
      sides = sides[0], ""
    for candidate in relation.objects or (answer,):
      row, ids = _shortened(found, *lay_out(*sides, candidate))
      if ids:
        read = {name: v for name, v in row.items() if "target" not in name}
        key = tuple((name, *values) for name, values in read.items())
        place, _ = rows.setdefault(key, (len(rows), row))
        wanted.append((place, number, candidate == answer, ids))
  allowed = None if words is None else _ids_of(lay_out, words)
  likelihoods, are_first = {}, {}
  by_row = {}
  for each in wanted:
    by_row.setdefault(each[0], []).append(each[1:])
  for place, logs_PV in _logs(
    found, [row for _, row in rows.values()], batch_size
  ):
    first_V = logs_PV[0]
    best = first_V.max() if allowed is None else first_V[allowed].max()
    for number, is_answer, ids in by_row[place]:
      mean = float(np.mean(logs_PV[np.arange(len(ids)), ids]))
      likelihoods.setdefault(number, {True: [], False: []})[is_answer].append(
        mean
      )
      known = allowed is None or ids[0] in allowed
      if is_answer and len(ids) == 1 and known:
        are_first[number] = bool(first_V[ids[0]] >= best)
  if not relation.objects:
    return are_first, {}
  return are_first, {
    number: of[True][0] >= max(of[False], default=-np.inf)
    for number, of in likelihoods.items()
    if of[True]
  }


def read_words(path: str | os.PathLike[str]) -> list[str]:
  """Returns the words of a file, one on each line.

  Raises:
    UserError: The file cannot be read.
  """
  try:
    content = pathlib.Path(path).read_text(encoding="utf-8")
  except (OSError, UnicodeDecodeError) as error:
    raise UserError(f"cannot read the words {str(path)!r}: {error}") from error
  return [word.strip() for word in content.splitlines() if word.strip()]


def table(found: Sequence[dict[str, Any]]) -> str:
  """One row a relation: its facts, and both precisions of each checkpoint."""
  header = ["relation", "facts", "typed"]
  header += [
    f"{name} {each['checkpoint']}"
    for each in found
    for name in ("P@1", "typed")
  ]
  lines = [header]
  for name in found[0]["scores"]:
    scores = [each["scores"][name] for each in found]
    counts = (scores[0].get(key, "") for key in ("facts", "typed_facts"))
    cells = [
      f"{each[key]:.1f}" if key in each else "-"
      for each in scores
      for key in ("precision", "typed_precision")
    ]
    lines.append([name, *map(str, counts), *cells])
  return probing.aligned(lines)


def _shortened(found, row, count) -> tuple[dict, tuple[int, ...]]:
  """A row up to the last scored token, and the ids that are scored.

  What a decoder reads after it changes nothing.
  """
  side = found.model.offers.sides[-1]
  places = np.flatnonzero(row[f"{side}_loss_weights"])
  ids = tuple(int(row[f"{side}_target_tokens"][place]) for place in places)
  if side == "decoder" and count:
    row = {
      name: values[: places[-1] + 1] if name.startswith(side) else values
      for name, values in row.items()
    }
  return row, ids


def _ids_of(lay_out: Callable, words: Sequence[str]) -> np.ndarray:
  """The ids of the words that are one token each behind another one."""
  found = set()
  for word in words:
    row, count = lay_out("a", "", word)
    if count == 1:
      (side,) = {
        n for n in ("encoder", "decoder") if f"{n}_loss_weights" in row
      }
      place = int(np.flatnonzero(row[f"{side}_loss_weights"])[0])
      found.add(int(row[f"{side}_target_tokens"][place]))
  if not found:
    raise UserError("none of the words is one token of the vocabulary")
  return np.array(sorted(found))


def _logs(found, rows, batch_size):
  """The number of each row, and its log-probabilities at scored places."""
  side = found.model.offers.sides[-1]
  compute = _log_probabilities(found.model)
  for width, numbers in probing.by_width(rows).items():
    for start in range(0, len(numbers), batch_size):
      chunk = numbers[start : start + batch_size]
      batch = probing.batch_of(
        [rows[n] for n in chunk], batch_size, width, found.vocabulary.pad_id
      )
      weights_BL = batch[f"{side}_loss_weights"]
      places_BL = np.argsort(weights_BL == 0, axis=1, kind="stable")
      most = int((weights_BL > 0).sum(1).max())
      logs_BPV = np.asarray(compute(found.params, batch, places_BL[:, :most]))
      if not np.isfinite(logs_BPV).all():
        raise UserError(
          f"{found.name!r}: the model's log-probabilities are NaN"
        )
      yield from zip(chunk, logs_BPV, strict=False)


@interventions.cached
def _log_probabilities(model: nn.Module) -> Callable:
  @programs.compiled
  def compute(params, batch, places_BP):
    variables = {"params": params}
    hidden_BLD = model.apply(variables, batch, method="hidden")
    places = {"places_BP": places_BP}
    if model.offers.has_decoder:
      hidden_BLD = jnp.take_along_axis(hidden_BLD, places_BP[..., None], axis=1)
      places = {}
    logits_BPV = model.apply(variables, hidden_BLD, **places, method="logits")
    return jax.nn.log_softmax(logits_BPV.astype(jnp.float32))

  return compute
