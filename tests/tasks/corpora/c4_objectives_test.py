"""C4 under every objective of the gin files, and encoders' rows by SeqIO."""

import pathlib

import gin
import numpy as np
import pytest
import sentencepiece
import seqio

import tasks  # noqa: F401 (registers them)
from tasks.corpora import unlabelled_text
import transformer_zoo
from transformer_zoo import config
from transformer_zoo import corruption
from transformer_zoo.corruption import ConcatenatedDocuments
from transformer_zoo.corruption import MaskedLanguageModel
from transformer_zoo.corruption import UnifiedLanguageModel
from transformer_zoo.corruption.draws import Draws
from transformer_zoo.corruption.sentences.cutting import Objective
from transformer_zoo.data.prepare.sentences import TokenizeSentences
from transformer_zoo.data.prepare.seqio_corruption import CorruptionStep
from transformer_zoo.data.vocabularies import Vocabulary
from transformer_zoo.errors import UserError

GIN = pathlib.Path(transformer_zoo.__file__).parent.parent / "gin_configs"
# Named as in the t5 package, or examples of another objective for other losses.
RENAMED = {
  **{
    f"electra_{name}": "c4_v220_electra"
    for name in ("15", "all_tokens_mlm", "replace_mlm", "two_stage")
  },
  "elmo": "c4_v220_left_to_right",
  "spanbert_1seq": "c4_v220_spanbert",
  "iid_15": "c4_v220_iid_denoising",
  "span_3": "c4_v220_span_corruption",
}
OBJECTIVES = {path.stem for path in (GIN / "objectives").glob("*.gin")}


@pytest.fixture(autouse=True)
def clean():
  yield
  gin.clear_config()


def _rounded(spec):
  if isinstance(spec, dict):
    return {key: _rounded(value) for key, value in spec.items()}
  if isinstance(spec, list):
    return [*map(_rounded, spec)]
  return round(spec, 9) if isinstance(spec, float) else spec


def _step(task):
  (step,) = [s for s in task.preprocessors if isinstance(s, CorruptionStep)]
  return step


@pytest.mark.parametrize("name", sorted(OBJECTIVES))
def test_the_task_has_the_objective_of_the_gin_file(name):
  config.load([f"objectives/{name}.gin"], root="CORRUPTION")
  expected = corruption.to_spec(config.value("CORRUPTION"))
  task = seqio.TaskRegistry.get(RENAMED.get(name, f"c4_v220_{name}"))
  actual = _step(task).corruption
  assert _rounded(corruption.to_spec(actual)) == _rounded(expected)
  whole_rows = isinstance(actual, ConcatenatedDocuments) or (
    actual.layout == "encoder"
  )
  for feature in task.output_features.values():
    assert feature.add_eos != whole_rows
  by_sentence = [
    step for step in task.preprocessors if isinstance(step, TokenizeSentences)
  ]
  assert bool(by_sentence) == isinstance(actual, Objective)


@pytest.fixture
def vocabulary(tmp_path):
  """A small one of SentencePiece with sentinels."""
  sentencepiece.SentencePieceTrainer.train(
    sentence_iterator=(f"word{i} of {i}." for i in range(400)),
    model_prefix=str(tmp_path / "small"),
    vocab_size=40,
    pad_id=0,
    eos_id=1,
    unk_id=2,
    bos_id=-1,
    minloglevel=2,
  )
  return Vocabulary(str(tmp_path / "small.model"), 30)


@pytest.fixture
def register(tmp_path, vocabulary):
  """Registers a task over a small text."""
  text = " ".join(f"word{i} of {i}." for i in range(400))
  (tmp_path / "a.txt").write_text(text)
  name = "c4_objectives_test_numbers"

  def register(objective, add_eos):
    features = {
      key: seqio.Feature(vocabulary.to_seqio(), add_eos)
      for key in ("inputs", "targets")
    }
    return unlabelled_text.register_text_task(
      name,
      {"train": str(tmp_path / "a.txt")},
      corruption=objective,
      output_features=features,
    )

  yield register
  seqio.TaskRegistry.remove(name)


@pytest.mark.slow
@pytest.mark.parametrize(
  "objective, features",
  [
    (MaskedLanguageModel(), {"weights"}),
    (
      UnifiedLanguageModel(),
      {"weights", "token_types", "attention_kind"},
    ),
  ],
)
def test_rows_of_an_encoder_by_seqio(register, vocabulary, objective, features):
  lengths = {"inputs": 32, "targets": 32}
  task = register(objective, add_eos=False)
  dataset = task.get_dataset(lengths, split="train", shuffle=False)
  examples = list(dataset.as_numpy_iterator())
  assert len(examples) > 10
  for index, example in enumerate(examples):
    assert set(example) == {"inputs", "targets"} | features
    tokens = example["targets"][None]
    drawn = objective(tokens, Draws(0, [index]), vocabulary)
    for name, value in example.items():
      np.testing.assert_array_equal(value, drawn[name].values)
    hidden = example["weights"] == 1
    assert (example["inputs"] != example["targets"])[~hidden].sum() == 0


def test_eos_in_the_rows_of_an_encoder_is_refused(register):
  task = register(MaskedLanguageModel(), add_eos=True)
  with pytest.raises(UserError, match="'inputs', 'targets'; give its features"):
    task.get_dataset({"inputs": 32, "targets": 32}, split="train")
