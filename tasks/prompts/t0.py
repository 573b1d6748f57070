"""The data sets for which we ship prompts (`tasks/prompts`, our own words).

Each template is a task and each file a mixture; the names stand in the files.
They are the sets that T0, T0+ and T0++ were trained and tested on (Sanh et al.
2022, figure 2 and section 3); `mixtures/t0.py` mixes them. Sets that TFDS has
in the form that other tasks here read come from there; all others are lines of
JSON as Hugging Face's `datasets` writes them:

    load_dataset("cosmos_qa")["train"].to_json("t0/cosmos_qa/train.jsonl")

A file of prompts shows one such line.
"""

from tasks.sources.tfds import PreparedTfdsDataSource
from tasks.your_data.prompted import register_prompts
from tasks.your_data.rows import RowFiles

_SPLITS = ("train", "validation", "test")


def _lines(folder: str) -> RowFiles:
  """Returns the lines of JSON of a set of T0's."""
  splits = ("train", "validation")
  return RowFiles(
    {split: f"t0/{folder}/{split}.jsonl" for split in splits}, "jsonl"
  )


# Natural language inference.
register_prompts(
  "rte.yaml", PreparedTfdsDataSource("super_glue/rte:1.0.2", splits=_SPLITS)
)
register_prompts(
  "cb.yaml", PreparedTfdsDataSource("super_glue/cb:1.0.2", splits=_SPLITS)
)
register_prompts(
  "anli.yaml",
  PreparedTfdsDataSource("anli/r1:0.1.0", splits=_SPLITS),
  suffix="_r1",
)
register_prompts(
  "anli.yaml",
  PreparedTfdsDataSource("anli/r2:0.1.0", splits=_SPLITS),
  suffix="_r2",
)
register_prompts(
  "anli.yaml",
  PreparedTfdsDataSource("anli/r3:0.1.0", splits=_SPLITS),
  suffix="_r3",
)

# Coreference.
register_prompts(
  "wsc.yaml",
  PreparedTfdsDataSource("super_glue/wsc.fixed:1.0.2", splits=_SPLITS),
)
register_prompts(
  "winogrande.yaml",
  PreparedTfdsDataSource(
    "winogrande:1.2.0",
    splits={"train": "train_xl", "validation": "validation"},
  ),
)

# Sentence completion. The choices are sentences of different lengths.
register_prompts(
  "copa.yaml",
  PreparedTfdsDataSource("super_glue/copa:1.0.2", splits=_SPLITS),
  length_normalized=True,
)
register_prompts(
  "hellaswag.yaml",
  PreparedTfdsDataSource("hellaswag:1.1.0", splits=_SPLITS),
  length_normalized=True,
)
register_prompts(
  "story_cloze.yaml",
  RowFiles(
    {split: f"gpt/story_cloze/{split}.csv" for split in ("validation", "test")},
    "csv",
  ),
  length_normalized=True,
)

# Word sense.
register_prompts(
  "wic.yaml", PreparedTfdsDataSource("super_glue/wic:1.0.2", splits=_SPLITS)
)

# Questions with choices.
register_prompts("commonsense_qa.yaml", _lines("commonsense_qa"))
register_prompts("dream.yaml", _lines("dream"))
register_prompts("quail.yaml", _lines("quail"))
register_prompts("quartz.yaml", _lines("quartz"))
register_prompts("social_i_qa.yaml", _lines("social_i_qa"))
register_prompts("wiqa.yaml", _lines("wiqa"))
register_prompts("cosmos_qa.yaml", _lines("cosmos_qa"))
register_prompts("qasc.yaml", _lines("qasc"))
register_prompts("quarel.yaml", _lines("quarel"))
register_prompts("sciq.yaml", _lines("sciq"), metrics=["sequence_accuracy"])
register_prompts("wiki_hop.yaml", _lines("wiki_hop"))
register_prompts("ai2_arc.yaml", _lines("arc_challenge"), suffix="_challenge")
register_prompts("ai2_arc.yaml", _lines("arc_easy"), suffix="_easy")
register_prompts("openbookqa.yaml", _lines("openbookqa"))
register_prompts("race.yaml", _lines("race_high"), suffix="_high")
register_prompts("race.yaml", _lines("race_middle"), suffix="_middle")
register_prompts("piqa.yaml", _lines("piqa"))
register_prompts(
  "boolq.yaml",
  PreparedTfdsDataSource("super_glue/boolq:1.0.2", splits=_SPLITS),
)
register_prompts(
  "multirc.yaml",
  PreparedTfdsDataSource("super_glue/multirc:1.0.2", splits=_SPLITS),
)

# Answers out of a text.
register_prompts(
  "adversarial_qa.yaml",
  _lines("adversarial_qa_dbert"),
  suffix="_dbert",
  metrics=["rouge"],
)
register_prompts(
  "adversarial_qa.yaml",
  _lines("adversarial_qa_dbidaf"),
  suffix="_dbidaf",
  metrics=["rouge"],
)
register_prompts(
  "adversarial_qa.yaml",
  _lines("adversarial_qa_droberta"),
  suffix="_droberta",
  metrics=["rouge"],
)
register_prompts("quoref.yaml", _lines("quoref"), metrics=["rouge"])
register_prompts("ropes.yaml", _lines("ropes"), metrics=["rouge"])
register_prompts(
  "duorc.yaml", _lines("duorc_self"), suffix="_self", metrics=["rouge"]
)
register_prompts(
  "duorc.yaml",
  _lines("duorc_paraphrase"),
  suffix="_paraphrase",
  metrics=["rouge"],
)
register_prompts("squad_v2.yaml", _lines("squad_v2"), metrics=["rouge"])
register_prompts(
  "record.yaml",
  PreparedTfdsDataSource("super_glue/record:1.0.2", splits=_SPLITS),
)

# Questions without a text.
register_prompts("hotpot_qa.yaml", _lines("hotpot_qa"), metrics=["rouge"])
register_prompts("wiki_qa.yaml", _lines("wiki_qa"))
register_prompts("trivia_qa.yaml", _lines("trivia_qa"), metrics=["rouge"])
register_prompts(
  "web_questions.yaml", _lines("web_questions"), metrics=["rouge"]
)

# Sentiment.
register_prompts(
  "amazon_polarity.yaml", _lines("amazon_polarity"), metrics=["rouge"]
)
register_prompts("app_reviews.yaml", _lines("app_reviews"))
register_prompts("imdb.yaml", _lines("imdb"))
register_prompts("rotten_tomatoes.yaml", _lines("rotten_tomatoes"))
register_prompts("yelp_review_full.yaml", _lines("yelp_review_full"))
register_prompts(
  "sst2.yaml", PreparedTfdsDataSource("glue/sst2:2.0.0", splits=_SPLITS)
)

# Topics.
register_prompts("ag_news.yaml", _lines("ag_news"))
register_prompts("dbpedia_14.yaml", _lines("dbpedia_14"))
register_prompts("trec.yaml", _lines("trec"))

# Structure to text.
register_prompts("common_gen.yaml", _lines("common_gen"), metrics=["rouge"])
register_prompts("wiki_bio.yaml", _lines("wiki_bio"), metrics=["rouge"])

# Summaries.
register_prompts(
  "cnn_dailymail.yaml", _lines("cnn_dailymail"), metrics=["rouge"]
)
register_prompts("gigaword.yaml", _lines("gigaword"), metrics=["rouge"])
register_prompts("multi_news.yaml", _lines("multi_news"), metrics=["rouge"])
register_prompts("samsum.yaml", _lines("samsum"), metrics=["rouge"])
register_prompts("xsum.yaml", _lines("xsum"), metrics=["rouge"])

# Paraphrases.
register_prompts(
  "mrpc.yaml", PreparedTfdsDataSource("glue/mrpc:2.0.0", splits=_SPLITS)
)
register_prompts("paws.yaml", _lines("paws"))
register_prompts(
  "qqp.yaml", PreparedTfdsDataSource("glue/qqp:2.0.0", splits=_SPLITS)
)
