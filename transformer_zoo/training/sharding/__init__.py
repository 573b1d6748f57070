"""Meshes of devices, and where each array of a run lies on them.

Imports `axes` and `training.state`. Begin with `meshes.py`, then
`partitioning.py`: the rules from logical axes to mesh axes.
"""
