"""Mixtures of the shipped suites for fine-tuning, one task at a time."""

import pytest

pytest.importorskip("seqio")
import seqio  # noqa: E402

import mixtures  # noqa: E402, F401
from transformer_zoo.studies.design import loading  # noqa: E402

# Diagnostic sets without a training set, which nothing is fine-tuned on.
DIAGNOSTIC = {"glue_ax_v002", "super_glue_axb_v102", "super_glue_axg_v102"}


def tasks_of(changes):
  """The tasks that a group's changes read."""
  (name,) = (
    change.partition("=")[2].strip("'")
    for change in changes
    if change.startswith("MIXTURE_OR_TASK_NAME=")
  )
  found = seqio.get_mixture_or_task(name)
  return {task.name for task in getattr(found, "tasks", [found])}


@pytest.mark.parametrize("name", ["miniature", "small", "paper"])
def test_the_parts_of_a_group_have_its_tasks(name):
  """Section 3.7: "individual tasks instead of the benchmarks as a whole"."""
  suite = loading.load_suite(name)
  assert suite.own_groups["individual"].keys() == suite.groups.keys()
  for group, changes in suite.groups.items():
    parts = [
      tasks_of(suite.changes_of_group("individual", group, part))
      for part in suite.parts_of("individual", group)
    ]
    together = tasks_of(changes) - DIAGNOSTIC
    assert set().union(*parts) == together
    assert sum(map(len, parts)) == len(together)


def test_beams_are_for_summaries_and_translations():
  suite = loading.load_suite("paper")
  beams = {
    group
    for group in suite.groups
    for part in suite.parts_of("individual", group)
    if "decoding/beam_4.gin"
    in suite.changes_of_group("individual", group, part)
  }
  assert beams == {"CNNDM", "EnDe", "EnFr", "EnRo"}
