"""CzEng (Bojar et al. 2016): sentences in Czech and English.

    generation/czeng/train.tsv
    subtitlesM-b1-00train-f000001-s1 <tab> 0.99 <tab> Děkuji. <tab> Thank you.
    -> 'translate Czech to English: Děkuji.', 'Thank you.'

The files have the columns of the plain-text export: the pair, its score, the
Czech and the English sentence, without a first line of names.
"""

from tasks.your_data.text_to_text import TextToTextTask

_SPLITS = {
  split: f"generation/czeng/{split}.tsv"
  for split in ("train", "validation", "test")
}
_COLUMNS = ("pair", "score", "cs", "en")

TextToTextTask.from_tsv(
  "czeng_csen",
  splits=_SPLITS,
  columns=_COLUMNS,
  inputs="translate Czech to English: {cs}",
  targets="{en}",
  metrics=["bleu", "perplexity"],
)
TextToTextTask.from_tsv(
  "czeng_encs",
  splits=_SPLITS,
  columns=_COLUMNS,
  inputs="translate English to Czech: {en}",
  targets="{cs}",
  metrics=["bleu", "perplexity"],
)
