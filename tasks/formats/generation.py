"""Translation and summarisation into T5's text-to-text form.

SeqIO preprocessors over raw examples; the strings equal
`t5/data/preprocessors.py`, character by character.
"""

import seqio
import tensorflow as tf

from transformer_zoo.errors import nearest
from transformer_zoo.errors import UserError

# As the Unicode CLDR names them in English, which t5 asks Babel for.
_LANGUAGES = {
  "ar": "Arabic",
  "bg": "Bulgarian",
  "cs": "Czech",
  "da": "Danish",
  "de": "German",
  "el": "Greek",
  "en": "English",
  "es": "Spanish",
  "et": "Estonian",
  "fa": "Persian",
  "fi": "Finnish",
  "fr": "French",
  "gu": "Gujarati",
  "he": "Hebrew",
  "hi": "Hindi",
  "hr": "Croatian",
  "hu": "Hungarian",
  "id": "Indonesian",
  "it": "Italian",
  "ja": "Japanese",
  "kk": "Kazakh",
  "ko": "Korean",
  "lt": "Lithuanian",
  "lv": "Latvian",
  "ne": "Nepali",
  "nl": "Dutch",
  "pl": "Polish",
  "pt": "Portuguese",
  "ro": "Romanian",
  "ru": "Russian",
  "si": "Sinhala",
  "sk": "Slovak",
  "sl": "Slovenian",
  "sr": "Serbian",
  "sv": "Swedish",
  "th": "Thai",
  "tr": "Turkish",
  "uk": "Ukrainian",
  "vi": "Vietnamese",
  "zh": "Chinese",
}


def translate(
  dataset: tf.data.Dataset, source_language: str, target_language: str
) -> tf.data.Dataset:
  """Writes a sentence and its translation.

      {'de': 'Das ist gut.', 'en': 'That is good.'}
      -> 'translate English to German: That is good.', 'Das ist gut.'

  From t5 `preprocessors.translate`.

  Args:
    dataset: A dataset of a sentence in each language, by its code.
    source_language: code to translate from; its first two letters count, so
      that `zh-cn` is Chinese.
    target_language: code to translate to.

  Returns:
    `inputs` and `targets`.

  Raises:
    UserError: a language is not known.
  """
  source, target = _name(source_language), _name(target_language)

  def write(example):
    return {
      "inputs": tf.strings.join(
        [f"translate {source} to {target}: ", example[source_language]]
      ),
      "targets": example[target_language],
    }

  return dataset.map(write, num_parallel_calls=tf.data.experimental.AUTOTUNE)


@seqio.map_over_dataset
def summarize(
  example: dict[str, tf.Tensor], article_key: str, summary_key: str
) -> dict[str, tf.Tensor]:
  """Writes a text and its summary.

      {'article': 'An article.', 'highlights': 'A summary.'}
      -> 'summarize: An article.', 'A summary.'

  From t5 `preprocessors.summarize`.

  Args:
    example: two strings.
    article_key: the field with the text.
    summary_key: the field with the summary.

  Returns:
    `inputs` and `targets`.
  """
  return {
    "inputs": tf.strings.join(["summarize: ", example[article_key]]),
    "targets": example[summary_key],
  }


def _name(language: str) -> str:
  """Returns the English name of a language code."""
  name = _LANGUAGES.get(language[:2])
  if name is None:
    raise UserError(
      f"No language is known by the code {language!r}"
      + nearest(language[:2], _LANGUAGES)
    )
  return name
