"""Miniature tasks whose answers are texts, scored by their likelihood."""
