"""Sets that users bring: the raw example of each file becomes its texts."""

import pytest
import seqio

import tasks  # noqa: F401 (registers them)

# Task -> file, its contents, inputs and targets.
SETS = {
  "eli5": (
    "generation/eli5/validation.jsonl",
    '{"question": "Why?", "document": "", "answers": ["So.", "Thus."]}',
    "eli5 question: Why? document: ",
    "So.",
  ),
  "convai2": (
    "generation/convai2/validation.jsonl",
    '{"persona": "i ski.", "history": "hi", "response": "hello"}',
    "convai2 persona: i ski. history: hi",
    "hello",
  ),
  "iwslt14_deen": (
    "generation/iwslt14_de_en/valid.de",
    "danke\n",
    "translate German to English: danke",
    "thanks",
  ),
  "wikisql": (
    "generation/wikisql/validation.jsonl",
    '{"question": "Who?", "columns": "A, B", "query": "SELECT A"}',
    "wikisql question: Who? columns: A, B",
    "SELECT A",
  ),
  "czeng_csen": (
    "generation/czeng/validation.tsv",
    "x\t0.99\tDěkuji.\tThank you.\n",
    "translate Czech to English: Děkuji.",
    "Thank you.",
  ),
  "story_cloze": (
    "gpt/story_cloze/validation.csv",
    "InputStoryid,InputSentence1,InputSentence2,InputSentence3,InputSentence4,"
    "RandomFifthSentenceQuiz1,RandomFifthSentenceQuiz2,AnswerRightEnding\n"
    "1,A.,B.,C.,D.,E.,F.,2\n",
    "story_cloze choice1: E. choice2: F. story: A. B. C. D.",
    "2",
  ),
  **{
    name: (
      f"gpt/{name}/validation.jsonl",
      '{"passage": "Ann is 80.", "history": "", "question": "How old?", '
      '"answers": ["80", "she is 80"]}',
      f"{name} passage: Ann is 80. history:  question: How old?",
      "80",
    )
    for name in ("coqa", "quac", "drop")
  },
  "lambada": (
    "gpt/lambada/validation.jsonl",
    '{"passage": "said hello to", "word": "helen"}',
    "said hello to",
    "helen",
  ),
}


@pytest.mark.parametrize("name", SETS)
def test_the_documented_rows(name, monkeypatch, tmp_path):
  file, content, inputs, targets = SETS[name]
  path = tmp_path / file
  path.parent.mkdir(parents=True)
  path.write_text(content, encoding="utf-8")
  if name == "iwslt14_deen":
    (path.parent / "valid.en").write_text("thanks\n", encoding="utf-8")
  monkeypatch.setenv("ZOO_DATA_DIR", str(tmp_path))
  task = seqio.TaskRegistry.get(name)
  dataset = task.source.get_dataset("validation", shuffle=False)
  if name.startswith("iwslt"):
    dataset = task.preprocessors[0](dataset)
  (row,) = dataset.as_numpy_iterator()
  assert row["inputs"].decode() == inputs
  assert row["targets"].decode() == targets


def test_the_likeliest_choice_of_a_book(monkeypatch, tmp_path):
  path = tmp_path / "gpt/children_book_test/validation.jsonl"
  path.parent.mkdir(parents=True)
  path.write_text(
    '{"context": "A.", "question": "said XXXXX .", "choices": ["x", "y"], '
    '"answer": "y"}'
  )
  monkeypatch.setenv("ZOO_DATA_DIR", str(tmp_path))
  task = seqio.TaskRegistry.get("children_book_test")
  rows = list(
    task.source.get_dataset("validation", shuffle=False).as_numpy_iterator()
  )
  assert {row["inputs"] for row in rows} == {b"A. said XXXXX ."}
  assert [row["targets"] for row in rows] == [b"x", b"y"]
  assert [bool(row["is_correct"]) for row in rows] == [False, True]


def test_the_likeliest_analogy(monkeypatch, tmp_path):
  path = tmp_path / "gpt/sat_analogies/validation.jsonl"
  path.parent.mkdir(parents=True)
  path.write_text(
    '{"pair": "a is to b as", "choices": ["c is to d", "e is to f"], '
    '"answer": "e is to f"}'
  )
  monkeypatch.setenv("ZOO_DATA_DIR", str(tmp_path))
  task = seqio.TaskRegistry.get("sat_analogies")
  rows = list(
    task.source.get_dataset("validation", shuffle=False).as_numpy_iterator()
  )
  assert {row["inputs"] for row in rows} == {b"a is to b as"}
  assert [bool(row["is_correct"]) for row in rows] == [False, True]


@pytest.fixture
def story(monkeypatch, tmp_path):
  """Story Cloze of one row, whose second ending is right."""
  path = tmp_path / SETS["story_cloze"][0]
  path.parent.mkdir(parents=True)
  path.write_text(SETS["story_cloze"][1], encoding="utf-8")
  monkeypatch.setenv("ZOO_DATA_DIR", str(tmp_path))


@pytest.mark.parametrize(
  ("task", "inputs"),
  [
    # T0's, and GPT's without fine-tuning.
    ("prompted_story_cloze_ending", b"A. B. C. D.\nHow does the story end?"),
    ("zero_shot_story_cloze", b"A. B. C. D."),
  ],
)
def test_the_endings_of_a_story_are_ranked(task, inputs, story):
  task = seqio.TaskRegistry.get(task)
  dataset = task.source.get_dataset("validation", shuffle=False)
  rows = list(dataset.as_numpy_iterator())
  assert [row["targets"] for row in rows] == [b"E.", b"F."]
  assert [bool(row["is_correct"]) for row in rows] == [False, True]
  assert rows[0]["inputs"] == inputs


def test_the_endings_of_a_story_are_choices_of_a_head(story):
  task = seqio.TaskRegistry.get("story_cloze:choices")
  dataset = task.source.get_dataset("validation", shuffle=False)
  (row,) = dataset.as_numpy_iterator()
  assert row["first"] == b"A. B. C. D."
  assert row["seconds"].tolist() == [b"E.", b"F."]
  assert row["targets"] == row["choices"][1] == b"2"


@pytest.mark.parametrize(
  ("name", "file", "content", "texts"),
  [
    (
      "simcse_wiki",
      "simcse/wiki1m_for_simcse.txt",
      'He said "no".\n',
      ['He said "no".'] * 2,
    ),
    (
      "simcse_nli",
      "simcse/nli_for_simcse.csv",
      "sent0,sent1,hard_neg\nA man sings.,Someone sings.,No man sings.\n",
      ["A man sings.", "Someone sings.", "No man sings."],
    ),
    (
      "community_qa",
      "gtr/community_qa.jsonl",
      '{"question": "Why?", "answer": "So."}',
      ["Why?", "So."],
    ),
    (
      "msmarco",
      "gtr/msmarco.jsonl",
      '{"query": "Why?", "positive": "So.", "negative": "No."}',
      ["Why?", "So.", "No."],
    ),
  ],
)
def test_texts_of_embeddings(name, file, content, texts, monkeypatch, tmp_path):
  path = tmp_path / file
  path.parent.mkdir(parents=True)
  path.write_text(content, encoding="utf-8")
  monkeypatch.setenv("ZOO_DATA_DIR", str(tmp_path))
  task = seqio.TaskRegistry.get(f"{name}:embedding")
  dataset = task.source.get_dataset("train", shuffle=False)
  (row,) = dataset.as_numpy_iterator()
  assert [text.decode() for text in row["texts"]] == texts
