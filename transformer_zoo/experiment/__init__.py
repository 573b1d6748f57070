"""Runs: the rooms wired into training, evaluation and inference by gin.

Bad input is refused before anything is compiled or a run folder is claimed.
"""
