"""WikiSQL (Zhong et al. 2017): the query that answers a question on a table.

    generation/wikisql/train.jsonl
    {"question": "What position does the player who played for Butler have?",
     "columns": "Player, No., Nationality, Position, Years, School",
     "query": "SELECT Position FROM table WHERE School = butler"}
    -> 'wikisql question: What position does the player who played for Butler
        have? columns: Player, No., Nationality, Position, Years, School',
       'SELECT Position FROM table WHERE School = butler'

The files are users' own: a line for each question, the query as text. The
metric compares queries letter by letter, as LoRA's comparison does (Hu et al.
2021, table 4).
"""

from tasks.your_data.text_to_text import TextToTextTask

TextToTextTask.from_jsonl(
  "wikisql",
  splits={
    split: f"generation/wikisql/{split}.jsonl"
    for split in ("train", "validation", "test")
  },
  inputs="wikisql question: {question} columns: {columns}",
  targets="{query}",
  metrics=["sequence_accuracy", "perplexity"],
)
