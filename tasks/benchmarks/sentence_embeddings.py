"""Texts and their positives, of which sentence embeddings are learned.

TFDS has none of them. Files lie in a data folder: SimCSE's are the authors'
own, and those of GTR are JSON Lines that users make of sets that may not be
passed on.

    simcse/wiki1m_for_simcse.txt    a sentence a line
    simcse/nli_for_simcse.csv       sent0, sent1, hard_neg
    gtr/community_qa.jsonl          {"question": ..., "answer": ...}
    gtr/msmarco.jsonl               {"query": ..., "positive": ...,
                                     "negative": ...}

The text-to-text task writes the positive of a text. There are no scores: the
mixtures of mixtures/sentence_embeddings.py have STS-B for these.
"""

from tasks.your_data.forms import EmbeddingTask

# A sentence is its own positive (Gao et al. 2021, section 3).
EmbeddingTask.from_tsv(
  "simcse_wiki",
  splits={"train": "simcse/wiki1m_for_simcse.txt"},
  columns=["sentence"],
  inputs="simcse sentence: {sentence}",
  targets="{sentence}",
  texts=["{sentence}", "{sentence}"],
)

# A premise, what it entails, and what contradicts it (section 4).
EmbeddingTask.from_csv(
  "simcse_nli",
  splits={"train": "simcse/nli_for_simcse.csv"},
  inputs="simcse premise: {sent0}",
  targets="{sent1}",
  texts=["{sent0}", "{sent1}", "{hard_neg}"],
)

# Questions and answers (Ni et al. 2021, section 3.3).
EmbeddingTask.from_jsonl(
  "community_qa",
  splits={"train": "gtr/community_qa.jsonl"},
  inputs="community_qa question: {question}",
  targets="{answer}",
  texts=["{question}", "{answer}"],
)

# Queries, a passage that answers, and a hard negative (section 3.3).
EmbeddingTask.from_jsonl(
  "msmarco",
  splits={"train": "gtr/msmarco.jsonl"},
  inputs="msmarco query: {query}",
  targets="{positive}",
  texts=["{query}", "{positive}", "{negative}"],
)
