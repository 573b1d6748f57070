"""Studies: tables of runs that differ in one thing at a time.

Imports runs, forecast and everything below them; only `cli` imports it. Begin
with `design/study.py` (what a study is), then `runner.py` (its runs),
`statistics/` (what follows from them) and `report/` (how it is shown);
`published/` has the figures of the papers.
"""
