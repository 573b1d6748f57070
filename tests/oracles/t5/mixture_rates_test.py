"""The mixtures of the t5 package have its rates here: make test-oracles."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

from tests.oracles.t5 import mixture_rates

ROOT = pathlib.Path(__file__).resolve().parents[3]
T5_PACKAGE = pathlib.Path(sys.prefix) / "t5_package"
# Tasks without training examples, at a rate of 1 that SeqIO does not use.
NO_TRAINING = {
  "glue_ax_v002": True,
  "glue_mnli_matched_v002": True,
  "glue_mnli_mismatched_v002": True,
  "super_glue_axb_v102": True,
  "super_glue_axg_v102": True,
  "super_glue_wsc_v102_simple_eval": True,
  "super_glue_axb_v102_1_sentinel": True,
  "super_glue_axg_v102_1_sentinel": True,
  "super_glue_wsc_v102_simple_1_sentinel_eval": True,
}


def printed(*arguments, path=()):
  search = os.pathsep.join([*map(str, path), str(ROOT)])
  done = subprocess.run(
    [sys.executable, "-m", "tests.oracles.t5.mixture_rates", *arguments],
    cwd=ROOT,
    env=os.environ | {"PYTHONPATH": search, "ZOO_DATA_DIR": ""},
    capture_output=True,
    text=True,
  )
  assert done.returncode == 0, done.stderr
  return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def rates():
  if not T5_PACKAGE.is_dir():
    pytest.skip("the t5 package is installed by `make test-oracles`")
  counts = json.dumps(mixture_rates.counts_of_all())
  return printed("ours"), printed("t5", counts, path=[T5_PACKAGE])


def test_every_mixture_of_theirs_is_here(rates):
  ours, theirs = rates
  assert len(theirs) >= 19
  assert not set(theirs) - set(ours)


def test_rates_are_theirs(rates):
  ours, theirs = rates
  for name in set(theirs) & set(ours):
    expected = {
      task: 0.0 if NO_TRAINING.get(task) else rate
      for task, rate in theirs[name].items()
    }
    assert ours[name] == pytest.approx(expected), name


def test_names_that_say_unclipped_do_not_clip_glue(rates):
  ours, theirs = rates
  unclipped = ours["all_proportional_unclipped_glue"]
  for task, rate in theirs["all_proportional"].items():
    is_glue = "glue" in task or task.startswith("dpr")
    assert unclipped[task] == (rate if is_glue else min(rate, 2**19)), task
