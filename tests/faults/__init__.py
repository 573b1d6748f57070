"""Faults that a person could make, and the tests that ought to find them.

`table.py` lists the faults, `__main__.py` plants them:

    python -m tests.faults --room modules
"""
