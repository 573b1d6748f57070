"""Costs of a program on devices, present or not.

Imports nothing above modules; training and `precompile` use it. Begin with
`cost.py`, which counts the FLOPs and bytes of a function; then read
`topologies.py`, `compilation.py` and `roofline.py`.
"""
