"""The fixture of runs that answer texts."""

from tests.runs.conftest import infer  # noqa: F401
from tests.runs.conftest import zoo  # noqa: F401
