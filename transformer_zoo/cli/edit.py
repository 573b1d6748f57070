"""Writes facts into a checkpoint (ROME, MEMIT), traces them, undoes them.

PROMPT names the subject, which --subject says. With --target an edit is made
and written to --edit, a small .npz; --text is what the covariance of keys is
taken from, without which it is the identity; --keep names a text about the
subject, once or more, of which the answer is to stay. --facts names a file of
facts, all of which are written at once into several --layers (MEMIT); scores
before and after are printed. --apply and --remove write to --output a
checkpoint with that edit, or again without it, bit for bit.
--trace writes FILE.svg and FILE.npz: how much of the answer each state of each
token gives back when the subject is disturbed.
"""

import argparse
from collections.abc import Mapping
import dataclasses
import itertools
import pathlib
from typing import Any

from transformer_zoo.cli import common
from transformer_zoo.errors import UserError

SUMMARY = "write facts into a checkpoint, trace one, or undo an edit"
EXAMPLE = (
  "zoo edit runs/gpt_2 'The capital of France is' --subject France \\\n"
  "    --target Rome --layer 5 --text corpus.txt --edit rome.npz"
)
_READ = ("encoder_text", "vocabulary")
_FACT = ("prompt", "subject", *_READ)
_SEARCH = ("text", "covariance", "ridge", "steps")
# What is done -> the arguments that it reads, beside CHECKPOINT and itself.
_ARGUMENTS = {
  "target": (
    *(*_FACT, "keep", "layer", *_SEARCH),
    "edit",
  ),
  "facts": ("number", *_READ, "layers", *_SEARCH, "edit"),
  "apply": ("output",),
  "remove": ("output",),
  "trace": (*_FACT, "restore"),
}


_NEEDED = {
  "target": ("prompt", "subject", "layer", "edit"),
  "facts": ("layers", "edit"),
  "trace": ("prompt", "subject"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
  """Adds the checkpoint, the fact, the constants, and what is written."""
  parser.add_argument(
    "checkpoint",
    metavar="CHECKPOINT",
    help="a run folder, or a Hugging Face directory",
  )
  parser.add_argument(
    "prompt",
    nargs="?",
    metavar="PROMPT",
    help="the text that precedes the answer",
  )
  parser.add_argument(
    "--subject", help="the words of PROMPT that name the subject of the fact"
  )
  parser.add_argument("--target", help="the answer that the model is to give")
  parser.add_argument(
    "--keep",
    action="append",
    metavar="TEXT",
    help="a text about the subject whose continuation must not change",
  )
  parser.add_argument(
    "--facts",
    metavar="FILE",
    help="a file of facts to write at once: CounterFact's or zsRE's .json, or "
    "your own .jsonl",
  )
  parser.add_argument(
    "--number", type=int, metavar="N", help="the first N facts of FILE alone"
  )
  parser.add_argument(
    "--layers",
    metavar="A,B",
    help="the indices of the layers that --facts are written into",
  )
  parser.add_argument(
    "--layer",
    type=int,
    metavar="N",
    help="the index of the layer to edit, from 0 on",
  )
  parser.add_argument(
    "--text",
    metavar="FILE",
    help="a file of texts, one on each line, to estimate the covariance from",
  )
  parser.add_argument(
    "--covariance",
    metavar="FILE.npz",
    help="a file of the covariance: read if it exists, and written if not; {} "
    "in it is the number of one of several layers",
  )
  parser.add_argument(
    "--ridge",
    type=float,
    metavar="X",
    help=(
      "the number that is added to the diagonal of the covariance, in "
      "units of its mean"
    ),
  )
  parser.add_argument(
    "--steps",
    type=int,
    metavar="N",
    help="the number of steps, each an evaluation of the loss (20; 25 of "
    "--facts)",
  )
  parser.add_argument(
    "--encoder_text",
    metavar="TEXT",
    help="the text that the encoder reads, if PROMPT is the beginning of the "
    "decoder's text",
  )
  parser.add_argument(
    "--vocabulary",
    metavar="FILE",
    help="the vocabulary, if there is none beside the checkpoint",
  )
  parser.add_argument(
    "--edit", metavar="FILE.npz", help="the file to write the edit to"
  )
  parser.add_argument(
    "--apply", metavar="FILE.npz", help="the file of an edit to apply"
  )
  parser.add_argument(
    "--remove", metavar="FILE.npz", help="the file of an edit to undo"
  )
  parser.add_argument(
    "--output",
    metavar="DIR",
    help="the run folder to write the edited checkpoint to",
  )
  parser.add_argument(
    "--trace",
    metavar="FILE",
    help="trace the fact, and write FILE.svg and FILE.npz",
  )
  parser.add_argument(
    "--restore",
    metavar="WHAT",
    help="the activations that --trace restores: states (the default), mlp or "
    "attention",
  )
  common.add_json_argument(parser)


def run(arguments: argparse.Namespace) -> None:
  """Makes, applies, removes or traces, and prints what was done."""
  asked = list(_given(arguments, _ARGUMENTS))
  if len(asked) != 1:
    raise UserError(
      "zoo edit does one thing at a time: give one of --target, --facts, "
      f"--apply, --remove and --trace, not {' and '.join(asked) or 'none'}"
    )
  (asked,) = asked
  _check_others(arguments, asked)
  if asked in ("apply", "remove"):
    show(_written(arguments, asked), as_json=arguments.json)
    return
  for name in _NEEDED[asked]:
    if getattr(arguments, name) is None:
      raise UserError(f"--{asked} needs {_word(name)}; add it")
  from transformer_zoo.runs.analysis import editing

  memory = editing.open_memory(
    arguments.checkpoint,
    vocabulary_path=arguments.vocabulary,
    encoder_text=arguments.encoder_text,
  )
  makes = {"target": _made, "facts": _made_many, "trace": _traced}
  show(makes[asked](arguments, memory), as_json=arguments.json)


def show(found: Mapping[str, Any], *, as_json: bool) -> None:
  """Prints what was found, as JSON or as a line of each thing."""
  if as_json:
    common.print_json(found)
    return
  from transformer_zoo.runs.analysis import costs

  for name, value in found.items():
    if name == "cost":
      print(costs.line(value))
      continue
    if name == "largest":
      value = ", ".join(
        f"{one['token']!r} layer {one['layer']} {one['effect']:+.3g}"
        for one in value
      )
    elif isinstance(value, dict):
      value = ", ".join(f"{each} {value[each]:.4g}" for each in value)
    elif isinstance(value, float):
      value = f"{value:.4g}"
    print(f"{name.replace('_', ' ')}: {value}")


def _given(arguments, names) -> dict:
  values = {name: getattr(arguments, name) for name in names}
  return {name: value for name, value in values.items() if value is not None}


def _word(name) -> str:
  return "PROMPT" if name == "prompt" else f"--{name}"


def _check_others(arguments, asked) -> None:
  """Refuses the arguments of what else `zoo edit` does."""
  names = dict.fromkeys(itertools.chain(*_ARGUMENTS.values()))
  others = [name for name in names if name not in _ARGUMENTS[asked]]
  if given := ", ".join(map(_word, _given(arguments, others))):
    known = ", ".join(map(_word, _ARGUMENTS[asked]))
    raise UserError(f"--{asked} reads {known} alone; leave out {given}")


def _written(arguments, asked) -> dict:
  from transformer_zoo.runs.analysis import editing

  if arguments.output is None:
    raise UserError(f"--{asked} needs --output, a folder that does not exist")
  made = editing.write(
    arguments.checkpoint,
    getattr(arguments, asked),
    arguments.output,
    remove=asked == "remove",
  )
  return {"output": arguments.output, "parameter": _paths(made)}


def _paths(made) -> str:
  return ", ".join(edit.path for edit in made)


def _texts(arguments) -> list[str]:
  """The lines of --text that are not empty."""
  if not arguments.text:
    return []
  content = pathlib.Path(arguments.text).read_text(encoding="utf-8")
  return [line for line in content.splitlines() if line.strip()]


def _made(arguments, memory) -> dict:
  from transformer_zoo.editing import edits
  from transformer_zoo.editing import facts
  from transformer_zoo.editing import rome
  from transformer_zoo.editing import scores
  from transformer_zoo.runs.analysis import editing

  fact = facts.of_words(arguments.prompt, arguments.subject, arguments.target)
  fact = dataclasses.replace(fact, kept=tuple(arguments.keep or ()))
  settings = rome.Settings(
    arguments.layer, **_given(arguments, ("steps", "ridge"))
  )
  moment_FF = editing.moment(
    memory,
    settings.layer,
    texts=_texts(arguments),
    path=arguments.covariance,
  )
  edit = editing.make(memory, fact, settings, moment_FF=moment_FF)
  edits.save(arguments.edit, [edit])
  changed = rome.Memory(memory.model, edit.apply(memory.params), memory.reader)
  likelihoods = {}
  for name, each in {"before": memory, "after": changed}.items():
    found, _ = scores.likelihoods(each, [fact.question], [fact.target])
    likelihoods[name] = float(found[0])
  return {
    "edit": arguments.edit,
    "parameter": edit.path,
    "log_likelihood": likelihoods,
    "cost": edit.notes["cost"],
  }


def _made_many(arguments, memory) -> dict:
  from transformer_zoo.editing import benchmarks
  from transformer_zoo.editing import edits
  from transformer_zoo.editing import memit
  from transformer_zoo.editing import scores
  from transformer_zoo.runs import inputs
  from transformer_zoo.runs.analysis import editing

  inputs.check_at_least(1, number=arguments.number)
  facts = benchmarks.facts_of_file(arguments.facts, number=arguments.number)
  names = arguments.layers.split(",")
  if not all(name.isdecimal() for name in names):
    raise UserError(
      f"--layers is {arguments.layers!r}; it takes numbers of layers like 3,4,5"
    )
  settings = memit.Settings(
    tuple(map(int, names)), **_given(arguments, ("steps", "ridge"))
  )
  made, spent = editing.make_many(
    memory,
    facts,
    settings,
    texts=_texts(arguments),
    path=arguments.covariance,
  )
  edits.save(arguments.edit, made)
  params = memory.params
  for edit in made:
    params = edit.apply(params)
  found = {
    name: scores.mean([scores.score(each, fact) for fact in facts])
    for name, each in {
      "before": memory,
      "after": dataclasses.replace(memory, params=params),
    }.items()
  }
  return {
    "edit": arguments.edit,
    "parameter": _paths(made),
    "facts": len(facts),
    **found,
    "cost": spent,
  }


def _traced(arguments, memory) -> dict:
  from transformer_zoo.editing import facts
  from transformer_zoo.editing import tracing
  from transformer_zoo.runs.analysis import costs

  fact = facts.of_words(arguments.prompt, arguments.subject, "x")
  kind = "states" if arguments.restore is None else arguments.restore
  with costs.measured() as spent:
    found = tracing.trace(
      memory, fact, tracing.noise_level(memory, [fact]), kind=kind
    )
  files = [pathlib.Path(f"{arguments.trace}.{end}") for end in ("svg", "npz")]
  found.plot(files[0])
  found.save(files[1])
  spent["bytes"] = sum(file.stat().st_size for file in files)
  return {
    "answer": found.answer,
    "clean": found.clean,
    "disturbed": found.disturbed,
    "largest": found.table()[:5],
    "passes": found.effects_LN.size + 1,
    "cost": spent,
  }
