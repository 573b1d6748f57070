"""Miniature tasks whose answers are texts, scored by their likelihood.

They stand in a folder of their own because the data of the suite is marked by
the code beside `tasks/miniature/source.py`.
"""
