"""Positions: absolute, relative and rotary.

Imports `axes` and initializers. Begin with `token_positions.py`, from which all
kinds are computed; each other file is one kind.
"""
