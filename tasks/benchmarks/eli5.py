"""ELI5 (Fan et al. 2019): long answers to questions, with a supporting text.

    generation/eli5/train.jsonl
    {"question": "Why is the sky blue?", "document": "Sunlight reaches ...",
     "answers": ["Air scatters blue light more than red ...", "Because ..."]}
    -> 'eli5 question: Why is the sky blue? document: Sunlight reaches ...',
       'Air scatters blue light more than red ...'

The files are users' own: a line for each question, the best answer first. The
document may be empty. BART reports ROUGE and perplexity (Lewis et al. 2020,
tables 1 and 5).
"""

from tasks.your_data.text_to_text import TextToTextTask

TextToTextTask.from_jsonl(
  "eli5",
  splits={
    split: f"generation/eli5/{split}.jsonl"
    for split in ("train", "validation", "test")
  },
  inputs="eli5 question: {question} document: {document}",
  targets="{answers}",
  answers="{answers}",
  metrics=["rouge", "perplexity"],
  may_be_empty=["document"],
)
