"""The supervised tasks of the suite: one raw example and both texts of each.

The formats are like T5's (`cola sentence: ...` and so on). Each has 4,000
training examples (summaries 300, translation 500), 600 of validation and 200
of test, half of these over words that training lacks (but for summaries).
`mini_mrpc`, `mini_stsb` and `mini_nli` are in no group of the suite: they are
not learnt in the suite's steps.
"""

import functools

import seqio

from tasks.miniature import source
from tasks.miniature.examples import pairs
from tasks.miniature.examples import reading
from tasks.miniature.examples import single
from tasks.miniature.examples import splits
from transformer_zoo.evaluation.answers import post_processors
from transformer_zoo.evaluation.metrics import classification
from transformer_zoo.evaluation.metrics import question_answering
from transformer_zoo.evaluation.metrics import text_overlap

_STEPS = (
  seqio.preprocessors.tokenize,
  seqio.preprocessors.append_eos_after_trim,
)

# Acceptability. {"sentence": "walter saw herself.", "label": "unacceptable"}
#   inputs:  mini_cola sentence: walter saw herself.
#   targets: unacceptable
seqio.TaskRegistry.add(
  "mini_cola",
  source=source.examples_source(
    single.acceptability,
    stream=0,
    inputs="mini_cola sentence: {sentence}",
    targets="{label}",
  ),
  preprocessors=_STEPS,
  output_features=source.FEATURES,
  postprocess_fn=functools.partial(
    post_processors.string_label_to_class_id,
    label_classes=["unacceptable", "acceptable"],
  ),
  metric_fns=[classification.matthews_corrcoef],
)

# Sentiment. {"sentence": "to anna, the meal felt awful.", "label": "negative"}
#   inputs:  mini_sst2 sentence: to anna, the meal felt awful.
#   targets: negative
seqio.TaskRegistry.add(
  "mini_sst2",
  source=source.examples_source(
    single.sentiment,
    stream=1,
    inputs="mini_sst2 sentence: {sentence}",
    targets="{label}",
  ),
  preprocessors=_STEPS,
  output_features=source.FEATURES,
  postprocess_fn=functools.partial(
    post_processors.string_label_to_class_id,
    label_classes=["negative", "positive"],
  ),
  metric_fns=[classification.accuracy],
)

# Paraphrase. {"sentence1": "anna saw a huge thing.", "sentence2": "anna saw a
# big thing.", "label": "equivalent"}
#   inputs:  mini_mrpc sentence1: anna saw ... sentence2: anna saw a big ...
#   targets: equivalent
seqio.TaskRegistry.add(
  "mini_mrpc",
  source=source.examples_source(
    pairs.paraphrase,
    stream=2,
    inputs="mini_mrpc sentence1: {sentence1} sentence2: {sentence2}",
    targets="{label}",
  ),
  preprocessors=_STEPS,
  output_features=source.FEATURES,
  postprocess_fn=functools.partial(
    post_processors.string_label_to_class_id,
    label_classes=["not_equivalent", "equivalent"],
  ),
  metric_fns=[classification.accuracy],
)

# Similarity. {"sentence1": "clara sold the rope.", "sentence2": "clara sold the
# saw.", "label": "3.0"}
#   inputs:  mini_stsb sentence1: clara sold ... sentence2: clara sold the saw.
#   targets: 3.0
seqio.TaskRegistry.add(
  "mini_stsb",
  source=source.examples_source(
    pairs.similarity,
    stream=3,
    inputs="mini_stsb sentence1: {sentence1} sentence2: {sentence2}",
    targets="{label}",
  ),
  preprocessors=_STEPS,
  output_features=source.FEATURES,
  postprocess_fn=post_processors.string_to_float,
  metric_fns=[
    classification.pearson_corrcoef,
    classification.spearman_corrcoef,
  ],
)

# Entailment. {"premise": "iris found a huge otter near the mill.",
# "hypothesis": "it was an animal.", "label": "entailment"}
#   inputs:  mini_nli hypothesis: what iris ... premise: iris found ...
#   targets: entailment
seqio.TaskRegistry.add(
  "mini_nli",
  source=source.examples_source(
    pairs.entailment,
    stream=4,
    inputs="mini_nli hypothesis: {hypothesis} premise: {premise}",
    targets="{label}",
  ),
  preprocessors=_STEPS,
  output_features=source.FEATURES,
  postprocess_fn=functools.partial(
    post_processors.string_label_to_class_id,
    label_classes=["entailment", "neutral", "contradiction"],
  ),
  metric_fns=[classification.accuracy],
)

# Effect. {"premise": "emma saw the ghost.", "choice1": "good", "choice2":
# "bad", "label": "bad"}
#   inputs:  mini_copa premise: emma saw the ghost. effect: good or bad?
#   targets: bad
seqio.TaskRegistry.add(
  "mini_copa",
  source=source.examples_source(
    pairs.cause_or_effect,
    stream=5,
    inputs="mini_copa premise: {premise} effect: {choice1} or {choice2}?",
    targets="{label}",
  ),
  preprocessors=_STEPS,
  output_features=source.FEATURES,
  postprocess_fn=post_processors.lower_text,
  metric_fns=[classification.accuracy],
)

# Pronoun referent. {"text": "emma saw the pear and the saw. *it* was ripe.",
# "kind1": "food", "kind2": "tool", "label": "food"}
#   inputs:  mini_wsc text: emma saw the pear and the saw. *it* was ripe.
#            referent: food or tool?
#   targets: food
seqio.TaskRegistry.add(
  "mini_wsc",
  source=source.examples_source(
    single.referent,
    stream=6,
    inputs="mini_wsc text: {text} referent: {kind1} or {kind2}?",
    targets="{label}",
  ),
  preprocessors=_STEPS,
  output_features=source.FEATURES,
  postprocess_fn=post_processors.lower_text,
  metric_fns=[classification.accuracy],
)

# Word in context. {"sentence": "olga fed the bat.", "word": "bat", "sense1":
# "tool", "sense2": "animal", "label": "animal"}
#   inputs:  mini_wic sentence: olga fed the bat. word: bat, tool or animal?
#   targets: animal
seqio.TaskRegistry.add(
  "mini_wic",
  source=source.examples_source(
    pairs.word_in_context,
    stream=7,
    inputs="mini_wic sentence: {sentence} word: {word}, {sense1} or {sense2}?",
    targets="{label}",
  ),
  preprocessors=_STEPS,
  output_features=source.FEATURES,
  postprocess_fn=post_processors.lower_text,
  metric_fns=[classification.accuracy],
)

# Span answer. {"context": "emma had an animal, a tool, a plant and a garment.",
# "question": "which one was furry?", "answers": ["animal", "an animal"]}
#   inputs:  mini_squad question: which one was furry? context: emma had an ...
#   targets: animal
seqio.TaskRegistry.add(
  "mini_squad",
  source=source.examples_source(
    reading.span_answer,
    stream=8,
    inputs="mini_squad question: {question} context: {context}",
    targets="{answers[0]}",
  ),
  preprocessors=_STEPS,
  output_features=source.FEATURES,
  postprocess_fn=post_processors.qa,
  metric_fns=[question_answering.squad],
)

# Summary. {"document": "nora is a nurse from varley. ... on that day she sold
# the fern.", "summary": "nora from varley sold the fern."}
#   inputs:  mini_summarize: nora is a nurse from varley. ...
#   targets: nora from varley sold the fern.
seqio.TaskRegistry.add(
  "mini_summarize",
  source=source.examples_source(
    reading.summary,
    stream=9,
    own_words=False,  # What is asked for is to copy.
    sizes=splits.SIZES_OF_SUMMARIES,
    inputs="mini_summarize: {document}",
    targets="{summary}",
  ),
  preprocessors=_STEPS,
  output_features=source.FEATURES,
  postprocess_fn=post_processors.lower_text,
  metric_fns=[text_overlap.rouge],
)

# Translation. {"english": "the red fox saw the pie.", "talu": "vudi lemo kapek
# nila."}
#   inputs:  mini_translate english to talu: the red fox saw the pie.
#   targets: vudi lemo kapek nila.
seqio.TaskRegistry.add(
  "mini_translate",
  source=source.examples_source(
    reading.translation,
    stream=10,
    sizes=splits.SIZES_OF_TRANSLATIONS,
    inputs="mini_translate english to talu: {english}",
    targets="{talu}",
  ),
  preprocessors=_STEPS,
  output_features=source.FEATURES,
  postprocess_fn=post_processors.lower_text,
  metric_fns=[text_overlap.bleu],
)
