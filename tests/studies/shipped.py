"""Shipped studies: what their runs change, and the settings of a run.

A plan loads the configuration of each run, for its fingerprint. Tests that look
at some of the runs plan without, and load what they look at.
"""

from collections.abc import Callable
import functools
from typing import Any
from unittest import mock

import gin

from transformer_zoo import config
from transformer_zoo.studies.design import loading
from transformer_zoo.studies.design import plan
from transformer_zoo.studies.design import planned_run
from transformer_zoo.studies.design import study as studies


def _unloaded(planner, command, changes, num_starts):
  read = plan.Read("no mixture", "nowhere")
  return repr((command, changes, num_starts)), read


@functools.cache
def runs(study: str, suite: str) -> list[planned_run.Run]:
  """Returns the runs of the first seed.

  Runs are shared where they change the same, so two whose changes come to the
  same configuration are apart; neither mixtures nor data are known.
  """
  loaded = studies.with_seeds(loading.load_study(study), (0,))
  with mock.patch.object(plan._Planner, "_configuration_uncached", _unloaded):
    return plan.plan(loaded, loading.load_suite(suite), prepare=False)


def loaded(run: planned_run.Run, read: Callable[[], Any]) -> Any:
  """Returns read(), called once while the configuration of a run is loaded.

  Args:
    run: The run. Its seed and its folders are not set.
    read: A function that outlives the call.
  """
  return _loaded(run.command, run.changes, len(run.starts), read)


@functools.cache
def _loaded(command, changes, num_starts, read):
  bindings = planned_run.bindings(command, 0, "", ["start"] * num_starts)
  try:
    config.load((), bindings, changes=changes, root=command)
    return read()
  finally:
    gin.clear_config()
