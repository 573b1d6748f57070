"""The data sets for which we ship prompts (`tasks/prompts`, our own words).

Each template is a task and each file a mixture; the names stand in the files.
They are the sets that T0, T0+ and T0++ were trained and tested on (Sanh et al.
2022, figure 2 and section 3); `mixtures/t0.py` mixes them. Sets that TFDS has
in the form that other tasks here read come from there; all others are lines of
JSON as Hugging Face's `datasets` writes them:

    load_dataset("cosmos_qa")["train"].to_json("t0/cosmos_qa/train.jsonl")

A file of prompts shows one such line.
"""

import functools

from tasks.sources.tfds import PreparedTfdsDataSource
from tasks.vocabulary import t5_features
from tasks.vocabulary import without_end
from tasks.your_data.prompted import register_prompts
from tasks.your_data.rows import RowFiles

_SPLITS = ("train", "validation", "test")
# T0's inputs do not end in EOS.
_register = functools.partial(
  register_prompts,
  features=t5_features() | {"inputs": without_end(t5_features())["inputs"]},
)


def _lines(folder: str) -> RowFiles:
  """Returns the lines of JSON of a set of T0's."""
  splits = ("train", "validation")
  return RowFiles(
    {split: f"t0/{folder}/{split}.jsonl" for split in splits}, "jsonl"
  )


# Natural language inference.
_register(
  "rte.yaml", PreparedTfdsDataSource("super_glue/rte:1.0.2", splits=_SPLITS)
)
_register(
  "cb.yaml", PreparedTfdsDataSource("super_glue/cb:1.0.2", splits=_SPLITS)
)
_register(
  "anli.yaml",
  PreparedTfdsDataSource("anli/r1:0.1.0", splits=_SPLITS),
  suffix="_r1",
)
_register(
  "anli.yaml",
  PreparedTfdsDataSource("anli/r2:0.1.0", splits=_SPLITS),
  suffix="_r2",
)
_register(
  "anli.yaml",
  PreparedTfdsDataSource("anli/r3:0.1.0", splits=_SPLITS),
  suffix="_r3",
)

# Coreference.
_register(
  "wsc.yaml",
  PreparedTfdsDataSource("super_glue/wsc.fixed:1.0.2", splits=_SPLITS),
)
_register(
  "winogrande.yaml",
  PreparedTfdsDataSource(
    "winogrande:1.2.0",
    splits={"train": "train_xl", "validation": "validation"},
  ),
)

# Sentence completion. T0 compares sums of log-likelihoods, T-Few means.
_register(
  "copa.yaml",
  PreparedTfdsDataSource("super_glue/copa:1.0.2", splits=_SPLITS),
)
_register(
  "hellaswag.yaml",
  PreparedTfdsDataSource("hellaswag:1.1.0", splits=_SPLITS),
)
_register(
  "story_cloze.yaml",
  RowFiles(
    {split: f"gpt/story_cloze/{split}.csv" for split in ("validation", "test")},
    "csv",
  ),
)

# Word sense.
_register(
  "wic.yaml", PreparedTfdsDataSource("super_glue/wic:1.0.2", splits=_SPLITS)
)

# Questions with choices.
_register("commonsense_qa.yaml", _lines("commonsense_qa"))
_register("dream.yaml", _lines("dream"))
_register("quail.yaml", _lines("quail"))
_register("quartz.yaml", _lines("quartz"))
_register("social_i_qa.yaml", _lines("social_i_qa"))
_register("wiqa.yaml", _lines("wiqa"))
_register("cosmos_qa.yaml", _lines("cosmos_qa"))
_register("qasc.yaml", _lines("qasc"))
_register("quarel.yaml", _lines("quarel"))
_register("sciq.yaml", _lines("sciq"), metrics=["sequence_accuracy"])
_register("wiki_hop.yaml", _lines("wiki_hop"))
_register("ai2_arc.yaml", _lines("arc_challenge"), suffix="_challenge")
_register("ai2_arc.yaml", _lines("arc_easy"), suffix="_easy")
_register("openbookqa.yaml", _lines("openbookqa"))
_register("race.yaml", _lines("race_high"), suffix="_high")
_register("race.yaml", _lines("race_middle"), suffix="_middle")
_register("piqa.yaml", _lines("piqa"))
_register(
  "boolq.yaml",
  PreparedTfdsDataSource("super_glue/boolq:1.0.2", splits=_SPLITS),
)
_register(
  "multirc.yaml",
  PreparedTfdsDataSource("super_glue/multirc:1.0.2", splits=_SPLITS),
)

# Answers out of a text.
_register(
  "adversarial_qa.yaml",
  _lines("adversarial_qa_dbert"),
  suffix="_dbert",
  metrics=["rouge"],
)
_register(
  "adversarial_qa.yaml",
  _lines("adversarial_qa_dbidaf"),
  suffix="_dbidaf",
  metrics=["rouge"],
)
_register(
  "adversarial_qa.yaml",
  _lines("adversarial_qa_droberta"),
  suffix="_droberta",
  metrics=["rouge"],
)
_register("quoref.yaml", _lines("quoref"), metrics=["rouge"])
_register("ropes.yaml", _lines("ropes"), metrics=["rouge"])
_register("duorc.yaml", _lines("duorc_self"), suffix="_self", metrics=["rouge"])
_register(
  "duorc.yaml",
  _lines("duorc_paraphrase"),
  suffix="_paraphrase",
  metrics=["rouge"],
)
_register("squad_v2.yaml", _lines("squad_v2"), metrics=["rouge"])
_register(
  "record.yaml",
  PreparedTfdsDataSource("super_glue/record:1.0.2", splits=_SPLITS),
)

# Questions without a text.
_register("hotpot_qa.yaml", _lines("hotpot_qa"), metrics=["rouge"])
_register("wiki_qa.yaml", _lines("wiki_qa"))
_register("trivia_qa.yaml", _lines("trivia_qa"), metrics=["rouge"])
_register("web_questions.yaml", _lines("web_questions"), metrics=["rouge"])

# Sentiment.
_register("amazon_polarity.yaml", _lines("amazon_polarity"), metrics=["rouge"])
_register("app_reviews.yaml", _lines("app_reviews"))
_register("imdb.yaml", _lines("imdb"))
_register("rotten_tomatoes.yaml", _lines("rotten_tomatoes"))
_register("yelp_review_full.yaml", _lines("yelp_review_full"))
_register(
  "sst2.yaml", PreparedTfdsDataSource("glue/sst2:2.0.0", splits=_SPLITS)
)

# Topics.
_register("ag_news.yaml", _lines("ag_news"))
_register("dbpedia_14.yaml", _lines("dbpedia_14"))
_register("trec.yaml", _lines("trec"))

# Structure to text.
_register("common_gen.yaml", _lines("common_gen"), metrics=["rouge"])
_register("wiki_bio.yaml", _lines("wiki_bio"), metrics=["rouge"])

# Summaries.
_register("cnn_dailymail.yaml", _lines("cnn_dailymail"), metrics=["rouge"])
_register("gigaword.yaml", _lines("gigaword"), metrics=["rouge"])
_register("multi_news.yaml", _lines("multi_news"), metrics=["rouge"])
_register("samsum.yaml", _lines("samsum"), metrics=["rouge"])
_register("xsum.yaml", _lines("xsum"), metrics=["rouge"])

# Paraphrases.
_register(
  "mrpc.yaml", PreparedTfdsDataSource("glue/mrpc:2.0.0", splits=_SPLITS)
)
_register("paws.yaml", _lines("paws"))
_register("qqp.yaml", PreparedTfdsDataSource("glue/qqp:2.0.0", splits=_SPLITS))

# Sets of GLUE that T0 has in no mixture.
_register(
  "cola.yaml", PreparedTfdsDataSource("glue/cola:2.0.0", splits=_SPLITS)
)
_register(
  "qnli.yaml", PreparedTfdsDataSource("glue/qnli:2.0.0", splits=_SPLITS)
)
_register(
  "wnli.yaml", PreparedTfdsDataSource("glue/wnli:2.0.0", splits=_SPLITS)
)
