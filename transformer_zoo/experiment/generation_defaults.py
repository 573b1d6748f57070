"""What a Hugging Face directory says of decoding, for `DecodingOptions`."""

import pathlib
import sys

from transformer_zoo.errors import UserError
from transformer_zoo.interop.huggingface import directory
from transformer_zoo.interop.huggingface import writing

_BAD_WORDS = "bad_words_ids"


def forbidden_ids(folder: pathlib.Path) -> tuple[int, ...]:
  """The ids that a directory forbids, as Marian's does its padding.

  Where there is a generation_config.json, config.json says nothing of decoding,
  and the end of a text is never forbidden: both as in `transformers`. Bad words
  of several ids are passed over with a sentence on stderr.

  Args:
    folder: of config.json; nothing is forbidden where it has none.

  Raises:
    UserError: the file is damaged, or lists no ids.
  """
  files = (folder / writing.GENERATION_CONFIG, folder / directory.CONFIG)
  path = next((file for file in files if file.is_file()), None)
  if path is None:
    return ()
  content = directory.read_json(path)
  words = content.get(_BAD_WORDS) or []
  if not _are_lists_of_ids(words):
    raise UserError(
      f"{_BAD_WORDS} in {str(path)!r} is {words!r}; it has to be a list of "
      "lists of ids"
    )
  longer = [word for word in words if len(word) > 1]
  if longer:
    print(
      f"passed over: {len(longer)} of the {len(words)} {_BAD_WORDS} in "
      f"{str(path)!r}, which are of several ids; single ones alone are "
      "forbidden here",
      file=sys.stderr,
    )
  ends = content.get("eos_token_id")
  ends = ends if isinstance(ends, list) else [ends]
  return tuple(
    word[0] for word in words if len(word) == 1 and word[0] not in ends
  )


def _are_lists_of_ids(words) -> bool:
  return isinstance(words, list) and all(
    isinstance(word, list) and word and all(isinstance(i, int) for i in word)
    for word in words
  )
