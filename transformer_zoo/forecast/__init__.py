"""Forecasts: what a program costs on devices, present or not.

`cost.py`, `topologies.py`, `compilation.py` and `roofline.py` import nothing
above modules, and training uses them; `precompile.py`, `mesh_search.py` and
`report.py` import runs and serve `zoo precompile`. Begin with `cost.py`, which
counts the FLOPs and bytes of a function.
"""
