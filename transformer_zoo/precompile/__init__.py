"""`zoo precompile`: what a run would cost on devices, present or not.

Imports `forecast`, `runs` and `training`. Begin with `programs.py`, the
programs of a run before they are compiled; then read `forecasts.py`, which
compiles them, `report.py` and `mesh_search.py`.
"""
