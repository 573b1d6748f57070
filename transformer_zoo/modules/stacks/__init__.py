"""Stacks that do more than repeat one layer."""
