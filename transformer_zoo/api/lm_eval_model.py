"""A checkpoint as a model of the language-model evaluation harness.

Importing this module registers the model `transformer_zoo` with `lm_eval`
(Gao et al. 2023, https://github.com/EleutherAI/lm-evaluation-harness), which
`pip install 'transformer_zoo[harness]'` installs:

    import lm_eval
    import transformer_zoo.api.lm_eval_model

    lm_eval.simple_evaluate(
      "transformer_zoo", model_args={"path": "runs/first"}, tasks=["piqa"]
    )
"""

from collections.abc import Iterator, Mapping, Sequence
import dataclasses
import functools
import math
import os
from typing import Any

from lm_eval import utils
from lm_eval.api import model as lm_eval_model
from lm_eval.api.instance import Instance
from lm_eval.api.registry import register_model
import numpy as np

from transformer_zoo.corruption.ragged import Ragged
from transformer_zoo.errors import UserError
from transformer_zoo.runs.answers import answering
from transformer_zoo.runs.infer import Inference

# The tokens of an output if a task does not say how many, as the harness has
# them for models of `transformers`.
_MAX_GEN_TOKS = 256
# Arguments of a task's generation and the options of our search.
_OPTIONS = {
  name: name
  for name in ("num_beams", "top_k", "top_p", "min_p", "repetition_penalty")
} | {"max_length": "max_length", "min_length": "min_length"}
# What a task may say besides; a search that draws nothing reads none of them.
_READ_HERE = ("until", "max_gen_toks", "do_sample", "temperature")


@register_model("transformer_zoo")
class TransformerZoo(lm_eval_model.LM):
  """A decoder-only model or an encoder-decoder that answers requests.

  A model that continues what it reads has a context and its continuation
  encoded together, as the harness does for causal models; of an
  encoder-decoder the encoder reads the context, and EOS behind it, and the
  decoder writes the continuation. A row begins as the model's training rows do:
  with its start token, if it has one.
  """

  def __init__(
    self,
    path: str | os.PathLike[str] | None = None,
    *,
    inference: Inference | None = None,
    batch_size: int | None = None,
    max_batch_size: int | None = None,
    device: str | None = None,
    **macros: Any,
  ):
    """Opens a checkpoint.

    Args:
      path: The path of a checkpoint, as `zoo.load` takes it.
      inference: The checkpoint in its place if it is open already.
      batch_size: The number of rows of a batch; None for the checkpoint's
        `BATCH_SIZE`.
      max_batch_size: Ignored: a batch has `batch_size` rows.
      device: Ignored: JAX chooses the devices.
      **macros: Values of macros or parameters, as of `zoo.load`.

    Raises:
      UserError: The checkpoint cannot be opened, or writes no text.
    """
    del max_batch_size, device
    super().__init__()
    if inference is None:
      from transformer_zoo.api.loading import load

      if batch_size is not None:
        macros["BATCH_SIZE"] = int(batch_size)
      inference = load(path, **macros).inference
    if not inference.converter.writes:
      raise UserError(
        f"{inference.checkpoint_path!r} is an encoder, which writes no text, "
        "and the tasks of lm_eval compare what a model writes; mteb has tasks "
        "for its vectors"
      )
    self._inference = inference

  @property
  def tokenizer_name(self) -> str:
    """The path of the vocabulary, which names caches of requests."""
    return self._inference.vocabulary.path

  def loglikelihood(
    self, requests: Sequence[Instance]
  ) -> list[tuple[float, bool]]:
    """Returns the log-likelihood of each continuation, and if it is greedy.

    Args:
      requests: Requests of a context and a continuation. The beginning of a
        context is left out where both are longer than the model reads.

    Raises:
      UserError: A continuation is longer than the model writes.
    """
    encode = self._inference.answering.continuation
    pairs = [encode(*request.args) for request in requests]
    for request, (_, said) in zip(requests, pairs, strict=True):
      if len(said) > self._room_of_targets:
        raise UserError(
          f"the continuation {request.args[1][:40]!r}... of a request has "
          f"{len(said)} tokens, and the model writes {self._room_of_targets}; "
          "raise TASK_FEATURE_LENGTHS, or leave the task out"
        )
    found = self._likelihoods(pairs)
    for request, answer in zip(requests, found, strict=True):
      self.cache_hook.add_partial("loglikelihood", request.args, answer)
    return found

  def loglikelihood_rolling(self, requests: Sequence[Instance]) -> list[float]:
    """Returns the log-likelihood of each text, which may be of any length.

    A long text is read in windows as wide as the model: each token is scored
    once, after as many others as there is room for. Of an encoder-decoder the
    encoder reads an empty text and the decoder writes the text and EOS, as the
    harness has it for such models of `transformers`.

    Args:
      requests: Requests of a text.
    """
    found = []
    for request in requests:
      windows = list(self._windows(request.args[0]))
      total = sum(sums for sums, _ in self._likelihoods(windows))
      self.cache_hook.add_partial("loglikelihood_rolling", request.args, total)
      found.append(total)
    return found

  def generate_until(self, requests: Sequence[Instance]) -> list[str]:
    """Returns what the model writes after each context.

    It ends before the first of the texts that the request names as `until`.

    Args:
      requests: Requests of a context and of arguments of the generation.

    Raises:
      UserError: An argument of the generation is unknown.
    """
    groups = {}
    for number, request in enumerate(requests):
      options = self._options(request.args[1])
      groups.setdefault(options, []).append(number)
    found = [""] * len(requests)
    for options, numbers in groups.items():
      asked = self._inference.changed(decoding=options)
      examples = [{"inputs": requests[n].args[0]} for n in numbers]
      for number, answer in zip(numbers, asked.answers(examples), strict=True):
        text = answer["prediction"]
        for end in _ends(requests[number].args[1]):
          text = text.partition(end)[0]
        found[number] = text
        self.cache_hook.add_partial(
          "generate_until", requests[number].args, text
        )
    return found

  def _options(self, given: Mapping[str, Any]):
    unknown = sorted({*given} - {*_OPTIONS, *_READ_HERE})
    if unknown:
      raise UserError(
        f"a task asks for the generation argument {unknown[0]!r}; those that "
        f"are known are {', '.join(sorted([*_OPTIONS, *_READ_HERE]))}"
      )
    temperature = float(given.get("temperature", "do_sample" in given))
    if not given.get("do_sample", True):
      temperature = 0.0
    draws = ("top_k", "top_p", "min_p")
    options = {
      ours: given[theirs]
      for theirs, ours in _OPTIONS.items()
      if theirs in given and (temperature or theirs not in draws)
    }
    options.setdefault("max_length", given.get("max_gen_toks", _MAX_GEN_TOKS))
    return dataclasses.replace(
      self._inference.decoding, temperature=temperature, **options
    )

  def _windows(self, text: str) -> Iterator[tuple[list[int], list[int]]]:
    known, said = self._inference.answering.continuation("", text)
    if not self._continues:
      said += [i for i in [self._inference.vocabulary.eos_id] if i is not None]
      for start in range(0, len(said), self._room_of_targets):
        yield known, said[start : start + self._room_of_targets]
      return
    # The harness wants something before the first token; -1 is nothing.
    marker = known[-1] if known else -1
    windows = utils.get_rolling_token_windows(
      token_list=said,
      prefix_token=marker,
      max_seq_len=self._room - 1,
      context_len=1,
    )
    for window in windows:
      context, rest = utils.make_disjoint_window(window)
      yield [i for i in context if i != -1], [*rest]

  def _likelihoods(
    self, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]
  ) -> list[tuple[float, bool]]:
    """Returns log-likelihoods of second ids, and whether they are greedy."""
    inference = self._inference
    rows = [(self._cut(known, said), said) for known, said in pairs]
    # The longest first: what does not fit fails at once.
    order = sorted(range(len(rows)), key=lambda n: -sum(map(len, rows[n])))
    found = [(0.0, True)] * len(rows)
    with inference.partitioning.activate(inference.mesh):
      for numbers in answering.batches(order, inference.batch_size):
        sums = inference.answering.sums(
          {
            name: Ragged.of(
              [np.array(rows[n][side], np.int32) for n in numbers]
            )
            for side, name in enumerate(("inputs", "targets"))
          }
        )
        for row, number in enumerate(numbers):
          answering.check_numbers(
            "log-probabilities", sums["loss_sum"][row], number + 1
          )
          found[number] = (
            -float(sums["loss_sum"][row]),
            bool(sums["correct_sum"][row] == sums["weight_sum"][row]),
          )
    return found

  def _cut(self, known: Sequence[int], said: Sequence[int]) -> Sequence[int]:
    room = self._room - (len(said) if self._continues else 0)
    return known[max(len(known) - room, 0) :] if room else []

  @property
  def _continues(self) -> bool:
    return self._inference.whole_model.offers.continues

  @functools.cached_property
  def _room(self) -> int:
    """The number of tokens of inputs; of a text, if both are one sequence."""
    offers = self._inference.whole_model.offers
    positions = offers.num_positions(offers.sides[0])
    if not self._continues:
      return positions or self._inference.lengths["inputs"]
    if positions:
      starts = self._inference.decoding.start_before_prompt
      return positions + int(not starts)
    return sum(self._inference.lengths.values())

  @functools.cached_property
  def _room_of_targets(self) -> int:
    if self._continues:
      return self._room
    offers = self._inference.whole_model.offers
    limits = offers.num_positions(offers.sides[-1]) or math.inf
    return min(limits, self._inference.lengths["targets"])


def _ends(given: Mapping[str, Any]) -> list[str]:
  until = given.get("until") or []
  return [until] if isinstance(until, str) else [*until]


def evaluate(
  inference: Inference,
  tasks: Sequence[str],
  *,
  include_path: str | None = None,
  num_fewshot: int | None = None,
  limit: int | None = None,
) -> dict[str, Any]:
  """Scores a checkpoint on tasks of the harness.

  Args:
    inference: The checkpoint.
    tasks: The names of tasks or groups of tasks.
    include_path: A folder of further tasks; None for none.
    num_fewshot: The number of examples before each question; None for the
      tasks' own.
    limit: The largest number of examples of a task; None for all.

  Returns:
    `checkpoint`, `split`, which is "lm_eval", `scores` by task and metric, with
    `standard_errors` of the same names, `num_fewshot` and `versions` by task.

  Raises:
    UserError: There is no such task.
  """
  import lm_eval
  from lm_eval.tasks import TaskManager

  # The package's own tasks take seconds to find.
  manager = TaskManager(include_path=include_path, include_defaults=False)
  if not {*tasks} <= {*manager.all_tasks}:
    manager = TaskManager(include_path=include_path)
  for name in tasks:
    if name not in manager.all_tasks:
      raise UserError(
        f"lm_eval has no task {name!r}; `lm_eval ls tasks` lists them, and "
        "--harness_tasks DIR adds a folder of yours"
      )
  found = lm_eval.simple_evaluate(
    TransformerZoo(inference=inference),
    tasks=[*tasks],
    num_fewshot=num_fewshot,
    limit=limit,
    task_manager=manager,
    log_samples=False,
  )
  scores, errors = {}, {}
  for task, metrics in {**found["results"], **found.get("groups", {})}.items():
    for key, value in metrics.items():
      name, _, way = key.partition(",")
      if not way or not isinstance(value, int | float):
        continue
      into = errors if name.endswith("_stderr") else scores
      name = name.removesuffix("_stderr") + (f"_{way}" if way != "none" else "")
      into.setdefault(task, {})[name] = value
  return {
    "checkpoint": inference.checkpoint_path,
    "split": "lm_eval",
    "scores": scores,
    "standard_errors": errors,
    "num_fewshot": found.get("n-shot", {}),
    "versions": found.get("versions", {}),
  }
