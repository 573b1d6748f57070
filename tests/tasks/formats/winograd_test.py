"""Winograd schemas: t5's goldens, its rules for odd rows, refused rows."""

import pytest
import seqio
import tensorflow as tf

import tasks  # noqa: F401 (registers them)
from tasks.formats import winograd
from tests.tasks import tfds_rows

# The rows of t5's `preprocessors_test.py`.
MITCHELL = {
  "text": "Mitchell asked Tom if he could lend some money.",
  "span1_text": "Tom",
  "span1_index": 2,
  "span2_text": "he",
  "span2_index": 4,
  "idx": 1,
}
PAIRS = [
  (
    "Lily spoke to Donna breaking her silence.",
    "Lily spoke to Donna breaking Donna's silence.",
    "Lily spoke to Donna breaking *her* silence.",
    "Donna",
  ),
  (
    "The fish ate the worm. It was tasty.",
    "The worm was tasty.",
    "The fish ate the worm. *It* was tasty.",
    "The worm",
  ),
  (
    "Edward dropped adhesive tape onto his window sill, and when he pulled the "
    "tape off, some of the glue was stuck on it.",
    "Some of the glue was stuck on the window sill.",
    "Edward dropped adhesive tape onto his window sill, and when he pulled the "
    "tape off, some of the glue was stuck on *it* .",
    "the window sill",
  ),
  (
    "Al stole Bob's wallet and car, and then he was driving it really fast to "
    "get away.",
    "He was driving the car really fast to get away.",
    "Al stole Bob's wallet and car, and then he was driving *it* really fast "
    "to get away.",
    "the car",
  ),
]


def test_schema_golden_of_t5():
  row = MITCHELL | {"label": 0}
  (example,) = tfds_rows.text_of("super_glue_wsc_v102_simple_eval", row)
  assert example == {
    "inputs": b"wsc: Mitchell asked Tom if *he* could lend some money.",
    "targets": b"Tom",
    "label": 0,
    "idx": 1,
  }


@pytest.mark.parametrize(
  ("text", "noun", "pronoun", "expected"),
  [
    (
      "The fish ate the worm . It was hungry.",
      ("the worm", 3),
      ("It", 6),
      "The fish ate * the worm * . # It # was hungry.",
    ),
    (
      "When he came , Emma's mother left.",
      ("Emma", 4),
      ("he", 1),
      "When # he # came , * Emma *'s mother left.",
    ),
    # Validation 95: the pronoun is a word of the noun.
    (
      "Celeste , and their mothers are worried.",
      ("their mothers", 3),
      ("their", 3),
      "Celeste , and * # their # mothers * are worried.",
    ),
    (
      "The mothers of them left.",
      ("mothers of them", 1),
      ("them", 3),
      "The * mothers of # them # * left.",
    ),
    # Validation 42: the index is of the word before.
    (
      "it may use it , in an iron safe",
      ("safe", 7),
      ("it", 2),
      "it may use # it # , in an iron * safe *",
    ),
    # Test 80 to 82: the noun stands elsewhere, or in parts.
    (
      "Lev Kamenev, Stalin's editor, and Zinoviev, with Stalin and Kamenev, met"
      "; he urged them",
      ("Stalin and Kamenev", 1),
      ("them", 13),
      "Lev Kamenev, Stalin's editor, and Zinoviev, with * Stalin and Kamenev *,"
      " met; he urged # them #",
    ),
    (
      "Lev Kamenev, Stalin's editor, and Zinoviev, met; he urged them",
      ("Kamenev, Zinoviev, and Stalin", 1),
      ("them", 9),
      "Lev * Kamenev *, * Stalin *'s editor, and * Zinoviev *, met; he urged "
      "# them #",
    ),
  ],
)
def test_marks_of_an_encoders_text(text, noun, pronoun, expected):
  row = {
    "text": text,
    "span1_text": noun[0],
    "span1_index": noun[1],
    "span2_text": pronoun[0],
    "span2_index": pronoun[1],
  }
  row = {name: tf.constant(value) for name, value in row.items()}
  assert winograd.marked(row).numpy().decode() == expected


def test_only_true_referents_are_trained_on():
  rows = [
    MITCHELL | {"label": 1},
    MITCHELL | {"span1_text": "Mitchell", "label": 0, "idx": 2},
  ]
  examples = tfds_rows.text_of("super_glue_wsc_v102_simple_train", *rows)
  assert [example["idx"] for example in examples] == [1]
  both = tfds_rows.text_of("super_glue_wsc_v102_simple_eval", *rows)
  assert [example["targets"] for example in both] == [b"Tom", b"Mitchell"]


@pytest.mark.parametrize(
  "changes, inputs",
  [
    (
      {"text": "Ann said X to X and he fell", "span2_index": 6},
      "wsc: Ann said *he* to *he* and *he* fell",
    ),
    ({"text": "Ann  said he", "span2_index": 3}, "wsc: Ann  said *he* "),
    (
      {"text": "naïve\tAnn ☃ he\nhe he \n", "span2_index": 3},
      "wsc: naïve\tAnn ☃ he\nhe *he* \n",
    ),
  ],
)
def test_odd_schemas_as_t5(changes, inputs):
  row = MITCHELL | {"label": 1} | changes
  task = "super_glue_wsc_v102_simple_eval"
  assert tfds_rows.texts_of(task, row) == [(inputs, "Tom")]


@pytest.mark.parametrize(
  "changes, reason",
  [
    ({"span2_text": "He"}, "span2_text is not the word at span2_index"),
    ({"span2_index": 5}, "span2_text is not the word at span2_index"),
    ({"span2_index": 0}, "span2_index is the first word"),
    ({"span2_index": 40}, "span2_index is behind the last word"),
  ],
)
def test_a_schema_whose_pronoun_is_elsewhere_is_refused(changes, reason):
  row = MITCHELL | {"label": 1} | changes
  with pytest.raises(tf.errors.InvalidArgumentError, match=reason):
    tfds_rows.text_of("super_glue_wsc_v102_simple_eval", row)


@pytest.mark.parametrize(
  "changes, inputs",
  [
    ({}, "Mitchell asked * Tom * if # he # could lend some money."),
    (
      {
        "span1_text": "money",
        "span1_index": 8,
      },
      "Mitchell asked Tom if # he # could lend some * money *.",
    ),
    (
      {"span1_text": "Bob"},
      # The mark that is missing is counted all the same.
      "Mitchell asked Tom if he could lend some money.",
    ),
  ],
)
def test_judged(changes, inputs):
  row = MITCHELL | {"label": 1} | changes
  (example,) = tfds_rows.text_of("super_glue_wsc_v102", row)
  assert example == {
    "inputs": f"wsc text: {inputs}".encode(),
    "targets": b"True",
    "idx": 1,
  }


def test_a_hidden_label_is_judged_unknown():
  row = MITCHELL | {"label": -1}
  ((_, target),) = tfds_rows.texts_of("super_glue_wsc_v102", row)
  assert target == "<unk>"


@pytest.mark.parametrize(
  "sentence, inputs",
  [
    (
      "Bob asked Tom if he can lend some money.",
      "wsc: Bob asked Tom if *he* can lend some money.",
    ),
    ("Bob said he, if he can.", "wsc: Bob said *he*, if he can."),
    ("He saw that it was he.", "wsc: He saw that it was *he*."),
    ("he saw the heir; he?", "wsc: he saw the heir; he?"),
  ],
)
def test_definite_pronoun(sentence, inputs):
  row = {"sentence": sentence, "pronoun": "he", "candidates": ["Bob", "Tom"]}
  examples = tfds_rows.text_of("dpr_v001_simple", row | {"label": 1})
  assert examples == [{"inputs": inputs.encode(), "targets": b"Tom"}]


@pytest.mark.parametrize("premise, hypothesis, marked, referent", PAIRS)
def test_pair_goldens_of_t5(premise, hypothesis, marked, referent):
  recast = winograd.recast(premise.encode(), hypothesis.encode())
  assert recast == (marked.encode(), referent.encode())


def test_task_over_pairs():
  premise, hypothesis, marked, referent = PAIRS[1]
  row = {"sentence1": premise, "sentence2": hypothesis, "label": 1, "idx": 4}
  (example,) = tfds_rows.text_of("glue_wnli_v002_simple_eval", row)
  assert example == {
    "inputs": f"wsc: {marked}".encode(),
    "targets": referent.encode(),
    "premise": premise.encode(),
    "hypothesis": hypothesis.encode(),
    "label": 1,
    "idx": 4,
  }


@pytest.mark.parametrize(
  "premise, hypothesis, reason",
  [
    ("The fish ate.", "The fish ate.", "has no pronoun"),
    ("", "", "has no pronoun"),
    ("a   it is.", "the sky is.", "has several spaces in a row"),
    ("It ate.", "The  cat ate.", "'the cat' is not so written in the hyp"),
    ("He (may go.", "Bob (may go.", "has signs that are no pattern"),
  ],
)
def test_a_pair_without_a_schema_is_refused(premise, hypothesis, reason):
  with pytest.raises(ValueError, match=reason):
    winograd.recast(premise.encode(), hypothesis.encode())


def test_answers_of_a_referent():
  task = seqio.TaskRegistry.get("super_glue_wsc_v102_simple_eval")
  example = {"label": 1, "targets_pretokenized": b"the window sill"}
  answer = task.postprocess_fn
  assert answer("x", example=example, is_target=True) == 1
  values = [
    answer(text, example=example, is_target=False)
    for text in ("A Window", "the tape", "the")
  ]
  assert values == [1, 0, -1]
