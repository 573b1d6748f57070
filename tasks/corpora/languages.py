"""Text in German, French and Romanian, to adapt a model to and to score.

One line is a document. FLORES-200 (NLLB Team 2022) has sentences of Wikipedia
and no train split; Multi30k (Elliott et al. 2016) has captions.
"""

from tasks.corpora.unlabelled_text import register_text_task

_FLORES = "generation/flores200"
_MULTI30K = "generation/multi30k_en_de"

register_text_task(
  "flores200_de_text",
  {"validation": f"{_FLORES}/dev.de", "test": f"{_FLORES}/devtest.de"},
)
register_text_task(
  "flores200_fr_text",
  {"validation": f"{_FLORES}/dev.fr", "test": f"{_FLORES}/devtest.fr"},
)
register_text_task(
  "flores200_ro_text",
  {"validation": f"{_FLORES}/dev.ro", "test": f"{_FLORES}/devtest.ro"},
)
register_text_task(
  "multi30k_de_text",
  {"train": f"{_MULTI30K}/train.de", "validation": f"{_MULTI30K}/val.de"},
)
