"""The execution of studies: runs started, resumed, timed and read.

Imports runs, forecast, processes and `studies.design`; `studies/runner.py` runs
studies by it. Begin with `schedule.py`, which orders the runs; `launchers.py`
trains them here, `slurm.py` on a cluster, each by `single_run.py`.
`choices.py` reads what the search of a grid has chosen, `results.py` the folder
of a study, and `plan_report.py` prints a plan with the predictions of
`durations.py`.
"""
