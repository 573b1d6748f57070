"""A checkpoint in Python: what it answers, what it is made of."""

from collections.abc import Iterable, Mapping, Sequence
import dataclasses
import math
import os
from typing import Any, TYPE_CHECKING

from transformer_zoo.errors import nearest
from transformer_zoo.errors import UserError

if TYPE_CHECKING:
  import tempfile

  from flax import linen as nn
  import numpy as np

  from transformer_zoo.data.vocabularies import Vocabulary
  from transformer_zoo.runs.infer import Inference

# A text, or several that an encoder reads in one row: a pair, a question and
# its context, a text and its choices.
Text = str | tuple[str, ...]
Texts = Text | Sequence[Text]
Answer = dict[str, Any]

# What answers in another form are called (data/features/forms.py).
_ASKS = {
  "classes": "classify", "number": "classify", "choices": "choose",
  "spans": "spans", "tags": "tags", "embedding": "embed", None: "fill",
}  # fmt: skip


class Model:
  """A checkpoint that answers texts, as `zoo infer` does.

  Each method takes one text and returns one answer, or takes several and
  returns a list in their order. Texts are answered in batches of `BATCH_SIZE`,
  padded to one of a few widths, so that few programs are compiled; these are
  kept for the next call.
  """

  def __init__(
    self,
    inference: "Inference",
    folder: "tempfile.TemporaryDirectory | None" = None,
  ):
    """Wraps what answers; use `zoo.load`.

    Args:
      inference: The checkpoint and its settings.
      folder: The temporary folder of the checkpoint, which goes with the model;
        None if it lies elsewhere.
    """
    self._inference = inference
    self._folder = folder
    self._changed = {}  # Settings -> `Inference`, with programs of its own.

  @property
  def inference(self) -> "Inference":
    """The checkpoint and its settings, as `zoo infer` uses them."""
    return self._inference

  @property
  def path(self) -> str | Sequence[str]:
    """The path of the checkpoint, or the paths of an ensemble."""
    return self._inference.checkpoint_path

  @property
  def module(self) -> "nn.Module":
    """The architecture."""
    return self._inference.whole_model

  @property
  def params(self) -> Any:
    """The parameters, a tree of arrays."""
    return self._inference.params

  @property
  def vocabulary(self) -> "Vocabulary":
    """The vocabulary of texts."""
    return self._inference.vocabulary

  def generate(
    self,
    texts: str | Sequence[str],
    *,
    prefix: str | None = None,
    details: bool = False,
    **decoding: Any,
  ) -> str | list[str] | Answer | list[Answer]:
    """Writes an answer to each text, or a continuation of it.

    Args:
      texts: A text or several, each as the model was trained on, with the
        prefix of its task.
      prefix: The text that every answer begins with.
      details: Whether an answer is a dictionary with `prediction`, `score`,
        `log_likelihood` and, of several outputs, `predictions`.
      **decoding: Options of the search, fields of `DecodingOptions`, as
        `num_beams=4` or `temperature=0.7`.

    Raises:
      UserError: The model is an encoder, or an option is unknown or wrong.
    """
    if not self._inference.converter.writes:
      raise UserError(
        f"the model is an encoder, which writes no text; ask it by "
        f"`{_ASKS[self._inference.converter.form]}` or `embed`"
      )
    options = self._inference.decoding
    if decoding:
      options = _replaced(options, decoding)
    given = {} if prefix is None else {"prefix": prefix}
    found = self._answers(texts, given, decoding=options)
    if details:
      return found
    return _each(found, lambda answer: answer["prediction"])

  def score(
    self, texts: str | Sequence[str], targets: str | Sequence[str]
  ) -> float | list[float]:
    """Returns log-likelihoods of targets, in nats, summed over their tokens.

    Args:
      texts: A text or several.
      targets: The target of each text.

    Raises:
      UserError: The model is an encoder, or the numbers differ.
    """
    found = self._of_pairs(texts, targets, scored=True)
    return _each(found, lambda answer: answer["log_likelihood"])

  def classify(self, texts: Texts) -> Answer | list[Answer]:
    """Returns `prediction` and `probabilities` by class of texts or pairs.

    A model of a number has the number as its `prediction`.
    """
    return self._asked(texts, "classes", "number")

  def choose(self, texts: Texts) -> Answer | list[Answer]:
    """Returns which choice is right: `prediction` and `probabilities`.

    Args:
      texts: A tuple of a text and its choices, or several.
    """
    return self._asked(texts, "choices")

  def spans(self, texts: Texts) -> Answer | list[Answer]:
    """Returns the best parts of a context: `prediction` and `spans`.

    Args:
      texts: A tuple of a question and its context, or several.
    """
    return self._asked(texts, "spans")

  def tags(self, texts: Texts) -> Answer | list[Answer]:
    """Returns the tag of each word of a text: `tags`."""
    return self._asked(texts, "tags")

  def fill(
    self, texts: Texts, *, num_fillings: int | None = None
  ) -> Answer | list[Answer]:
    """Fills `[MASK]`: `prediction`, and `fillings` of each mask.

    Args:
      texts: Texts in which `[MASK]` stands for a token.
      num_fillings: The number of tokens that are named for each mask.
    """
    changes = {} if num_fillings is None else {"num_fillings": num_fillings}
    return self._asked(texts, None, **changes)

  def embed(
    self,
    texts: Texts,
    *,
    layer: int | Sequence[int] | None = None,
    pool: str | None = None,
    normalize: bool | None = None,
    width: int | None = None,
    prompt: str | None = None,
    place: int = 1,
  ) -> "np.ndarray":
    """Returns the vectors of texts by an encoder, float32 [D] or [texts, D].

    Args:
      texts: A text or a pair, or several.
      layer: The layer whose output is taken, 0 what enters them; several are
        concatenated; None for the output of the model.
      pool: "mean" of all tokens, or the "first" or "last" one; None for what
        the model was trained with, else "mean".
      normalize: Whether vectors have the norm 1; None as for `pool`, else
        False.
      width: The number of first features that are kept; None for all.
      prompt: The name of a text that a directory of sentence-transformers puts
        before each; None for its default, or none.
      place: The place of the texts in the rows of training, 1 for anchors and 2
        for others, which another encoder may read.

    Raises:
      UserError: The model is no encoder, or has no such layer, width or prompt.
    """
    import numpy as np

    from transformer_zoo.api import configurations
    from transformer_zoo.modules.mixes import LayerMix
    from transformer_zoo.runs.answers.embeddings import Embedding

    named = {"pool": pool, "normalize": normalize, "width": width}
    named |= {"prompt": prompt, "place": place}
    fields = {k: v for k, v in named.items() if v is not None}
    if layer is not None:
      layers = (layer,) if isinstance(layer, int) else tuple(layer)
      fields["mix"] = LayerMix(kind="concatenation", layers=layers)
    beside = configurations.prompts_beside(str(self._inference.checkpoint[0]))
    reading = Embedding(**{**beside, **fields})
    found = self._answers(texts, {}, reading=reading)
    if _is_one(texts):
      return found["embedding"]
    return np.stack([answer["embedding"] for answer in found])

  def logits(
    self,
    texts: Texts,
    targets: str | Sequence[str] | None = None,
    *,
    head: str | None = None,
  ) -> "np.ndarray | list[np.ndarray]":
    """Returns logits, float32, an array for each text.

    Args:
      texts: A text or several.
      targets: The target of each text, for a model that writes: [T, V], those
        of each of its tokens after the text and the tokens before it.
      head: The head of an encoder, the only one if None: [K] if it reads the
        first token, [L, K] of all tokens otherwise.

    Raises:
      UserError: Targets are missing, or there is no such head.
    """
    from transformer_zoo.runs.answers.logits import Logits

    reading = Logits(head)
    if not self._inference.converter.writes:
      found = self._answers(texts, {}, reading=reading)
    elif targets is None:
      raise UserError(
        "targets are None; give the target of each text, whose tokens' logits "
        "are asked for"
      )
    else:
      found = self._of_pairs(texts, targets, reading=reading)
    return _each(found, lambda answer: answer["logits"])

  def answers(
    self, examples: Iterable[Mapping[str, Any]], *, scored: bool = False
  ) -> list[Answer]:
    """Answers examples as `zoo infer --json` does lines of a file.

    Args:
      examples: Mappings with `inputs`, perhaps a `prefix`, and `targets` if
        they are scored; other keys are passed on.
      scored: Whether targets are scored and nothing is written.
    """
    return list(self._inference.answers(examples, scored=scored))

  def save(
    self, path: str | os.PathLike[str], format: str | None = None
  ) -> None:
    """Writes the checkpoint in another format, as `zoo convert` does.

    Args:
      path: The folder to write, which does not exist.
      format: "zoo", "huggingface", "t5x" or "peft"; None for ours, or Hugging
        Face's if it is ours already.

    Raises:
      UserError: The format has no such model, or the model is an ensemble.
    """
    from transformer_zoo.conversion import convert

    checkpoint, *others = self._inference.checkpoint
    if others:
      raise UserError(
        f"the model is an ensemble of {1 + len(others)} checkpoints, which no "
        "format holds; save each of them"
      )
    convert.convert(checkpoint, path, to=format)

  def export(self, path: str | os.PathLike[str], **options: Any) -> None:
    """Writes programs that need JAX alone, as `zoo export` does.

    Args:
      path: The folder to write, which does not exist.
      **options: Arguments of `exported_programs.write_checkpoint`.
    """
    from transformer_zoo.runs import exported_programs

    exported_programs.write_checkpoint(path, self._inference, **options)

  def __repr__(self) -> str:
    from transformer_zoo.checkpoints import model_parameters

    shapes = model_parameters.shapes_of(self.module)
    number = sum(map(math.prod, shapes.values()))
    return (
      f"Model({type(self.module).__name__}, {number:,} parameters, from "
      f"{self.path!r})"
    )

  def _repr_html_(self) -> str:
    import treescope

    return treescope.render_to_html(self.module)

  def _answers(
    self, texts: Texts, given: Mapping[str, Any], **changes: Any
  ) -> Answer | list[Answer]:
    """Returns answers to texts by an inference with other settings."""
    several = _listed(texts)
    if not several:
      return []
    examples = [{"inputs": _joined(text), **given} for text in several]
    return self._found(texts, examples, changes)

  def _of_pairs(
    self,
    texts: str | Sequence[str],
    targets: str | Sequence[str],
    *,
    scored: bool = False,
    **changes: Any,
  ) -> Answer | list[Answer]:
    """Returns answers to texts with their targets."""
    pairs = [_listed(each) for each in (texts, targets)]
    if len(pairs[0]) != len(pairs[1]):
      raise UserError(
        f"{len(pairs[0])} texts have {len(pairs[1])} targets; give one "
        "target for each text"
      )
    examples = [
      {"inputs": text, "targets": target}
      for text, target in zip(*pairs, strict=True)
    ]
    return self._found(texts, examples, changes, scored=scored)

  def _found(self, texts, examples, changes, **how):
    """Returns what is added to examples, of the only one for one text."""
    asked = self._with(**changes)
    answers = [
      {k: v for k, v in answer.items() if k not in examples[0]}
      for answer in asked.answers(examples, **how)
    ]
    return answers[0] if _is_one(texts) else answers

  def _asked(self, texts: Texts, *forms: str | None, **changes: Any):
    """Returns answers of an encoder in one of the forms."""
    converter = self._inference.converter
    if converter.writes:
      raise UserError(
        "the model writes its answers; ask it by `generate` or `score`"
      )
    if converter.form not in forms:
      kind = converter.form or "masked tokens"
      raise UserError(
        f"the model answers {kind}; ask it by `{_ASKS[converter.form]}`"
      )
    return self._answers(texts, {}, **changes)

  def _with(self, **changes: Any) -> "Inference":
    """Returns the inference with other settings, the same for the same ones."""
    changes = {
      name: value
      for name, value in changes.items()
      if value != getattr(self._inference, name)
    }
    if not changes:
      return self._inference
    key = repr(sorted(changes.items(), key=lambda item: item[0]))
    if key not in self._changed:
      _ = self._inference.params  # Read once, and handed on.
      self._changed[key] = self._inference.changed(**changes)
    return self._changed[key]


def _replaced(options: Any, changes: Mapping[str, Any]) -> Any:
  """Returns other `DecodingOptions`.

  Raises:
    UserError: An option is unknown or wrong.
  """
  known = [field.name for field in dataclasses.fields(options)]
  for name in changes:
    if name not in known:
      raise UserError(
        f"there is no option of decoding {name!r}{nearest(name, known)}; "
        f"options are {', '.join(known)}"
      )
  return dataclasses.replace(options, **changes)


def _is_one(texts: Texts) -> bool:
  """Whether it is one text, or one tuple of texts."""
  return isinstance(texts, str | tuple)


def _listed(texts: Texts) -> list[Text]:
  """Returns the texts as a list.

  Raises:
    UserError: They are neither a text nor several.
  """
  if _is_one(texts):
    return [texts]
  if isinstance(texts, Iterable):
    texts = list(texts)
    if all(map(_is_one, texts)):
      return texts
  raise UserError(
    f"texts are {texts!r}; give a text, a tuple of the texts of one row, or a "
    "list of them"
  )


def _joined(text: Text) -> str:
  """The text of a row, in which tabs divide several."""
  return text if isinstance(text, str) else "\t".join(text)


def _each(found: Any, of: Any) -> Any:
  """Returns what is asked of the only answer, or of each."""
  return [of(one) for one in found] if isinstance(found, list) else of(found)
