"""The supervised tasks of the suite: one raw example and both texts of each.

The formats are T5's (`cola sentence: ...` and so on). Each has 300 training,
200 validation and 200 test examples over disjoint parts of the lexicon.
"""

import functools

import seqio

from tasks.miniature import examples_pairs
from tasks.miniature import examples_reading
from tasks.miniature import examples_single
from tasks.miniature import source
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
    examples_single.acceptability,
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
    examples_single.sentiment,
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

# Paraphrase. {"sentence1": "emma bought a huge sled in selby.", "sentence2":
# "in selby, emma purchased a big sledge.", "label": "equivalent"}
#   inputs:  mini_mrpc sentence1: emma bought ... sentence2: in selby, ...
#   targets: equivalent
seqio.TaskRegistry.add(
  "mini_mrpc",
  source=source.examples_source(
    examples_pairs.paraphrase,
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
  metric_fns=[classification.f1_and_accuracy],
)

# Similarity. {"sentence1": "emma sold a thin rope in ashby.", "sentence2":
# "emma vended a slim saw in corwen.", "label": "3.4"}
#   inputs:  mini_stsb sentence1: emma sold ... sentence2: emma vended ...
#   targets: 3.4
seqio.TaskRegistry.add(
  "mini_stsb",
  source=source.examples_source(
    examples_pairs.similarity,
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
# "hypothesis": "what iris found was a big animal.", "label": "entailment"}
#   inputs:  mini_nli hypothesis: what iris ... premise: iris found ...
#   targets: entailment
seqio.TaskRegistry.add(
  "mini_nli",
  source=source.examples_source(
    examples_pairs.entailment,
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

# Cause or effect. {"premise": "emma slipped on the ice.", "question":
# "effect", "choice1": "she limped.", "choice2": "the baby cried.", "label":
# "choice1"}
#   inputs:  mini_copa choice1: she limped. choice2: the baby cried. premise:
#            emma slipped on the ice. question: effect
#   targets: choice1
seqio.TaskRegistry.add(
  "mini_copa",
  source=source.examples_source(
    examples_pairs.cause_or_effect,
    stream=5,
    inputs=(
      "mini_copa choice1: {choice1} choice2: {choice2} premise: {premise} "
      "question: {question}"
    ),
    targets="{label}",
  ),
  preprocessors=_STEPS,
  output_features=source.FEATURES,
  postprocess_fn=functools.partial(
    post_processors.string_label_to_class_id,
    label_classes=["choice1", "choice2"],
  ),
  metric_fns=[classification.accuracy],
)

# Pronoun referent. {"text": "emma put the pear near the saw, because *it* was
# ripe.", "referent": "the pear"}
#   inputs:  mini_wsc: emma put the pear near the saw, because *it* was ripe.
#   targets: the pear
seqio.TaskRegistry.add(
  "mini_wsc",
  source=source.examples_source(
    examples_single.referent,
    stream=6,
    own_words=False,
    inputs="mini_wsc: {text}",
    targets="{referent}",
  ),
  preprocessors=_STEPS,
  output_features=source.FEATURES,
  postprocess_fn=post_processors.lower_text,
  metric_fns=[classification.accuracy],
)

# Word in context. {"sentence1": "olga fed the tame bat.", "sentence2": "simon
# used the rusty bat.", "word": "bat", "label": "False"}
#   inputs:  mini_wic sentence1: olga fed the tame bat. sentence2: simon used
#            the rusty bat. word: bat
#   targets: False
seqio.TaskRegistry.add(
  "mini_wic",
  source=source.examples_source(
    examples_pairs.word_in_context,
    stream=7,
    inputs=(
      "mini_wic sentence1: {sentence1} sentence2: {sentence2} word: {word}"
    ),
    targets="{label}",
  ),
  preprocessors=_STEPS,
  output_features=source.FEATURES,
  postprocess_fn=functools.partial(
    post_processors.string_label_to_class_id, label_classes=["False", "True"]
  ),
  metric_fns=[classification.accuracy],
)

# Span answer. {"context": "emma is a cook. she lives in ashby.", "question":
# "where does emma live?", "answers": ["ashby", "in ashby"]}
#   inputs:  mini_squad question: where does emma live? context: emma is ...
#   targets: ashby
seqio.TaskRegistry.add(
  "mini_squad",
  source=source.examples_source(
    examples_reading.span_answer,
    stream=8,
    own_words=False,
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
    examples_reading.summary,
    stream=9,
    own_words=False,
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
    examples_reading.translation,
    stream=10,
    own_words=False,
    inputs="mini_translate english to talu: {english}",
    targets="{talu}",
  ),
  preprocessors=_STEPS,
  output_features=source.FEATURES,
  postprocess_fn=post_processors.lower_text,
  metric_fns=[text_overlap.bleu],
)
