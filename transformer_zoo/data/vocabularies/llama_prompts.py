"""Segmentation of a user's text as in `LlamaTokenizer` of `transformers` 5.

It is built anew from the pieces, whatever a tokenizer.json beside them says of
spaces: a text that begins with a space gets none before it, where SentencePiece
puts one more. Source: `models/llama/tokenization_llama.py` of `transformers`.
"""

from collections.abc import Callable, Mapping, Sequence
import re
from typing import TYPE_CHECKING

from transformer_zoo.data.vocabularies import files

if TYPE_CHECKING:
  import tokenizers

_CLASSES = ("LlamaTokenizer", "LlamaTokenizerFast")
# Models for which `AutoTokenizer` passes the class over.
_OF_OTHER_CLASSES = ("mistral", "olmo2", "qwen2")
_SPACE = "▁"
_SPECIAL = {"unk": "<unk>", "bos": "<s>", "eos": "</s>"}


def prepend_scheme(folder: str) -> str | None:
  """Returns the rule by which a folder's tokenizer puts a space before a text.

  Args:
    folder: A Hugging Face directory.

  Returns:
    'first', 'always' (also behind special pieces) or 'never', as the
    `tokenizers` library has it; None where another class reads the texts.

  Raises:
    UserError: a file is no JSON object.
  """
  config = files.tokenizer_config(folder)
  if (
    config.get("tokenizer_class") not in _CLASSES
    or files.stated_model_type(folder) in _OF_OTHER_CLASSES
  ):
    return None
  if config.get("add_prefix_space") is False:
    return "never"
  return "always" if config.get("legacy") else "first"


def like_theirs(tokenizer: "tokenizers.Tokenizer", folder: str) -> None:
  """Lets a tokenizer of a tokenizer.json put spaces as the class does.

  Args:
    tokenizer: The tokenizer of the file, which is changed in place.
    folder: The folder of the file.
  """
  from tokenizers import pre_tokenizers

  scheme = prepend_scheme(folder)
  spaces = [tokenizer.normalizer, tokenizer.pre_tokenizer]
  if scheme is None or _SPACE not in str(spaces):
    return  # As DeepSeek's byte-level BPE, which names Llama's class.
  tokenizer.normalizer = None
  tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(
    replacement=_SPACE, prepend_scheme=scheme, split=False
  )


def special_pieces(folder: str) -> list[str]:
  """The pieces that the class reads as such in a text."""
  return [*{**_SPECIAL, **files.stated_pieces(folder)}.values()]


def encode(
  text: str,
  scheme: str,
  special: Mapping[str, int],
  encode_as_it_is: Callable[[str], Sequence[int]],
) -> list[int]:
  """Returns the ids of a text.

  Args:
    text: The text of the user's message.
    scheme: The scheme of spaces before the text, as in `prepend_scheme`.
    special: pieces that are read as such, and their ids.
    encode_as_it_is: the ids of a text that nothing is put before.
  """
  found = []
  between = "|".join(map(re.escape, sorted(special, key=len, reverse=True)))
  parts = re.split(f"({between})", text) if special else [text]
  for number, part in enumerate(parts):
    if part in special:
      found.append(special[part])
    elif part:
      is_led = scheme == "always" or (scheme == "first" and number == 0)
      if is_led and not part.startswith((" ", _SPACE)):
        part = f" {part}"
      found += encode_as_it_is(part)
  return found
