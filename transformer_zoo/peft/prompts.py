"""Prompt tuning: trained vectors in front of every text (Lester et al. 2021).

The converter `PromptedFeatures` (data/features/prompts.py) gives the places of
a prompt ids beyond the vocabulary; here the embedder gives them vectors. The
model itself, its masks and its decoding know nothing of it.
"""

from collections.abc import Callable, Sequence
import re

from flax import linen as nn
import gin
import jax
import jax.numpy as jnp
import numpy as np

from transformer_zoo import axes
from transformer_zoo.data.features import prompts
from transformer_zoo.errors import UserError
from transformer_zoo.peft import exchange
from transformer_zoo.peft import substitution
from transformer_zoo.peft.method import Method
from transformer_zoo.peft.method import Rule
from transformer_zoo.peft.substitution import Substitute


@gin.register(module="initializers")
def uniform(limit: float) -> Callable:
  """U(-limit, limit); prompt tuning draws random prompts with 0.5."""

  def init(key, shape, dtype):
    return jax.random.uniform(key, shape, dtype, -limit, limit)

  return init


class PromptedEmbed(Substitute, nn.Module, kw_only=True):
  """A table of token embeddings, and the vectors of a prompt.

  Attributes:
    prompt_length: P.
    prompt_init: The distribution of the trained vectors.
    begin_at: The ids whose embeddings each vector is added to, on average, [P]
      sequences; none for vectors by themselves. A vector that begins at 0 so
      begins at embeddings of any checkpoint, which have no gradient by it.
  """

  prompt_length: int
  prompt_init: Callable
  begin_at: Sequence[Sequence[int]] = ()

  def setup(self):
    super().setup()
    self.prompt = self.param(
      "prompt",
      axes.partitioned(self.prompt_init, "prompt", "embed"),
      (self.prompt_length, self.features),
      jnp.float32,
    )

  def __call__(self, tokens_BL: jax.Array) -> jax.Array:
    """Looks up embeddings: [B, L] ids to [B, L, D] in the compute dtype."""
    place_BL = tokens_BL - prompts.FIRST_ID
    is_prompt_BL = place_BL >= 0
    x_BLD = super().__call__(jnp.where(is_prompt_BL, 0, tokens_BL))
    prompt_PD = self.prompt_vectors().astype(x_BLD.dtype)
    prompt_BLD = jnp.take(prompt_PD, place_BL, axis=0, mode="clip")
    return jnp.where(is_prompt_BL[..., None], prompt_BLD, x_BLD)

  def prompt_vectors(self) -> jax.Array:
    """The vectors of the prompt, float32 [P, D]."""
    if not self.begin_at:
      return self.prompt
    longest = max(map(len, self.begin_at))
    ids_PT = np.zeros((self.prompt_length, longest), np.int32)
    share_PT1 = np.zeros((self.prompt_length, longest, 1), np.float32)
    for place, ids in enumerate(self.begin_at):
      ids_PT[place, : len(ids)] = ids
      share_PT1[place, : len(ids)] = 1 / len(ids)
    x_PTD = jax.lax.stop_gradient(super().__call__(jnp.asarray(ids_PT)))
    return self.prompt + jnp.sum(x_PTD * share_PT1, axis=1)


# Heads whose one answer of a text `peft` reads at the first vector of a prompt.
_READ_AT_PROMPT = re.compile(r"heads/(classes|number)/")


def _read(directory: exchange.Directory) -> exchange.Imported:
  """Reads a prompt of `peft`; T5's encoder reads the first half of a double."""
  length = directory.settings["num_virtual_tokens"]
  width = directory.shape("token_embedder/embedding")[-1]
  vectors = directory.require(
    "prompt_embeddings", [(length, width), (2 * length, width)]
  )
  has_class = any(map(_READ_AT_PROMPT.match, directory.base))
  return exchange.Imported(
    f"peft/{'prompt_answers' if has_class else 'prompt'}.gin",
    {"PROMPT_LENGTH": length},
    {"token_embedder/prompt": vectors[:length]},
  )


def _write(trained: exchange.Trained) -> exchange.Written:
  """Writes a directory of `peft`: the vectors with what they began at."""
  if any(
    map(_READ_AT_PROMPT.match, trained.tensors)
  ) and not trained.converter_field("answers_at_prompt"):
    raise UserError(
      f"{trained.name} reads the class of a text at [CLS], and `peft` at the "
      "first vector of the prompt; train it with peft/prompt_answers.gin to "
      "exchange it"
    )
  embedder = trained.model.token_embedder.clone(parent=None, name=None)
  vectors = embedder.apply(
    {"params": trained.below("token_embedder")},
    method=type(embedder).prompt_vectors,
  )
  return {
    "num_virtual_tokens": len(vectors),
    "num_transformer_submodules": 1,
    "token_dim": vectors.shape[1],
    **trained.sizes(),
  }, {"prompt_embeddings": np.asarray(vectors)}


_PEFT = exchange.Exchange(
  library=exchange.PEFT,
  kind="PROMPT_TUNING",
  read=_read,
  write=_write,
  sizes=("num_virtual_tokens",),
  others="prompt_tuning_init|prompt_tuning_init_text|tokenizer_kwargs"
  "|tokenizer_name_or_path|token_dim|num_attention_heads|num_layers"
  "|num_transformer_submodules",
  wraps_modules=False,
)
PROMPT = Method(
  name="prompt",
  parts=(PromptedEmbed,),
  adds=r"token_embedder/prompt",
  exchanges=(_PEFT,),
)


@gin.register
def prompt(
  length: int,
  init: Callable = nn.initializers.zeros,
  begin_at: Sequence[Sequence[int]] = (),
  embedder: str = "token_embedder",
) -> Rule:
  """Gives an embedder the vectors of a prompt.

  Args:
    length: The number of vectors.
    init: The distribution of what is trained.
    begin_at: The ids whose embeddings the vectors begin at (`prompt_ids`); none
      for vectors by themselves.
    embedder: The name of the embedder.

  Raises:
    UserError: There are not as many vectors as beginnings.
  """
  if begin_at and len(begin_at) != length:
    raise UserError(
      f"prompt.begin_at has ids for {len(begin_at)} vectors and PROMPT_LENGTH "
      f"is {length}; bind the same length in both"
    )

  @PROMPT.rule(embedder)
  def rule(name: str, part: nn.Module) -> nn.Module:
    del name
    return substitution.extended(
      part,
      PromptedEmbed,
      prompt_length=length,
      prompt_init=init,
      begin_at=tuple(tuple(map(int, ids)) for ids in begin_at),
    )

  return rule


@gin.register(module="prompt_ids")
def of_vocabulary(
  length: int, most_frequent: int = 5000, seed: int = 0
) -> list[list[int]]:
  """Draws a token of the vocabulary for each vector, none twice if it can.

  Ids of SentencePiece are in the order of frequency; the first three are
  special (google-research/prompt-tuning `from_embedded_list`, 5,000).

  Args:
    length: The number of vectors.
    most_frequent: The number of ids that are drawn from.
    seed: The seed of the draw.
  """
  random = np.random.RandomState(seed)
  ids = np.arange(3, most_frequent)
  drawn = random.choice(ids, length, replace=length > len(ids))
  return [[int(i)] for i in drawn]


@gin.register(module="prompt_ids")
def of_labels(
  length: int,
  labels: Sequence[str],
  vocabulary: str | None = None,
  most_frequent: int = 5000,
  seed: int = 0,
) -> list[list[int]]:
  """Begins vectors at the class labels, the others at drawn tokens.

  A label of several tokens gives the average of their embeddings (Lester et
  al. 2021, section 2.2).

  Args:
    length: The number of vectors.
    labels: The texts of the classes.
    vocabulary: The path of the vocabulary, which has to be given.
    most_frequent: As for `of_vocabulary`.
    seed: The seed of the draw.

  Raises:
    UserError: There are no labels, or more than vectors, or no vocabulary.
  """
  from transformer_zoo.data.vocabularies import Vocabulary

  if not labels:
    raise UserError(
      "prompt_ids.of_labels.labels is empty: a prompt of class labels needs "
      "the target texts of the task, as PROMPT_LABELS = ('negative', "
      "'positive')"
    )
  if len(labels) > length:
    raise UserError(
      f"prompt_ids.of_labels.labels has {len(labels)} texts and PROMPT_LENGTH "
      f"is {length}; a prompt is at least as long"
    )
  if vocabulary is None:
    raise UserError(
      "prompt_ids.of_labels.vocabulary is None; set PROMPT_VOCABULARY to the "
      "file or folder of the task's vocabulary"
    )
  coder = Vocabulary(vocabulary)
  ids = [list(coder.encode(label)) for label in labels]
  return ids + of_vocabulary(length - len(ids), most_frequent, seed)
