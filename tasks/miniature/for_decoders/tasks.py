"""Tasks of texts and of numbers as text, with a raw example and both texts.

Those of perplexity stand beside the sets of BART's table 1; translations are of
several lengths; a number is spelled in three ways. Each has 4,000 training
examples, 600 of validation and 200 of test, of all words, in combinations that
no other split has.
"""

import seqio

from tasks.formats import directions
from tasks.miniature import source
from tasks.miniature.examples import reading
from tasks.miniature.for_decoders import examples as written
from transformer_zoo.evaluation.answers import post_processors
from transformer_zoo.evaluation.metrics import classification
from transformer_zoo.evaluation.metrics import perplexity
from transformer_zoo.evaluation.metrics import text_overlap

_STEPS = (
  seqio.preprocessors.tokenize,
  seqio.preprocessors.append_eos_after_trim,
)

# Long answers, as ELI5. {"question": "what is an otter?", "document": "most
# otters are quick.", "answer": "an otter is an animal. many otters ..."}
#   inputs:  mini_eli5 question: what is an otter? text: most otters are quick.
#   targets: an otter is an animal. many otters are found near the mill. ...
seqio.TaskRegistry.add(
  "mini_eli5",
  source=source.examples_source(
    written.long_answer,
    stream=15,
    own_words=False,
    inputs="mini_eli5 question: {question} text: {document}",
    targets="{answer}",
  ),
  preprocessors=_STEPS,
  output_features=source.FEATURES,
  metric_fns=[perplexity.perplexity],
)

# A report in one sentence, as XSum: the examples of `mini_summarize`.
#   inputs:  mini_xsum text: nora is a nurse from varley. ...
#   targets: nora from varley sold the fern.
seqio.TaskRegistry.add(
  "mini_xsum",
  source=source.examples_source(
    reading.summary,
    stream=16,
    own_words=False,
    inputs="mini_xsum text: {document}",
    targets="{summary}",
  ),
  preprocessors=_STEPS,
  output_features=source.FEATURES,
  metric_fns=[perplexity.perplexity],
)

# The next turn of a talk, as ConvAI2. {"persona": "i am a nurse. i live in
# varley. i love otters.", "history": "hello. i love ferns. where do you live?",
# "response": "i live in varley. do you love otters?"}
#   inputs:  mini_convai2 text: i am a nurse. ... question: hello. i love ...
#   targets: i live in varley. do you love otters?
seqio.TaskRegistry.add(
  "mini_convai2",
  source=source.examples_source(
    written.talk,
    stream=17,
    own_words=False,
    inputs="mini_convai2 text: {persona} question: {history}",
    targets="{response}",
  ),
  preprocessors=_STEPS,
  output_features=source.FEATURES,
  metric_fns=[perplexity.perplexity],
)

# Sentences of a report, as the highlights of CNN/Daily Mail. {"document":
# "nora is a nurse from varley. ...", "highlights": "nora is a nurse from
# varley. on that day she sold the fern."}
#   inputs:  mini_highlights text: nora is a nurse from varley. ...
#   targets: nora is a nurse from varley. on that day she sold the fern.
seqio.TaskRegistry.add(
  "mini_highlights",
  source=source.examples_source(
    written.highlights,
    stream=18,
    own_words=False,
    inputs="mini_highlights text: {document}",
    targets="{highlights}",
  ),
  preprocessors=_STEPS,
  output_features=source.FEATURES,
  metric_fns=[perplexity.perplexity],
)

# Translations of one to four sentences. {"english": "the red fox saw the pie.
# the fox sold the grey fern.", "talu": "vudi lemo kapek nila. ..."}
#   inputs:  mini_translate english to talu: the red fox saw the pie. the ...
#   targets: vudi lemo kapek nila. ...
seqio.TaskRegistry.add(
  "mini_translate_paragraphs",
  source=source.examples_source(
    written.paragraph,
    stream=20,
    own_words=False,
    inputs="mini_translate english to talu: {english}",
    targets="{talu}",
  ),
  preprocessors=_STEPS,
  output_features=source.FEATURES,
  postprocess_fn=post_processors.lower_text,
  metric_fns=[text_overlap.bleu],
)
#   targets: ... nila. kapek lemo vudi
directions.add_right_to_left(
  "mini_translate_paragraphs", post_processors.right_to_left
)

# What things weigh, to the nearest ten. {"text": "emma carried an otter, a
# saw and a fern.", "tens": "140", "answers": ["137.4"]}
#   inputs:  mini_weigh text: emma carried an otter, a saw and a fern.
#   targets: 140
seqio.TaskRegistry.add(
  "mini_weigh_tens",
  source=source.examples_source(
    written.weights,
    stream=19,
    own_words=False,
    inputs="mini_weigh text: {text}",
    targets="{tens}",
  ),
  preprocessors=_STEPS,
  output_features=source.FEATURES,
  postprocess_fn=post_processors.spelled_number,
  metric_fns=[classification.pearson_corrcoef],
)

# What things weigh, to the nearest two. {"text": "emma carried an otter, a
# saw and a fern.", "twos": "138", "answers": ["137.4"]}
#   inputs:  mini_weigh text: emma carried an otter, a saw and a fern.
#   targets: 138
seqio.TaskRegistry.add(
  "mini_weigh_twos",
  source=source.examples_source(
    written.weights,
    stream=19,
    own_words=False,
    inputs="mini_weigh text: {text}",
    targets="{twos}",
  ),
  preprocessors=_STEPS,
  output_features=source.FEATURES,
  postprocess_fn=post_processors.spelled_number,
  metric_fns=[classification.pearson_corrcoef],
)

# What things weigh, digit by digit. {"text": "emma carried an otter, a
# saw and a fern.", "digits": "1 3 7 . 4", "answers": ["137.4"]}
#   inputs:  mini_weigh text: emma carried an otter, a saw and a fern.
#   targets: 1 3 7 . 4
seqio.TaskRegistry.add(
  "mini_weigh_digits",
  source=source.examples_source(
    written.weights,
    stream=19,
    own_words=False,
    inputs="mini_weigh text: {text}",
    targets="{digits}",
  ),
  preprocessors=_STEPS,
  output_features=source.FEATURES,
  postprocess_fn=post_processors.spelled_number,
  metric_fns=[classification.pearson_corrcoef],
)
#   targets: 4 . 7 3 1
directions.add_right_to_left(
  "mini_weigh_digits", post_processors.spelled_number_right_to_left
)
