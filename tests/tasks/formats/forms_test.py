"""Forms beside text-to-text tasks: the same rows, targets and scoring."""

import collections
import functools
import html
import pathlib

import numpy as np
import pytest
import seqio
import tensorflow as tf

import mixtures  # noqa: F401
import tasks  # noqa: F401
from tasks.formats import forms
from tasks.miniature import forms as miniature_forms
from tests.tasks import tfds_rows
import transformer_zoo
from transformer_zoo.data import vocabularies
from transformer_zoo.data.features import forms as form_rows
from transformer_zoo.data.features.converters import Encoder
from transformer_zoo.data.loader import loader
from transformer_zoo.data.loader import mixture_inspection
from transformer_zoo.data.prepare import preparation
from transformer_zoo.data.storage import function_references
from transformer_zoo.data.storage import manifest
from transformer_zoo.errors import UserError
from transformer_zoo.evaluation.answers import tagged_text

REGISTERED = [
  name for name in seqio.TaskRegistry.names() if form_rows.split_name(name)[1]
]
MINIATURE = [name for name in REGISTERED if name.startswith("mini_")]
LENGTHS = {"inputs": 96, "targets": 16}

MRPC = {"sentence1": "He ran.", "sentence2": "She ran.", "label": 0, "idx": 7}
SQUAD = {
  "id": "testid",
  "title": "Title",
  "context": "Émile, the cat (a tom), sat on a mat.",
  "question": "Who sat?",
  "answers": {"text": ["the cat", "cat"], "answer_start": [7, 11]},
}


def texts_of(name, row):
  """What a form makes of a row of TFDS, before it is cut into pieces."""
  task = seqio.TaskRegistry.get(name)
  base, _ = form_rows.split_name(name)
  spec = tfds_rows.features(seqio.TaskRegistry.get(base)).get_tensor_spec()
  dataset = tf.data.Dataset.from_generator(
    lambda: iter([tfds_rows._fill(row, spec)]), output_signature=spec
  )
  step = tf.autograph.experimental.do_not_convert(task.preprocessors[0])
  return list(step(dataset).as_numpy_iterator())


@functools.lru_cache
def prepared_in(name, folder, splits):
  return preparation.prepare(name, prepared_dir=folder, splits=splits)


@pytest.fixture(scope="module")
def prepare(tmp_path_factory, few_examples):
  """Prepares some splits of a task of few examples."""
  folder = tmp_path_factory.mktemp("prepared")
  return lambda name, *splits: prepared_in(
    name, folder / "_".join(splits), splits or None
  )


def read(task, split="validation", length=96, **kwargs):
  """All rows of a split: (features of the row, its text)."""
  converter = Encoder(
    form=task.form["form"],
    predicted_share=1.0 if task.form["form"] == "tags" else 0.2,
    **kwargs,
  )
  for batch, texts in loader.evaluation_batches(
    task,
    split=split,
    lengths={"inputs": length, "targets": length},
    batch_size=16,
    converter=converter,
  ):
    for i, text in enumerate(texts):
      yield {name: value[i] for name, value in batch.items()}, text


def test_the_benchmarks_have_their_forms():
  """GLUE and SuperGLUE, SQuAD, CoNLL-2003, SWAG, HellaSwag, RACE."""
  expected = {
    "classes": [
      *(f"glue_{n}_v002" for n in "cola sst2 mrpc qqp mnli qnli rte".split()),
      "glue_wnli_v002",
      *(f"super_glue_{n}_v102" for n in "boolq cb multirc rte wic wsc".split()),
    ],
    "number": ["glue_stsb_v002", "mini_stsb"],
    "spans": ["squad_v010_allanswers", "squad_v2_v030_allanswers"],
    "choices": [
      "super_glue_copa_v102",
      "hellaswag_v110",
      "race_high_v200",
      "race_middle_v200",
    ],
    "tags": ["conll2003_ner", "conll2003_ner_v100"],
    "embedding": ["glue_stsb_v002", "glue_mnli_v002", "snli_v110"],
  }
  names = {f"{task}:{form}" for form, all_ in expected.items() for task in all_}
  assert names <= set(REGISTERED)


# A cosine of two texts is none of the classes of their task.
UNSCORED = ("glue_mnli_v002:embedding", "snli_v110:embedding")


@pytest.mark.parametrize("name", REGISTERED)
def test_a_form_is_scored_as_its_task(name):
  form = seqio.TaskRegistry.get(name)
  task = seqio.TaskRegistry.get(form_rows.split_name(name)[0])
  assert form.splits == task.splits
  assert list(form.output_features) == ["first", "second"]
  if name in UNSCORED:
    assert not form.metric_fns
    return
  assert function_references.describe_scoring(
    form
  ) == function_references.describe_scoring(task)


@pytest.mark.parametrize("name", MINIATURE)
def test_a_form_has_the_rows_of_its_task(name, prepare):
  """In the same order, with the targets that its post-processing reads."""
  (task,) = prepare(name, "validation").tasks
  (base,) = prepare(form_rows.split_name(name)[0], "validation").tasks
  theirs = [
    text
    for _, texts in loader.evaluation_batches(
      base, split="validation", lengths=LENGTHS, batch_size=32
    )
    for text in texts
  ]
  ours = [text for _, text in read(task)]
  for fields, others in zip(ours, theirs, strict=True):
    for field in ("inputs_pretokenized", "targets_pretokenized"):
      assert fields[field] == others[field]
    for field in {"idx", "answers"} & others.keys():
      assert fields[field] == others[field]


@pytest.mark.parametrize("name", MINIATURE)
def test_the_label_is_the_target(name, prepare):
  """What a row predicts spells the text that a text-to-text model writes."""
  (task,) = prepare(name, "validation").tasks
  form = task.form["form"]
  for row, text in read(task):
    target = text["targets_pretokenized"]
    places = np.flatnonzero(row["encoder_loss_weights"])
    labels = row["encoder_target_tokens"][places]
    if form == "classes":
      assert places.tolist() == [0]
      assert task.form["classes"][labels[0]] == target
    elif form == "number":
      assert f"{labels.view(np.float32)[0]:.1f}" == target
    elif form == "choices":
      segments = row["encoder_segment_ids"]
      numbers = range(1, len(text["choices"]) + 1)
      assert segments[places].tolist() == [*numbers]
      assert (row["encoder_positions"][places] == 0).all()
      assert text["choices"][int(labels.argmax())] == target
      assert labels.sum() == 1
    elif form == "spans" and not text["answers"]:
      assert row["answer_starts"] == row["answer_ends"] == 0
    elif form == "spans":
      window = text["window"]
      shift = window["start"] - window["place"]
      first = text["piece_starts"][row["answer_starts"] + shift]
      last = text["piece_ends"][row["answer_ends"] + shift]
      assert text["context"][first:last] == target


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mini_mrpc:classes", "mini_stsb:number"])
@pytest.mark.parametrize("separators", [1, 2])
def test_packed_rows_have_every_example(name, separators, prepare):
  """An epoch of packed batches has the rows of an unpacked one."""
  (task,) = prepare(name, "train").tasks
  mixture = manifest.PreparedMixture(name, (task,), (1.0,))
  converter = Encoder(form=task.form["form"], separators=separators)
  seen, step = [], 0
  batches = loader.open_batches(
    mixture,
    split="train",
    lengths=LENGTHS,
    batch_size=8,
    seed=0,
    converter=converter,
  )
  ours = collections.Counter(
    tuple(row["encoder_input_tokens"][row["encoder_input_tokens"] > 0])
    for row, _ in read(task, "train", separators=separators)
  )
  while len(seen) < ours.total():
    batch, step = batches[step], step + 1
    assert {n: v.shape for n, v in batch.items()} == converter.shapes(
      LENGTHS, 8, True
    )
    for tokens, segments in zip(
      batch["encoder_input_tokens"], batch["encoder_segment_ids"], strict=True
    ):
      for segment in range(1, segments.max() + 1):
        inside = segments == segment
        seen.append(tuple(tokens[inside]))
  assert collections.Counter(seen[: ours.total()]) == ours


@pytest.mark.slow
def test_a_mixture_has_the_forms_of_its_tasks(prepare):
  mixture = prepare("miniature_super_glue", "train")
  seqio.MixtureRegistry.add(
    "forms_test_pairs", [("mini_mrpc", 2.0), ("mini_nli", 3.0)]
  )
  found = prepare("forms_test_pairs:classes", "train")
  assert found.name == "forms_test_pairs:classes"
  assert [task.name for task in found.tasks] == [
    "mini_mrpc:classes",
    "mini_nli:classes",
  ]
  assert found.rates == prepare("forms_test_pairs", "train").rates == (2.0, 3.0)
  assert all(task.form is None for task in mixture.tasks)
  shown = mixture_inspection.inspect_mixture(
    found, steps=10, batch_size=8, lengths={"inputs": 96}
  )
  assert [task["rate"] for task in shown["tasks"]] == [2.0, 3.0]
  assert shown["examples_per_row"] > 4
  assert not any(task["missing_features"] for task in shown["tasks"])


@pytest.mark.parametrize(
  "name, message",
  [
    (
      "mini_stsb:classes",
      "Task 'mini_stsb' has no form 'classes'; it has 'number', 'embedding'.",
    ),
    (
      "miniature_glue:number",
      "Task 'mini_cola' has no form 'number'; it has 'classes'.",
    ),
    (
      "mini_translate:tags",
      "Task 'mini_translate' has no form 'tags'; it has none.",
    ),
  ],
)
def test_a_task_without_the_form_is_named_with_those_it_has(
  name, message, prepare
):
  with pytest.raises(UserError) as error:
    prepare(name)
  assert str(error.value) == message


def test_a_converter_of_another_form_is_refused(prepare):
  (task,) = prepare("mini_mrpc:classes", "train").tasks
  for converter, kind in (
    (Encoder(), "for an encoder model"),
    (Encoder(form="number"), "of the form 'number'"),
  ):
    with pytest.raises(UserError) as error:
      loader.evaluation_batches(
        task,
        split="train",
        lengths=LENGTHS,
        batch_size=2,
        converter=converter,
      )
    assert str(error.value) == (
      "Task 'mini_mrpc:classes' makes examples of the form 'classes', but the "
      f"converter Encoder lays out those {kind}; choose the form by "
      "EncoderFeatures.form (`zoo inspect task` lists those of a task), or "
      "both the converter and a model of such examples."
    )


def test_a_form_survives_its_manifest(prepare):
  (task,) = prepare("mini_mrpc:classes", "train").tasks
  folder = task.folder.removesuffix("/mini_mrpc:classes")
  loaded = manifest.load_task("mini_mrpc:classes", folder)
  assert loaded.form == task.form
  assert loaded.form == {
    "form": "classes",
    "classes": ["not_equivalent", "equivalent"],
  }


def test_texts_of_a_pair():
  (example,) = texts_of("glue_mrpc_v002:classes", MRPC)
  assert example == {
    "inputs": b"mrpc sentence1: He ran. sentence2: She ran.",
    "targets": b"not_equivalent",
    "idx": 7,
    "first": b"He ran.",
    "second": b"She ran.",
  }


@pytest.mark.parametrize("label, expected", [(2.57, 2.57), (-1.0, np.nan)])
def test_a_similarity_is_not_rounded(label, expected):
  row = {**MRPC, "label": label}
  (example,) = texts_of("glue_stsb_v002:number", row)
  np.testing.assert_allclose(example["label"], expected, rtol=1e-6)


def test_texts_of_passages():
  row = {
    "question": "Who sang?",
    "answer": "Ann",
    "label": 1,
    "paragraph": "<b>Sent 1: </b>Ann sang.<br><b>Sent 2: </b>Bob left.",
    "idx": {"paragraph": 2, "question": 5, "answer": 9},
  }
  (example,) = texts_of("super_glue_multirc_v102:classes", row)
  assert example["first"] == b"Sent 1: Ann sang. Sent 2: Bob left."
  assert example["second"] == b"Who sang? Ann"
  assert example["idx/question"] == 5


def test_texts_of_race():
  row = {
    "article": "It rained.",
    "questions": ["How was it?", "And then?"],
    "options": [["dry", "wet", "hot", "cold"], ["a", "b", "c", "d"]],
    "answers": ["B", "D"],
    "example_id": "high1.txt",
  }
  examples = texts_of("race_high_v200:choices", row)
  assert [example["seconds"].tolist() for example in examples] == [
    [b"How was it? dry", b"How was it? wet", b"How was it? hot"]
    + [b"How was it? cold"],
    [b"And then? a", b"And then? b", b"And then? c", b"And then? d"],
  ]
  assert [example["targets"] for example in examples] == [
    b"choice2",
    b"choice4",
  ]
  assert {example["first"] for example in examples} == {b"It rained."}


@pytest.mark.parametrize(
  "name, row, first, seconds, target",
  [
    (
      "super_glue_copa_v102:choices",
      {
        "premise": "My foot went numb.",
        "question": "effect",
        "choice1": "I put my shoes on.",
        "choice2": "I shook my foot.",
        "label": 1,
      },
      "My foot went numb. What happened as a result?",
      ["I put my shoes on.", "I shook my foot."],
      "choice2",
    ),
    (
      "hellaswag_v110:choices",
      {
        "activity_label": "Roofing",
        "context": "He sits down. He",
        "endings": ["eats.", "flies.", "sings.", "falls."],
        "label": -1,
      },
      "Roofing: He sits down. He",
      ["eats.", "flies.", "sings.", "falls."],
      "<unk>",
    ),
  ],
)
def test_texts_of_choices(name, row, first, seconds, target):
  (example,) = texts_of(name, row)
  assert example["first"].decode() == first
  assert [text.decode() for text in example["seconds"]] == seconds
  assert example["targets"].decode() == target


def test_texts_of_wsc():
  row = {
    "text": "The fish ate the worm . It was hungry.",
    "label": 0,
    "span1_text": "the worm",
    "span1_index": 3,
    "span2_text": "It",
    "span2_index": 6,
  }
  (example,) = texts_of("super_glue_wsc_v102:classes", row)
  marked = b"The fish ate * the worm * . # It # was hungry."
  assert example["first"] == marked
  assert example["inputs"] == b"wsc text: " + marked
  assert example["second"] == b""


@pytest.mark.slow
def test_swag_as_bert_reads_it(tmp_path, monkeypatch, prepare):
  """The sentence, and the beginning of the next one with each ending."""
  names = ["startphrase", "sent1", "sent2", *(f"ending{i}" for i in range(4))]
  (tmp_path / "swag").mkdir()
  rows = [
    ",".join([*names, "label"]),
    "He ran. She,He ran.,She,sat.,ran.,ate.,saw.,2",
  ]
  for split in ("train", "val"):
    (tmp_path / "swag" / f"{split}.csv").write_text("\n".join(rows) + "\n")
  monkeypatch.setenv("ZOO_DATA_DIR", str(tmp_path))
  vocabulary = pathlib.Path(tasks.__file__).parent / "miniature"
  monkeypatch.setenv("ZOO_VOCABULARY", str(vocabulary / "vocabulary.model"))
  (task,) = prepare("swag:choices").tasks
  assert task.form == {"form": "choices", "most": 4}
  ((row, text),) = read(task)
  assert text["choices"] == ["choice1", "choice2", "choice3", "choice4"]
  assert (text["label"], text["targets_pretokenized"]) == (2, "choice3")
  third = row["encoder_segment_ids"] == 3
  second = third & (row["encoder_token_types"] == 1)
  written = task.vocabulary.decode(row["encoder_input_tokens"][second])
  assert written == task.vocabulary.decode(task.vocabulary.encode("She ate."))
  assert row["encoder_positions"][third].tolist() == list(range(third.sum()))


def test_answers_are_written_as_the_rows_write_them():
  (example,) = texts_of("squad_v010_allanswers:spans", SQUAD)
  assert example["answers"].tolist() == [b"the cat", b"cat"]
  assert example["targets"] == b"the cat"
  assert example["second"].decode() == SQUAD["context"]


def test_a_question_without_an_answer():
  row = {**SQUAD, "answers": {"text": [], "answer_start": []}}
  (example,) = texts_of("squad_v2_v030_allanswers:spans", row)
  assert example["targets"] == b"unanswerable"
  assert example["answers"].size == example["starts"].size == 0


@pytest.mark.parametrize(
  "context, answer, start, place",
  [
    ("a cat, the cat", "cat", 11, 11),
    ("concat a cat", "cat", None, 9),
    ("concat", "cat", None, 3),
  ],
)
def test_place_of_an_answer(context, answer, start, place):
  assert forms.find_answer(context, answer, start) == place


@pytest.mark.parametrize(
  "answer, start, message",
  [
    (
      "dog",
      None,
      "the answer 'dog' is not in its context 'the cat sat'",
    ),
    (
      "cat",
      5,
      "the answer 'cat' is not at character 5 of its context, which has 'at ' "
      "there",
    ),
  ],
)
def test_a_text_without_the_answer_is_refused(answer, start, message):
  with pytest.raises(ValueError) as error:
    forms.find_answer("the cat sat", answer, start)
  assert str(error.value) == message


def test_a_label_that_is_no_class_is_named_in_one_sentence(prepare):
  task = seqio.TaskRegistry.get("mini_mrpc")
  seqio.TaskRegistry.add(
    "forms_test_another_label",
    source=task.source,
    preprocessors=task.preprocessors,
    output_features=task.output_features,
    metric_fns=[],
  )
  form = forms.register_classes(
    "forms_test_another_label",
    "{inputs}",
    classes=("equivalent", "other"),
    features=miniature_forms._FEATURES,
  )
  with pytest.raises(UserError) as error:
    prepare(form.name)
  assert str(error.value) == (
    "Task 'forms_test_another_label:classes' cannot read its split "
    "'validation', example 0: the target 'not_equivalent' is none of "
    "equivalent, other; mend the data, or skip such rows with --skip_bad_rows."
  )
  for name in (form.name, "forms_test_another_label"):
    seqio.TaskRegistry.remove(name)


def test_a_row_without_its_answer_is_named_in_one_sentence(prepare):
  task = seqio.TaskRegistry.get("mini_squad")
  arguments = {
    "source": task.source,
    "preprocessors": task.preprocessors,
    "output_features": task.output_features,
    "metric_fns": [],
  }
  seqio.TaskRegistry.add("forms_test_without_answer", **arguments)
  form = forms.register_spans(
    "forms_test_without_answer",
    "who?",
    "{inputs}",
    answers=lambda example: tf.constant(["zzz"]),
    features=miniature_forms._FEATURES,
  )
  with pytest.raises(UserError) as error:
    prepare(form.name)
  assert str(error.value) == (
    "Task 'forms_test_without_answer:spans' cannot read its split "
    "'validation', example 0: the answer 'zzz' is not in its context "
    "'mini_squad question: which one was trimmed? context: karen h'; mend the "
    "data, or skip such rows with --skip_bad_rows."
  )
  for name in (form.name, "forms_test_without_answer"):
    seqio.TaskRegistry.remove(name)


@pytest.mark.parametrize(
  "tags",
  [
    ["I-PER", "I-PER", "O", "I-ORG", "B-ORG"],
    ["B-PER", "I-PER", "O", "B-ORG", "B-ORG"],
  ],
)
def test_tags_are_those_of_iob2(tags):
  names = ["O", "B-PER", "I-PER", "B-ORG", "I-ORG"]
  assert forms.tag_numbers(tags, names) == [1, 2, 0, 3, 3]
  with pytest.raises(ValueError, match="'B-ORG' is none of O, B-PER, I-PER"):
    forms.tag_numbers(tags, names[:3])


def test_a_task_without_texts_has_no_form():
  with pytest.raises(UserError, match="none of its steps is seqio.preproc"):
    forms.register_tags("mini_corpus_without_tokenize", tags=["O"])


def test_parts_of_inputs_are_those_of_the_template():
  part = miniature_forms.Part("qa question: {q} context: {c}", "q")
  example = {"inputs": tf.constant("qa question: Who? context: It is. So.")}
  assert part(example).numpy() == b"Who?"
  with pytest.raises(tf.errors.InvalidArgumentError, match="not of the form"):
    part({"inputs": tf.constant("another")})


@pytest.fixture(autouse=True, scope="module")
def without_tokenize():
  seqio.TaskRegistry.add(
    "mini_corpus_without_tokenize",
    source=seqio.TaskRegistry.get("mini_cola").source,
    preprocessors=[],
    output_features=seqio.TaskRegistry.get("mini_cola").output_features,
  )
  yield
  seqio.TaskRegistry.remove("mini_corpus_without_tokenize")
  seqio.MixtureRegistry.remove("forms_test_pairs")


def spelt(task, rows):
  """What the labels of rows spell, and the example of each answer."""
  form, answers = task.form, {}
  for number, (row, text) in enumerate(rows):
    places = np.flatnonzero(row["encoder_loss_weights"])
    labels = row["encoder_target_tokens"][places]
    if form["form"] == "classes":
      answer = form["classes"][labels[0]]
    elif form["form"] == "number":
      answer = str(labels.view(np.float32)[0])
    elif form["form"] == "choices":
      answer = text["choices"][labels.argmax()]
    elif form["form"] == "tags":
      tags = np.array(form["tags"])[np.zeros(len(text["tokens"]), int)]
      read = np.array(text["first_places"]) >= 0
      tags[read] = np.array(form["tags"])[
        row["encoder_target_tokens"][np.array(text["first_places"])[read]]
      ]
      answer = tagged_text.bracketed(text["tokens"], tags.tolist())
    else:
      number, shift = text["window"]["example"], text["window"]["start"]
      shift -= text["window"]["place"]
      answer = ""
      if row["answer_starts"]:
        first = text["piece_starts"][row["answer_starts"] + shift]
        last = text["piece_ends"][row["answer_ends"] + shift]
        answer = text["context"][first:last]
    if answer or number not in answers:
      answers[number] = answer, text
  return answers.values()


@pytest.mark.slow
@pytest.mark.usefixtures("translated")
@pytest.mark.parametrize(
  "name, metric, least, number",
  [
    # The targets of the text-to-text task are rounded to fifths.
    ("glue_stsb_v002:number", "pearson_corrcoef", 99.98, 1_500),
    ("super_glue_cb_v102:classes", "accuracy", 100, 56),
    ("super_glue_copa_v102:choices", "accuracy", 100, 100),
    ("conll2003_ner:tags", "entity_f1", 100, 3_250),
    # Some answers begin or end within a piece. The first of 10,570 questions.
    ("squad_v010_allanswers:spans", "em", 99.7, 2_000),
  ],
)
def test_labels_of_real_rows_have_the_best_scores(
  name, metric, least, number, shared_data, monkeypatch, tmp_path
):
  monkeypatch.delenv("ZOO_VOCABULARY", raising=False)
  monkeypatch.setenv("ZOO_DATA_DIR", str(shared_data))
  source = seqio.TaskRegistry.get(name).source
  rows_of = source.get_dataset
  monkeypatch.setattr(
    source,
    "get_dataset",
    lambda *args, **kwargs: rows_of(*args, **kwargs).take(number),
  )
  (task,) = preparation.prepare(
    name,
    prepared_dir=tmp_path,
    data_dir=str(shared_data),
    splits=["validation"],
  ).tasks
  rows = list(read(task, length=384))
  answers = spelt(task, rows)
  assert len(answers) == number
  process = function_references.resolve_post_processing(
    task.scoring.postprocess
  )
  targets, predictions = zip(
    *(
      (
        process(text["targets_pretokenized"], example=text, is_target=True),
        process(answer, example=text, is_target=False),
      )
      for answer, text in answers
    ),
    strict=True,
  )
  scores = {}
  for reference in task.scoring.metrics:
    measure = function_references.resolve(reference)
    scores |= measure(list(targets), list(predictions))
  assert scores[metric] >= least


@pytest.mark.slow
def test_questions_have_as_many_windows_as_those_of_bert(
  shared_data, monkeypatch
):
  """ "Num split examples" of google-research/bert at 384, a stride of 128."""
  monkeypatch.delenv("ZOO_VOCABULARY", raising=False)
  monkeypatch.setenv("ZOO_DATA_DIR", str(shared_data))
  task = seqio.TaskRegistry.get("squad_v010_allanswers:spans")
  features = task.output_features
  vocabulary = vocabularies.from_seqio(features["first"].vocabulary)
  size = functools.cache(lambda text: len(vocabulary.encode(text)))
  rows = task.source.get_dataset("validation", shuffle=False)
  pairs = rows.map(lambda row: tf.stack([row["question"], row["context"]]))
  lengths = [
    (size(question.decode()), size(context.decode()))
    for batch in pairs.batch(1_024).as_numpy_iterator()
    for question, context in batch
  ]
  assert len(lengths) == 10_570
  form = form_rows.of_task({"form": "spans"}, vocabulary, 384, separators=1)
  assert form.num_rows(np.array(lengths)).sum() == 10_833


def test_a_task_is_shown_in_python(monkeypatch):
  monkeypatch.delenv("ZOO_DATA_DIR", raising=False)
  shown = transformer_zoo.task("mini_mrpc", shown=2, measured=10)
  assert len(shown.examples) == 2 and shown.lengths["inputs"]["quantiles"]
  assert "mini_mrpc:classes" in [form["task"] for form in shown.forms]
  text = shown.examples[0]["inputs"]["text"]
  assert f"<td>{html.escape(text)}</td>" in shown._repr_html_()
  with pytest.raises(UserError, match="named 'mini_mrcp'; did you mean"):
    transformer_zoo.task("mini_mrcp")
