"""Sets of the papers on GPT that have no place elsewhere, over users' files.

Story Cloze (Mostafazadeh et al. 2016; Radford et al. 2018, table 3), as its
authors give it:

    gpt/story_cloze/validation.csv
    InputStoryid,InputSentence1,InputSentence2,InputSentence3,InputSentence4,
    RandomFifthSentenceQuiz1,RandomFifthSentenceQuiz2,AnswerRightEnding
    138d5bfb,Rick grew up.,He was alone.,He joined a gang.,He left it.,
    He is happy now.,He joined a gang.,1
    -> 'story_cloze choice1: He is happy now. choice2: He joined a gang. story:
        Rick grew up. He was alone. He joined a gang. He left it.', '1'

`story_cloze:choices` is the story with each of its endings. The authors label
no rows of training: train.csv has the rows of validation.csv that a user sets
apart (1,497 of 1,871 in openai/finetune-transformer-lm, datasets.py).

LAMBADA (Paperno et al. 2016; Radford et al. 2019, table 3), the passage
without its last word and that word:

    gpt/lambada/test.jsonl
    {"passage": "... he said hello to", "word": "helen"}
    -> '... he said hello to', 'helen'

The Children's Book Test (Hill et al. 2016), a line for each question:

    gpt/children_book_test/validation.jsonl
    {"context": "So they had to fall a long way. ...",
     "question": "`` And what is the use of it '' said XXXXX .",
     "choices": ["Alice", "bank", "book"], "answer": "Alice"}
    -> '... said XXXXX .', the likeliest of the choices

CoQA (Reddy et al. 2019), QuAC (Choi et al. 2018) and DROP (Dua et al. 2019;
Brown et al. 2020, table 3.7), a line for each question, with the questions and
answers before it, which may be empty:

    gpt/coqa/validation.jsonl
    {"passage": "Jessica went to sit in her rocking chair. ...",
     "history": "Who had a birthday? Jessica", "question": "How old was she?",
     "answers": ["80", "she was 80"]}
    -> 'coqa passage: Jessica ... history: ... question: How old was she?', '80'

Analogies of the SAT (Turney et al. 2003; Brown et al. 2020, section 3.9.3):

    gpt/sat_analogies/validation.jsonl
    {"pair": "lull is to trust as", "choices": ["balk is to fortitude",
     "cajole is to compliance"], "answer": "cajole is to compliance"}
    -> 'lull is to trust as', the likeliest of the choices
"""

from tasks.your_data.forms import ChoicesTask
from tasks.your_data.text_to_text import TextToTextTask

_STORY = "{InputSentence1} {InputSentence2} {InputSentence3} {InputSentence4}"
ChoicesTask.from_csv(
  "story_cloze",
  splits={
    split: f"gpt/story_cloze/{split}.csv"
    for split in ("train", "validation", "test")
  },
  inputs=(
    "story_cloze choice1: {RandomFifthSentenceQuiz1} choice2: "
    f"{{RandomFifthSentenceQuiz2}} story: {_STORY}"
  ),
  targets="{AnswerRightEnding}",
  labels=("1", "2"),
  texts=[_STORY],
  choices=["{RandomFifthSentenceQuiz1}", "{RandomFifthSentenceQuiz2}"],
  metrics=["accuracy"],
)
TextToTextTask.from_jsonl(
  "lambada",
  splits={
    split: f"gpt/lambada/{split}.jsonl" for split in ("validation", "test")
  },
  inputs="{passage}",
  targets="{word}",
  metrics=["sequence_accuracy", "perplexity"],
)
TextToTextTask.from_jsonl(
  "children_book_test",
  splits={
    split: f"gpt/children_book_test/{split}.jsonl"
    for split in ("validation", "test")
  },
  inputs="{context} {question}",
  targets="{answer}",
  choices="{choices}",
)
_READING = "passage: {passage} history: {history} question: {question}"
TextToTextTask.from_jsonl(
  "coqa",
  splits={
    split: f"gpt/coqa/{split}.jsonl" for split in ("train", "validation")
  },
  inputs=f"coqa {_READING}",
  targets="{answers}",
  answers="{answers}",
  metrics=["squad"],
  may_be_empty=["history"],
)
TextToTextTask.from_jsonl(
  "quac",
  splits={
    split: f"gpt/quac/{split}.jsonl" for split in ("train", "validation")
  },
  inputs=f"quac {_READING}",
  targets="{answers}",
  answers="{answers}",
  metrics=["squad"],
  may_be_empty=["history"],
)
TextToTextTask.from_jsonl(
  "drop",
  splits={
    split: f"gpt/drop/{split}.jsonl" for split in ("train", "validation")
  },
  inputs=f"drop {_READING}",
  targets="{answers}",
  answers="{answers}",
  metrics=["squad"],
  may_be_empty=["history"],
)
TextToTextTask.from_jsonl(
  "sat_analogies",
  splits={"validation": "gpt/sat_analogies/validation.jsonl"},
  inputs="{pair}",
  targets="{answer}",
  choices="{choices}",
)
