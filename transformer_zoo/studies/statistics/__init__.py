"""Statistics of a study: scores, differences and what they allow to conclude.

Imports `studies.execution.results`, `studies.published` and `evaluation`; only
`studies.report`, the runner and `zoo report` import it. Begin with
`analysis.py`, which holds everything that a report shows; `inference.py` and
`ranking.py` have the mathematics (docs/reference/statistics.md).
"""
