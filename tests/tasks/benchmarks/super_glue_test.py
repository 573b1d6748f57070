"""SuperGLUE in text-to-text form: t5's strings, side fields and answers."""

import numpy as np
import pytest
import seqio

import tasks  # noqa: F401 (registers them)
from tests.tasks import tfds_rows

NLI = {"premise": "Ann met Bo.", "hypothesis": "Bo  met\nAnn.", "idx": 7}
NLI_TEXT = "hypothesis: Bo  met\nAnn. premise: Ann met Bo."
# The row of t5's `preprocessors_test.py`.
RECORD = {
  "query": "It was @placeholder.",
  "entities": ["A", "B", "C"],
  "passage": "This is the passage\n@highlight\nAnother sentence.\n@highlight\n"
  "Third sentence.",
  "idx": {"passage": 1, "query": 2},
}
RECORD_TEXT = (
  b"record query: It was @placeholder. entities: A, B, C passage: This is the "
  b"passage. Another sentence. Third sentence."
)


@pytest.mark.parametrize(
  "task, row, label, inputs, target",
  [
    (
      "super_glue_boolq_v102",
      {"question": "is it", "passage": "Uglies -- Still no news.", "idx": 7},
      0,
      "boolq passage: Uglies -- Still no news. question: is it",
      "False",
    ),
    ("super_glue_cb_v102", NLI, 1, f"cb {NLI_TEXT}", "contradiction"),
    ("super_glue_cb_v102", NLI, 2, f"cb {NLI_TEXT}", "neutral"),
    (
      "super_glue_copa_v102",
      {
        "premise": "My foot went numb.",
        "choice1": "I put my shoes on.",
        "choice2": "I shook it.",
        "question": "effect",
        "idx": 7,
      },
      1,
      "copa choice1: I put my shoes on. choice2: I shook it. premise: My foot "
      "went numb. question: effect",
      "choice2",
    ),
    ("super_glue_rte_v102", NLI, 0, f"rte {NLI_TEXT}", "entailment"),
    ("super_glue_rte_v102", NLI, -1, f"rte {NLI_TEXT}", "<unk>"),
    ("super_glue_axg_v102", NLI, 1, f"rte {NLI_TEXT}", "not_entailment"),
    (
      "super_glue_axb_v102",
      {"sentence1": "Ann met Bo.", "sentence2": "Bo  met\nAnn.", "idx": 7},
      1,
      f"rte {NLI_TEXT}",
      "not_entailment",
    ),
    (
      "super_glue_wic_v102",
      {
        "word": "life",
        "sentence1": "City life.",
        "sentence2": "Get a life.",
        "start1": 5,
        "end1": 9,
        "start2": 6,
        "end2": 10,
        "idx": 7,
      },
      1,
      "wic sentence1: City life. sentence2: Get a life. word: life",
      "True",
    ),
  ],
)
def test_text_of_rows(task, row, label, inputs, target):
  (example,) = tfds_rows.text_of(task, row | {"label": label})
  assert example == {
    "inputs": inputs.encode(),
    "targets": target.encode(),
    "idx": 7,
  }


@pytest.mark.parametrize(
  "label, target", [(0, b"False"), (1, b"True"), (-1, b"<unk>")]
)
def test_multirc(label, target):
  row = {
    "question": "Who <b>sang</b>?",
    "answer": "Ann<br>Bo",
    "paragraph": "<b>Sent 1: </b>Ann sang.<br><b>Sent 2: </b>Bo left.<i>",
    "idx": {"paragraph": 2, "question": 5, "answer": 9},
    "label": label,
  }
  (example,) = tfds_rows.text_of("super_glue_multirc_v102", row)
  assert example == {
    "inputs": b"multirc question: Who sang? answer: Ann Bo paragraph: Sent 1: "
    b"Ann sang. Sent 2: Bo left.<i>",
    "targets": target,
    "idx/paragraph": 2,
    "idx/question": 5,
    "idx/answer": 9,
  }


@pytest.mark.parametrize(
  "accepted, targets", [(["A", "C"], [b"A", b"C"]), ([], [b"<unk>"])]
)
def test_record_has_one_example_for_each_answer(accepted, targets):
  row = RECORD | {"answers": accepted}
  examples = tfds_rows.text_of("super_glue_record_v102", row)
  assert [example["targets"] for example in examples] == targets
  for example in examples:
    assert example["inputs"] == RECORD_TEXT
    assert example["answers"].tolist() == [a.encode() for a in accepted]
    assert (example["idx/passage"], example["idx/query"]) == (1, 2)


@pytest.mark.parametrize(
  "passage, written",
  [
    ("He left!\n@highlight\nShe stayed", "He left! She stayed"),
    ("He 'left'\n@highlight\nShe", "He 'left' She"),
    ('He "left"\n@highlight\nShe', 'He "left" She'),
    ("He left,\n@highlight\nShe stayed", "He left,. She stayed"),
    ("He left\n@highlight\n", "He left. "),
    ("He left @highlight She", "He left @highlight She"),
  ],
)
def test_record_highlights_become_sentences(passage, written):
  row = RECORD | {"passage": passage, "answers": ["A"]}
  ((inputs, _),) = tfds_rows.texts_of("super_glue_record_v102", row)
  assert inputs.endswith(f" passage: {written}")


def test_metrics():
  values = {
    "super_glue_multirc_v102": [{"value": 0, "group": 1}, {"value": 1}],
    "super_glue_record_v102": [{"value": ["A"], "group": (1, 2)}, "A"],
  }
  names = {}
  for name in seqio.TaskRegistry.names():
    if ":" in name:
      continue  # scored as its text-to-text task (forms_test.py)
    if name.startswith(("super_glue_", "dpr_")) and "sentinel" not in name:
      target, prediction = values.get(name, (0, 1))
      metrics = seqio.TaskRegistry.get(name).metric_fns
      names[name] = set().union(
        *(metric([target], [prediction]) for metric in metrics)
      )
  assert names == {
    "dpr_v001_simple": {"accuracy"},
    "super_glue_axb_v102": {"matthews_corrcoef"},
    "super_glue_axg_v102": {"accuracy"},
    "super_glue_boolq_v102": {"accuracy"},
    "super_glue_cb_v102": {"mean_3class_f1", "accuracy"},
    "super_glue_copa_v102": {"accuracy"},
    "super_glue_multirc_v102": {"f1", "exact_match"},
    "super_glue_record_v102": {"em", "f1"},
    "super_glue_rte_v102": {"accuracy"},
    "super_glue_wic_v102": {"accuracy"},
    "super_glue_wsc_v102": {"accuracy"},
    "super_glue_wsc_v102_simple_eval": {"accuracy"},
    "super_glue_wsc_v102_simple_train": set(),
  }


def test_answers_of_multirc_are_grouped_by_question():
  task = seqio.TaskRegistry.get("super_glue_multirc_v102")
  example = {"idx/question": np.int32(5)}
  answer = task.postprocess_fn
  target = answer("True", example=example, is_target=True)
  assert target == {"value": 1, "group": 5}
  values = [
    answer(text, example=example, is_target=False)["value"]
    for text in ("True", "False", "true", "")
  ]
  assert values == [1, 0, -1, -1]


def test_answers_of_record_are_all_accepted_ones():
  task = seqio.TaskRegistry.get("super_glue_record_v102")
  example = {"answers": [b"A", "C"], "idx/passage": 1, "idx/query": 2}
  target = task.postprocess_fn("A", example=example, is_target=True)
  assert target == {"value": ["A", "C"], "group": (1, 2)}
  prediction = task.postprocess_fn("B", example=example, is_target=False)
  assert prediction["value"] == "B"


@pytest.mark.slow
@pytest.mark.parametrize(
  "task, split, count, idx, inputs, target",
  [
    (
      "super_glue_copa_v102",
      "train",
      400,
      90,
      "copa choice1: I put my shoes on. choice2: I shook my foot. premise: My "
      "foot went numb. question: effect",
      "choice2",
    ),
    (
      "super_glue_axb_v102",
      "test",
      1_104,
      185,
      "rte hypothesis: Bob likes Alice. premise: Alice likes Bob.",
      "not_entailment",
    ),
    (
      "super_glue_wsc_v102",
      "train",
      554,
      497,
      "wsc text: The fish ate * the worm * . # It # was hungry.",
      "False",
    ),
    (
      "super_glue_wsc_v102_simple_train",
      "train",
      554,
      461,
      "wsc: John hired Bill to take care of *him* .",
      "John",
    ),
  ],
)
def test_the_examples_told_in_the_tasks(
  task, split, count, idx, inputs, target, shared_data, monkeypatch
):
  monkeypatch.setenv("ZOO_DATA_DIR", str(shared_data))
  task = seqio.TaskRegistry.get(task)
  assert task.num_input_examples(split) == count
  dataset = task.get_dataset(None, split=split, shuffle=False)
  told = dataset.filter(lambda example: example["idx"] == idx)
  (example,) = told.as_numpy_iterator()
  assert example["inputs_pretokenized"].decode() == inputs
  assert example["targets_pretokenized"].decode() == target
