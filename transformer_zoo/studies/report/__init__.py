"""Reports: the table and the pages that show what a study found.

Imports `studies.statistics`, `studies.execution.results` and the published
figures. Begin with `report.py`, one HTML file for a study; `index.py` puts
several studies side by side, `table.py` writes Markdown, CSV and LaTeX.
"""
