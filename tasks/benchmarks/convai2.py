"""ConvAI2 (Dinan et al. 2019): the next turn of a talk between two personas.

    generation/convai2/train.jsonl
    {"persona": "i like to ski. i hate mexican food.",
     "history": "hi , how are you doing today ?",
     "response": "i am great , i just came back from a ski trip ."}
    -> 'convai2 persona: i like to ski. i hate mexican food. history: hi , how
        are you doing today ?',
       'i am great , i just came back from a ski trip .'

The files are users' own: a line for each turn that is answered, earlier turns
in `history`, which may be empty. BART reports perplexity and F1 (Lewis et al.
2020, tables 1 and 4).
"""

from tasks.your_data.text_to_text import TextToTextTask

TextToTextTask.from_jsonl(
  "convai2",
  splits={
    split: f"generation/convai2/{split}.jsonl"
    for split in ("train", "validation")
  },
  inputs="convai2 persona: {persona} history: {history}",
  targets="{response}",
  metrics=["rouge", "perplexity"],
  may_be_empty=["history"],
)
