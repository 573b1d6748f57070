"""Orbax, set up for the states of runs."""

import logging
import os

import jax
import numpy as np
import orbax.checkpoint as ocp

# Orbax measures by the clock on the wall, which may jump: one process has
# nobody to wait for, and several must not wait for ever.
_SECONDS_ALONE, _SECONDS_TOGETHER = 10**9, 600


def make_writer() -> ocp.AsyncCheckpointer:
  """Makes what writes `state` (arrays) and `progress` (JSON) in threads."""
  # It logs pages about failures that are told in a sentence.
  logging.getLogger("absl").addFilter(_is_not_of_orbax)
  return ocp.AsyncCheckpointer(
    ocp.CompositeCheckpointHandler(
      # Compression spares 8 % of the bytes of trained parameters and costs as
      # much processor time as all the rest.
      state=ocp.PyTreeCheckpointHandler(
        use_compression=False, type_handler_registry=_types()
      ),
      progress=ocp.JsonCheckpointHandler(),
    ),
    timeout_secs=(
      _SECONDS_ALONE if jax.process_count() == 1 else _SECONDS_TOGETHER
    ),
  )


def _types() -> ocp.type_handlers.TypeHandlerRegistry:
  numbers = ocp.type_handlers.ScalarHandler()
  return ocp.type_handlers.create_type_handler_registry(
    # The copies of an array would each save a slice, which is cut by a program
    # for every shape and device: compiled while training waits.
    (jax.Array, ocp.type_handlers.ArrayHandler(use_replica_parallel=False)),
    (np.ndarray, ocp.type_handlers.NumpyHandler()),
    *((kind, numbers) for kind in (int, float, np.number)),
  )


def _is_not_of_orbax(record: logging.LogRecord) -> bool:
  return f"{os.sep}orbax{os.sep}" not in record.pathname
