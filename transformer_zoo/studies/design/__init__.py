"""The design of studies: studies and suites as data, and the runs they need.

Imports config, and from the rooms below only what refuses a wrong study before
a run starts. Begin with `study.py` and `suite.py`. `plan.py` expands the rows
of a study on a suite into runs (`planned_run.py`), and `request.py` holds the
arguments of `zoo ablate`.
"""
