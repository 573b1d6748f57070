"""Rates in place of the mixture's own."""

import json

import pytest

from transformer_zoo.data.loader import loader


class _Stopped(Exception):
  pass


@pytest.fixture
def used_rates(monkeypatch):
  """The rates with which training would begin; it ends there."""
  used = []

  def stop(mixture, **_):
    names = [task.name for task in mixture.tasks]
    used.append(dict(zip(names, mixture.rates, strict=True)))
    raise _Stopped

  monkeypatch.setattr(loader, "open_batches", stop)
  return used


@pytest.fixture(scope="module")
def mixture(prepared_dir):
  path = prepared_dir / "with_rates.mixture.json"
  content = {
    "name": "with_rates",
    "tasks": ["colours", "unscored", "no_training"],
    "rates": [3.0, 1.0, 0.0],
  }
  path.write_text(json.dumps(content))
  yield "MIXTURE_OR_TASK_NAME='with_rates'"
  path.unlink()


@pytest.mark.parametrize(
  "overrides, rates",
  [
    ([], (3, 1, 0)),
    (["train.rates=@Equal()"], (1, 1, 0)),
    (
      [
        "train.rates=@ExamplesProportional()",
        "ExamplesProportional.maximum=64",
        "ExamplesProportional.temperature=2.0",
        "ExamplesProportional.counts={'unscored': 16}",
      ],
      (8, 4, 0),
    ),
  ],
)
def test_train_takes_other_rates(
  train, mixture, used_rates, tmp_path, overrides, rates
):
  with pytest.raises(_Stopped):
    train(tmp_path / "run", mixture, *overrides)
  names = ("colours", "unscored", "no_training")
  assert used_rates == [dict(zip(names, rates, strict=True))]


def test_impossible_rates_are_told(train, mixture, tmp_path):
  code, _, error = train(
    tmp_path / "run",
    mixture,
    "train.rates=@ExamplesProportional()",
    "ExamplesProportional.temperature=0.0",
  )
  assert code == 2
  assert error.startswith(
    "zoo: error: ExamplesProportional.temperature is 0.0; it must be above 0"
  )
