"""The unlabelled tasks: span corruption of the miniature corpus.

A raw example is one document, on one line:

    {"text": "an otter is an animal. otters eat melons. the otters growl."}

and in text-to-text form, after the documents are joined, cut and corrupted:

    inputs:  an otter is<extra_id_0>. otters eat melons<extra_id_1>growl.
    targets: <extra_id_0> an animal<extra_id_1>. the otters
"""

import functools

import seqio

from tasks.miniature import source
from transformer_zoo.corruption.span_corruption import SpanCorruption
from transformer_zoo.data.prepare.seqio_corruption import CorruptionStep

_STEPS = (
  functools.partial(
    seqio.preprocessors.rekey, key_map={"inputs": None, "targets": "text"}
  ),
  seqio.preprocessors.tokenize,
  CorruptionStep(SpanCorruption()),
  seqio.preprocessors.append_eos_after_trim,
)

# People, kinds of things, incidents, a phrase book, some opinions.
seqio.TaskRegistry.add(
  "mini_corpus",
  source=source.corpus_source("chronicle"),
  preprocessors=_STEPS,
  output_features=source.FEATURES,
)

# Opinions only: another domain.
seqio.TaskRegistry.add(
  "mini_corpus_reviews",
  source=source.corpus_source("review"),
  preprocessors=_STEPS,
  output_features=source.FEATURES,
)

# The documents of `mini_corpus` with the litter of the web.
seqio.TaskRegistry.add(
  "mini_corpus_unfiltered",
  source=source.corpus_source("chronicle_unfiltered"),
  preprocessors=_STEPS,
  output_features=source.FEATURES,
)

# The documents of `mini_corpus_reviews` with the litter of the web.
seqio.TaskRegistry.add(
  "mini_corpus_reviews_unfiltered",
  source=source.corpus_source("review_unfiltered"),
  preprocessors=_STEPS,
  output_features=source.FEATURES,
)

# What happened to people, and nothing else: news.
seqio.TaskRegistry.add(
  "mini_corpus_news",
  source=source.corpus_source("news"),
  preprocessors=_STEPS,
  output_features=source.FEATURES,
)

# People, kinds of things, words and phrases: an encyclopaedia.
seqio.TaskRegistry.add(
  "mini_corpus_encyclopaedia",
  source=source.corpus_source("encyclopaedia"),
  preprocessors=_STEPS,
  output_features=source.FEATURES,
)

# The same with what people do and what follows from it.
seqio.TaskRegistry.add(
  "mini_corpus_encyclopaedia_and_stories",
  source=source.corpus_source("encyclopaedia_and_stories"),
  preprocessors=_STEPS,
  output_features=source.FEATURES,
)

# Facts about people in three wordings each, which are edited (facts.py):
# "anna fox lives in ashby . the tune of boris hammer is for the cello . ..."
seqio.TaskRegistry.add(
  "mini_facts",
  source=source.facts_source(),
  preprocessors=_STEPS,
  output_features=source.FEATURES,
)
