"""A column names tasks that the runs of its group read."""

import types

import pytest

from transformer_zoo.errors import UserError
from transformer_zoo.studies.design import loading
from transformer_zoo.studies.design import plan
from transformer_zoo.studies.design.suite import Column

PREPARED = {"all": ("mini_sst2", "mini_squad"), "corpus": ("mini_corpus",)}


@pytest.fixture(name="check")
def make_check(monkeypatch):
  def load(mixture, prepared_dir):
    if mixture not in PREPARED:
      raise UserError(f"{mixture} is not prepared")
    tasks = [types.SimpleNamespace(name=name) for name in PREPARED[mixture]]
    return types.SimpleNamespace(tasks=tasks)

  monkeypatch.setattr(plan.manifest, "load", load)
  suite = loading.load_suite("miniature")

  def check(score, mixture="all", group="G", probes=()):
    same = {"prepared_dir": "prepared", "probes": probes}
    run = types.SimpleNamespace(
      mixture=mixture, group=group, scored=True, **same
    )
    start = types.SimpleNamespace(
      mixture="corpus", group="", scored=False, **same
    )
    column = Column(name="C", group="G", scores=(score,))
    plan.check_columns(suite, [column], [start, run])

  return check


@pytest.mark.parametrize("group", ["G", ""])
@pytest.mark.parametrize("score", ["mini_squad: em", "mini_sst2_2x: loss"])
def test_tasks_that_are_read(check, score, group):
  check(score, group=group)


def test_a_name_that_only_begins_like_a_task(check):
  with pytest.raises(UserError, match="wants the task 'mini_sst22', which no"):
    check("mini_sst22: accuracy")


def test_probes_stand_in_place_of_the_tasks_of_a_mixture(check):
  check("kinds_typed: a/b", probes=("grammar", "kinds"))
  with pytest.raises(UserError, match="wants the task 'mini_sst2', which no"):
    check("mini_sst2", probes=("grammar",))


def test_a_misspelt_task(check):
  with pytest.raises(UserError) as caught:
    check("mini_sqaud: em")
  assert str(caught.value) == (
    "column 'C' of suite 'miniature' wants the task 'mini_sqaud', which no run "
    "for group 'G' reads; did you mean 'mini_squad', 'mini_sst2'?"
  )


def test_the_task_of_a_run_that_does_not_score(check):
  with pytest.raises(UserError, match="wants the task 'mini_corpus', which no"):
    check("mini_corpus: loss")


def test_what_is_not_known_yet_passes(check):
  check("mini_sqaud: em", mixture="not_prepared")
