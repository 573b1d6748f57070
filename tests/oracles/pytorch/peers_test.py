"""The models of the benchmarks' peer `transformers`."""

import importlib
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent.parent
ENCODER = {
  "vocab_size": 97,
  "d_model": 16,
  "d_ff": 32,
  "num_heads": 2,
  "num_layers": 1,
  "batch_size": 2,
  "inputs": 20,
  "dropout": 0.0,
}


@pytest.fixture
def peer(monkeypatch):
  """The script as a module."""
  monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
  return pytest.importorskip("peers.transformers")


def test_logits_at_masked_places_alone_have_the_same_loss(peer):
  batch = peer.masked_batch(ENCODER)
  batch |= {"next_sentence_label": batch["input_ids"][:, 0] % 2}
  model = peer.BertForPreTraining(peer.bert(ENCODER)).eval()
  before = model(**batch)
  few = peer.at_masked_places(model, "cls.predictions", batch)
  after = model(**few)
  assert (
    after.prediction_logits.shape[0]
    == len(few["labels"])
    < batch["labels"].numel()
  )
  assert after.loss.item() == pytest.approx(before.loss.item(), rel=1e-6)


def test_a_t5_1_1_has_a_head_of_its_own(peer):
  size = {"head_dim": 8, "num_encoder_layers": 1, "num_decoder_layers": 1}
  model = peer.build(ENCODER | size | {"is_bart": False})
  assert model.lm_head.weight is not model.shared.weight
  assert not model.config.scale_decoder_outputs


def test_the_step_beside_an_accelerator_has_all_that_it_asks_for(peer):
  """Finds a setting of `peers.transformers` that the step does not give."""
  step = importlib.import_module("peers.transformers_step")
  work = ENCODER | {"targets": 6, "steps": 1, "warmup": 1, "compile": False}
  found = step.measure(work | {"model": ENCODER | {"head_dim": 8}})
  assert found["tokens_per_second"] > 0
