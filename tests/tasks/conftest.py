import pytest

from tests import few_examples as few


@pytest.fixture(scope="module")
def few_examples():
  """Tasks of the miniature world have few examples, as many as it returns."""
  with few.only_few() as sizes:
    yield sizes
