import contextlib

import pytest
import tensorflow as tf
from tensorflow.python.autograph.core import ag_ctx

from tests import few_examples as few


@pytest.fixture(scope="module")
def few_examples():
  """Tasks of the miniature world have few examples, as many as it returns."""
  with few.only_few() as sizes:
    yield sizes


@pytest.fixture(scope="module", autouse=True)
def plain_graphs():
  """TensorFlow optimises no graph: each is run over a few rows."""
  tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
  yield
  tf.config.optimizer.set_experimental_options(
    {"disable_meta_optimizer": False}
  )


@pytest.fixture
def translated():
  """For real rows, and for steps that branch or loop by values of tensors."""


@pytest.fixture(autouse=True)
def plain_python(request):
  """Steps of tasks are run as they are.

  AutoGraph would translate their Python first, which takes longer than all
  else; one that needs it fails without. Tests of real rows and of preparation
  (tests/data) translate.
  """
  with (
    contextlib.nullcontext()
    if "translated" in request.fixturenames
    else ag_ctx.ControlStatusCtx(status=ag_ctx.Status.DISABLED)
  ):
    yield
