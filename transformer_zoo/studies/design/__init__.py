"""Studies and suites as data, and the plan of runs that they amount to.

Imports config, and of the rooms below only what refuses a wrong study before a
run starts. Begin with `study.py` and `suite.py`; `plan.py` expands the rows of
a study on a suite into runs.
"""
