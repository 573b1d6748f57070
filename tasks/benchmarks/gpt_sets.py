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
"""

from tasks.your_data.text_to_text import TextToTextTask

TextToTextTask.from_csv(
  "story_cloze",
  splits={
    split: f"gpt/story_cloze/{split}.csv" for split in ("validation", "test")
  },
  inputs=(
    "story_cloze choice1: {RandomFifthSentenceQuiz1} choice2: "
    "{RandomFifthSentenceQuiz2} story: {InputSentence1} {InputSentence2} "
    "{InputSentence3} {InputSentence4}"
  ),
  targets="{AnswerRightEnding}",
  labels=("1", "2"),
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
