"""Translation and summaries as text: t5's strings, real rows."""

import gzip
import json

import pytest
import seqio
import tensorflow as tf

import tasks  # noqa: F401
from tasks.formats import generation as formats
from tests.tasks import tfds_rows
from transformer_zoo.errors import UserError

_WMT = {
  "wmt14_ende_v003": ("de", "German"),
  "wmt14_enfr_v003": ("fr", "French"),
  "wmt15_enfr_v003": ("fr", "French"),
  "wmt16_enro_v003": ("ro", "Romanian"),
  "wmt19_ende_v003": ("de", "German"),
  "wmt_t2t_ende_v003": ("de", "German"),
}
_FLORES = {
  "flores200_ende": "translate English to German: ",
  "flores200_enfr": "translate English to French: ",
  "flores200_enro": "translate English to Romanian: ",
  "flores200_deen": "translate German to English: ",
  "flores200_defr": "translate German to French: ",
  "flores200_dero": "translate German to Romanian: ",
  "flores200_fren": "translate French to English: ",
  "flores200_frde": "translate French to German: ",
  "flores200_frro": "translate French to Romanian: ",
  "flores200_roen": "translate Romanian to English: ",
  "flores200_rode": "translate Romanian to German: ",
  "flores200_rofr": "translate Romanian to French: ",
}


@pytest.mark.parametrize("task", _WMT)
def test_wmt(task):
  code, language = _WMT[task]
  row = {"en": "That is good.", code: "Ça va ☃."}
  assert tfds_rows.texts_of(task, row) == [
    (f"translate English to {language}: That is good.", "Ça va ☃.")
  ]
  (metric,) = seqio.TaskRegistry.get(task).metric_fns
  assert metric(["Ça va bien ☃."], ["Ça va bien ☃."]) == {
    "bleu": pytest.approx(100)
  }


def test_translate_golden_of_t5():
  dataset = tf.data.Dataset.from_tensors(
    {"en": "That is good.", "de": "Das ist gut."}
  )
  (example,) = formats.translate(dataset, "en", "de").as_numpy_iterator()
  assert example == {
    "inputs": b"translate English to German: That is good.",
    "targets": b"Das ist gut.",
  }


def test_the_first_two_letters_of_a_language_count():
  dataset = tf.data.Dataset.from_tensors({"zh-cn": "好", "pt-br": "bom"})
  (example,) = formats.translate(dataset, "zh-cn", "pt-br").as_numpy_iterator()
  assert example["inputs"].decode() == "translate Chinese to Portuguese: 好"


def test_an_unknown_language_is_named():
  dataset = tf.data.Dataset.from_tensors({"en": "a", "eng": "b", "xx": "c"})
  with pytest.raises(UserError) as error:
    formats.translate(dataset, "en", "xx")
  assert str(error.value).startswith("No language is known by the code 'xx'; ")


@pytest.mark.parametrize(
  "task, row",
  [
    ("cnn_dailymail_v002", {"article": "Long.", "highlights": "A .\nB ."}),
    ("xsum_v110", {"document": "Long.", "summary": "A .\nB ."}),
    ("samsum_v100", {"dialogue": "Long.", "summary": "A .\nB .", "id": "1"}),
  ],
)
def test_summaries(task, row):
  assert tfds_rows.texts_of(task, row) == [("summarize: Long.", "A .\nB .")]
  metric, *others = seqio.TaskRegistry.get(task).metric_fns
  scored_by = ["perplexity"] if task != "samsum_v100" else []
  assert [each.__name__ for each in others] == scored_by
  assert metric(["A b c"], ["a b c"]) == {
    "rouge1": 100,
    "rouge2": 100,
    "rougeLsum": 100,
  }


def test_cnn_dailymail_sample(monkeypatch, tmp_path):
  monkeypatch.setenv("ZOO_DATA_DIR", str(tmp_path))
  folder = tmp_path / "generation" / "cnn_dailymail_sample"
  folder.mkdir(parents=True)
  with gzip.open(folder / "validation.jsonl.gz", "wt") as file:
    file.write(json.dumps({"article": "{Long} é.", "highlights": "Short."}))
  task = seqio.TaskRegistry.get("cnn_dailymail_sample")
  (row,) = task.source.get_dataset("validation").as_numpy_iterator()
  assert row["inputs"].decode() == "summarize: {Long} é."
  assert row["targets"] == b"Short."


@pytest.fixture
def data_dir(shared_data, monkeypatch):
  monkeypatch.setenv("ZOO_DATA_DIR", str(shared_data))
  return shared_data / "generation"


@pytest.mark.slow
@pytest.mark.parametrize("task", _FLORES)
def test_flores200(task, data_dir):
  prefix = _FLORES[task]
  source, target = task[-4:-2], task[-2:]
  task = seqio.TaskRegistry.get(task)
  assert list(task.splits) == ["validation", "test"]
  dataset = task.source.get_dataset("validation", shuffle=False)
  for step in task.preprocessors[:1]:
    dataset = step(dataset)
  (examples,) = dataset.batch(2_000).as_numpy_iterator()
  lines = {
    code: (data_dir / "flores200" / f"dev.{code}").read_text().split("\n")
    for code in (source, target)
  }
  assert len(examples["inputs"]) == 997
  for i in (0, 500, 996):
    inputs, targets = (
      examples[name][i].decode() for name in ("inputs", "targets")
    )
    assert inputs == prefix + lines[source][i].strip()
    assert targets == lines[target][i].strip()


def test_multi30k(data_dir):
  task = seqio.TaskRegistry.get("multi30k_ende")
  counts = {
    split: sum(
      len(next(iter(batch.values())))
      for batch in task.source.get_dataset(split, shuffle=False)
      .batch(2_000)
      .as_numpy_iterator()
    )
    for split in task.splits
    if split != "train"
  }
  assert counts == {
    "validation": 1_014,
    "test_2016_flickr": 1_000,
    "test_2017_flickr": 1_000,
    "test_2017_mscoco": 461,
    "test_2018_flickr": 1_071,
  }
  for name, source, target in [
    ("multi30k_ende", "English to German: A group", "Eine Gruppe"),
    ("multi30k_deen", "German to English: Eine Gruppe", "A group"),
  ]:
    task = seqio.TaskRegistry.get(name)
    rows = task.source.get_dataset("validation", shuffle=False).take(1)
    (example,) = task.preprocessors[0](rows).as_numpy_iterator()
    assert example["inputs"].decode().startswith(f"translate {source}")
    assert example["targets"].decode().startswith(target)
