"""Minimal pairs and facts of the miniature world, which its corpus teaches.

`files` makes them, and `grammar.tsv`, `kinds.jsonl` and `templates.jsonl` are
what it makes, in the formats of `zoo probe --pairs` and `--facts`.
"""
