"""C4 and Wikipedia of TFDS: what is read, and under which objective."""

import pytest
import seqio
import tensorflow as tf

import mixtures  # noqa: F401 (needs C4 to be registered)
import tasks  # noqa: F401 (registers them)
from tests.tasks import tfds_rows
from transformer_zoo.corruption import ConcatenatedDocuments
from transformer_zoo.corruption import Denoising
from transformer_zoo.corruption import Iid
from transformer_zoo.corruption import RandomPrefix
from transformer_zoo.corruption import SpanCorruption
from transformer_zoo.data.prepare.seqio_corruption import CorruptionStep
from transformer_zoo.errors import UserError

OBJECTIVES = {
  "c4_v020_unsupervised": SpanCorruption(),
  "c4_noclean_v020_unsupervised": SpanCorruption(),
  "c4_realnewslike_v020_unsupervised": SpanCorruption(),
  "c4_webtextlike_v020_unsupervised": SpanCorruption(),
  "c4_v220_span_corruption": SpanCorruption(0.15, 3.0),
  "c4_v220_iid_denoising": Denoising(Iid(0.15)),
  "c4_v220_prefix_lm": Denoising(
    RandomPrefix(0.5), "drop_nonnoise_tokens", "drop_noise_tokens"
  ),
  "c4_v220_full_lm": ConcatenatedDocuments(),
  "wikipedia_20190301.en_v003_unsupervised": SpanCorruption(),
}


@pytest.mark.parametrize("name", OBJECTIVES)
def test_the_text_is_the_target_under_the_objective(name):
  task = seqio.TaskRegistry.get(name)
  row = dict.fromkeys(tfds_rows.features(task), "")
  row["text"] = "Zwölf\nZeilen."
  dataset = task.preprocessors[0](tf.data.Dataset.from_tensors(row))
  assert list(dataset.as_numpy_iterator()) == [
    {"targets": "Zwölf\nZeilen.".encode()}
  ]
  steps = task.preprocessors
  (step,) = [s for s in steps if isinstance(s, CorruptionStep)]
  assert step.corruption == OBJECTIVES[name]


def test_a_corpus_that_is_not_built_is_told(monkeypatch, tmp_path):
  monkeypatch.setenv("ZOO_DATA_DIR", str(tmp_path))
  monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path))
  task = seqio.TaskRegistry.get("c4_v020_unsupervised")
  assert list(task.splits) == ["train", "validation"]
  with pytest.raises(UserError, match="dataset 'c4/en:2.2.0' is missing"):
    task.source.get_dataset("validation")


def test_mixtures_with_c4_are_registered():
  names = seqio.MixtureRegistry.names()
  assert {"en_mix", "all_equal", "all_mix", "all_proportional"} <= set(names)
