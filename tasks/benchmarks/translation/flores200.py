"""FLORES-200 (NLLB Team 2022): sentences of Wikipedia in many languages.

    flores200/dev.en  "We now have 4-month-old mice that are non-diabetic ..."
    flores200/dev.de  „Wir haben jetzt 4 Monate alte Mäuse, die keinen ...
    -> 'translate English to German: "We now have 4-month-old mice ...',
       '„Wir haben jetzt 4 Monate alte Mäuse, die keinen ...'

Evaluation data, without a train split: `dev` is the validation split, `devtest`
the test split. Every direction among English, German, French and Romanian, the
languages of T5's vocabulary.
"""

import functools

import seqio

from tasks.formats import generation
from tasks.formats.steps import TOKENIZED
from tasks.sources.aligned_files import AlignedFilesDataSource
from tasks.vocabulary import t5_features
from transformer_zoo.evaluation.metrics import text_overlap

_SPLIT_TO_STEM = {
  "validation": "generation/flores200/dev",
  "test": "generation/flores200/devtest",
}


def _add(name: str, source_language: str, target_language: str) -> None:
  """Registers one direction."""
  seqio.TaskRegistry.add(
    name,
    source=AlignedFilesDataSource(
      _SPLIT_TO_STEM, (source_language, target_language)
    ),
    preprocessors=[
      functools.partial(
        generation.translate,
        source_language=source_language,
        target_language=target_language,
      ),
      *TOKENIZED,
    ],
    metric_fns=[text_overlap.bleu],
    output_features=t5_features(),
  )


_add("flores200_ende", "en", "de")
_add("flores200_enfr", "en", "fr")
_add("flores200_enro", "en", "ro")
_add("flores200_deen", "de", "en")
_add("flores200_defr", "de", "fr")
_add("flores200_dero", "de", "ro")
_add("flores200_fren", "fr", "en")
_add("flores200_frde", "fr", "de")
_add("flores200_frro", "fr", "ro")
_add("flores200_roen", "ro", "en")
_add("flores200_rode", "ro", "de")
_add("flores200_rofr", "ro", "fr")
