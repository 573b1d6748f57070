r"""Prompts: named templates of a data set, out of a YAML file.

    mixture: prompted_rte      # of all templates; may be left out
    label: label               # the field with the index of the right choice
    labels: [entailment, not_entailment]  # or with one of these words
    joined: {steps: ", "}      # fields that are lists, and what joins them
    templates:
      prompted_rte_follows:
        input: |-
          {premise}
          Does it follow that "{hypothesis}"?
        choices: ["yes", "no"]

Everything is text, so that `no` need not be quoted. A template has `input` and

- `choices`, texts with fields in the order of the labels, or one field such as
  `"{choices}"` that has a list in each row; and if it is to be
  more than the choice, `target`, with `{choice}` in it. `{choice}` may stand in
  the input as well;
- or `target` alone, which is then generated freely.

`labels` may have fields in them, or be one field with a list of each row's, as
`"{choices.label}"`.
`words` replaces values of fields: `words: {question: {cause: why, effect: and
then}}`. `weight` beside `label` names a field with the weight of a row. `share`
of a template is its rate in the mixture beside the others' 1, as FLAN mixes
templates: `share: 0.5`.
"""

from collections.abc import Iterator, Mapping, Sequence
import dataclasses
import functools
import math
import pathlib
from typing import Any

import yaml

from tasks.your_data import templates
from tasks.your_data.templates import RowProblem
from tasks.your_data.templates import Template
from transformer_zoo.errors import nearest
from transformer_zoo.errors import UserError

SHIPPED = pathlib.Path(__file__).parents[1] / "prompts"
CHOICE = "choice"
_template = functools.cache(Template)
_FILE_KEYS = ("joined", "label", "labels", "mixture", "templates", "weight")
_TEMPLATE_KEYS = ("choices", "input", "share", "target", "words")


@dataclasses.dataclass(frozen=True)
class Prompt:
  """One template of a file.

  Attributes:
    name: The name of the template and of its task.
    input: the input text.
    target: the target text; with choices it has `{choice}`.
    choices: The choices, in the order of the labels, or one field with the list
      of each row's own; empty if the target is generated freely.
    words: field -> value -> what stands for it.
    label: the field with the right choice, or several.
    labels: words that it may have in place of an index, perhaps with fields, or
      one field with the list of each row's own.
    weight: the field with the weight, if any.
    may_be_empty: The fields of a user's rows that may have no text.
    share: The rate of the template in the mixture of its file.
    joined: field -> what joins the elements of its list.
  """

  name: str
  input: str
  target: str
  choices: tuple[str, ...]
  words: Mapping[str, Mapping[str, str]]
  label: str
  labels: tuple[str, ...]
  weight: str | None
  may_be_empty: tuple[str, ...] = ()
  share: float = 1.0
  joined: Mapping[str, str] = dataclasses.field(default_factory=dict)

  @property
  def of_rows(self) -> bool:
    """True if each row has a list of choices of its own."""
    return len(self.choices) == 1

  @property
  def fields(self) -> tuple[str, ...]:
    """The fields of a row that are needed."""
    texts = (self.input, self.target, *self.choices)
    used = [field for text in texts for field in Template(text).fields]
    used += [self.label] if self.choices else []
    used += [f for label in self.labels for f in _template(label).fields]
    used += [self.weight] if self.weight else []
    return tuple(dict.fromkeys(field for field in used if field != CHOICE))

  @property
  def _has_own_labels(self) -> bool:
    """True if each row has a list of labels of its own."""
    return len(self.labels) == 1 and Template(self.labels[0]).is_field

  def right_examples(
    self, row: Mapping[str, Any], may_be_empty: bool = False
  ) -> Iterator[dict[str, str]]:
    """Yields `inputs` and `targets` of each right choice, for training.

    Args:
      row: has the fields.
      may_be_empty: whether a field may have no text.

    Raises:
      RowProblem: a field is missing, or the label is out of range.
    """
    for example in self.ranked_examples(row, may_be_empty):
      if example["is_correct"]:
        yield {key: example[key] for key in ("inputs", "targets")}

  def ranked_examples(
    self, row: Mapping[str, Any], may_be_empty: bool = False
  ) -> Iterator[dict[str, Any]]:
    """Yields an example for each choice, for scoring.

    Args:
      row: has the fields.
      may_be_empty: whether a field may have no text.

    Yields:
      `inputs`, `targets`, `choice` (its index), `is_correct` and `weight`.

    Raises:
      RowProblem: a field is missing, or the label is out of range.
    """
    row = dict(row) | self._replaced(row)
    empty = (*self.fields, CHOICE) if may_be_empty else self.may_be_empty
    choices = self._choices(row, empty)
    right = self._right(row, choices) if choices else {0}
    weight = _number(row, self.weight) if self.weight else 1.0
    for index, choice in enumerate(choices or [""]):
      row[CHOICE] = choice
      yield {
        "inputs": _template(self.input).fill(row, empty),
        "targets": _template(self.target).fill(row, empty),
        "choice": index,
        "is_correct": index in right,
        "weight": weight,
      }

  def _replaced(self, row: Mapping[str, Any]) -> dict[str, str]:
    """Returns the fields that have other words, and joined lists."""
    replaced = {
      field: separator.join(templates.read_list(row, field))
      for field, separator in self.joined.items()
    }
    for field, words in self.words.items():
      value = templates.read_field(row, field)
      if value not in words:
        raise RowProblem(
          f"has {value!r} in the field {field!r}, for which the template "
          f"{self.name!r} has no words{nearest(value, words)}"
        )
      replaced[field] = words[value]
    return replaced

  def _choices(
    self, row: Mapping[str, Any], may_be_empty: Sequence[str]
  ) -> list[str]:
    """Returns the texts of the choices of a row."""
    if not self.of_rows:
      return [_template(c).fill(row, may_be_empty) for c in self.choices]
    (field,) = _template(self.choices[0]).fields
    choices = templates.read_list(
      row, field, elements_may_be_empty=field in may_be_empty
    )
    if len(choices) < 2:
      raise RowProblem(f"has {len(choices)} choices, not two or more")
    return choices

  def _right(self, row: Mapping[str, Any], choices: Sequence[str]) -> set[int]:
    """Returns the indices of the right choices; none if -1 hides them."""
    if self._has_own_labels:
      words = templates.read_list(row, _template(self.labels[0]).fields[0])
    elif self.labels:
      words = [_template(label).fill(row) for label in self.labels]
    else:
      words = choices if self.of_rows else []
    # A number is the text of a choice or of a label where these are numbers.
    by_index = not (self.of_rows and any(w.isdecimal() for w in words))
    right = set()
    for value in templates.read_list(row, self.label):
      if value in words:
        right.add(words.index(value))
      elif by_index and value.isdecimal() and int(value) < len(choices):
        right.add(int(value))
      elif value != "-1":
        indices = f"0 to {len(choices) - 1} (the choices)" if by_index else ""
        allowed = " or ".join(filter(None, [indices, ", ".join(words)]))
        raise RowProblem(
          f"has the label {value!r} in the field {self.label!r}, which is none "
          f"of {allowed}"
        )
    return right


@dataclasses.dataclass(frozen=True)
class PromptFile:
  """The templates of a file.

  Attributes:
    mixture: name of a mixture of all of them, or None.
    prompts: the templates.
  """

  mixture: str | None
  prompts: tuple[Prompt, ...]


@functools.cache
def shipped() -> Mapping[str, pathlib.Path]:
  """Returns the files of `tasks/prompts` by name, whatever their folder."""
  return {path.name: path for path in sorted(SHIPPED.rglob("*.yaml"))}


def read(path: str) -> PromptFile:
  """Returns the templates of a YAML file.

  Args:
    path: a file, or the name of one in `tasks/prompts`.

  Raises:
    UserError: there is no such file, or it is written otherwise.
  """
  file = pathlib.Path(path)
  if not file.is_file():
    file = shipped().get(path, file)
  try:
    content = yaml.load(file.read_text(encoding="utf-8"), Loader=_Loader)
  except (OSError, UnicodeDecodeError) as error:
    raise UserError(
      f"The prompt file {path!r} cannot be read"
      + (nearest(path, shipped()) if not file.exists() else f": {error}")
    ) from error
  except yaml.YAMLError as error:
    mark = getattr(error, "problem_mark", None)
    line = f", line {mark.line + 1}" if mark else ""
    reason = getattr(error, "problem", None) or str(error)
    raise UserError(
      f"The prompt file {path!r}{line} is not YAML: {reason}"
    ) from error
  content = _mapping(content, f"The prompt file {path!r}", _FILE_KEYS)
  label = content.get("label", "label")
  prompts = tuple(
    _prompt(name, template, path, content | {"label": label})
    for name, template in _mapping(
      content.get("templates"), f"templates: of the prompt file {path!r}"
    ).items()
  )
  return PromptFile(content.get("mixture"), prompts)


class _Loader(yaml.BaseLoader):
  """Reads every value as text, and refuses a name that comes twice."""

  def construct_mapping(self, node, deep=False):
    names = [self.construct_object(key, deep=True) for key, _ in node.value]
    for place, (name, (key, _)) in enumerate(
      zip(names, node.value, strict=True)
    ):
      if name in names[:place]:
        raise yaml.MarkedYAMLError(
          problem=f"{name!r} comes twice", problem_mark=key.start_mark
        )
    return super().construct_mapping(node, deep)


def _prompt(
  name: str, template: Any, path: str, file: Mapping[str, Any]
) -> Prompt:
  where = f"The template {name!r} of the prompt file {path!r}"
  template = _mapping(template, where, _TEMPLATE_KEYS)
  choices = template.get("choices", [])
  of_rows = isinstance(choices, str) and Template(choices).is_field
  choices = [choices] if of_rows else choices
  if "input" not in template or not (
    "choices" in template or "target" in template
  ):
    raise UserError(f"{where} needs an input, and choices or a target.")
  if (
    not isinstance(choices, list)
    or "choices" in template
    and len(choices) < 2
    and not of_rows
  ):
    raise UserError(
      f"{where} has choices {choices!r}; give a list of two or more, or one "
      "field with the list of each row."
    )
  target = template.get("target", f"{{{CHOICE}}}")
  labels = file.get("labels", [])
  if isinstance(labels, str):
    if not Template(labels, "labels").is_field:
      raise UserError(
        f"labels: of the prompt file {path!r} is {labels!r}; give a list, or "
        "one field with the list of each row."
      )
    labels = [labels]
  elif choices and labels and not of_rows and len(labels) != len(choices):
    raise UserError(
      f"{where} has {len(choices)} choices, the file has {len(labels)} labels."
    )
  for text in (template["input"], target, *choices):
    Template(text, f"text of the template {name!r}")
  if choices and CHOICE not in Template(target).fields:
    raise UserError(f"{where} has choices and a target without {{{CHOICE}}}.")
  words = _mapping(
    template.get("words", {}), f"words: of the template {name!r}"
  )
  for field, values in words.items():
    _mapping(values, f"words: {field}: of the template {name!r}")
  prompt = Prompt(
    name=name,
    input=template["input"],
    target=target,
    choices=tuple(choices),
    words=words,
    label=file["label"],
    labels=tuple(labels),
    weight=file.get("weight"),
    share=_share(template.get("share", "1"), where),
  )
  joined = _mapping(
    file.get("joined", {}), f"joined: of the prompt file {path!r}"
  )
  joined = {
    field: text for field, text in joined.items() if field in prompt.fields
  }
  return dataclasses.replace(prompt, joined=joined)


def _share(text: Any, where: str) -> float:
  try:
    share = float(text)
  except (TypeError, ValueError):
    share = 0.0
  if not 0 < share < math.inf:
    raise UserError(f"{where} has share {text!r}; give a number above 0.")
  return share


def _mapping(
  content: Any, where: str, allowed: tuple[str, ...] | None = None
) -> dict[str, Any]:
  """Returns `content` if it is a mapping with allowed names."""
  if not isinstance(content, dict):
    raise UserError(f"{where} is no mapping of names.")
  for name in content:
    if allowed is not None and name not in allowed:
      raise UserError(
        f"{where} has an unknown {name!r}{nearest(name, allowed)}"
      )
  return content


def _number(row: Mapping[str, Any], field: str) -> float:
  text = templates.read_field(row, field)
  try:
    return float(text)
  except ValueError as error:
    raise RowProblem(
      f"has {text!r} in the field {field!r}, which is no number"
    ) from error
