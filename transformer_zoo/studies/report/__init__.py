"""Reports of studies: pages, tables and files for other programs.

Imports `studies.statistics`, `studies.execution`, `studies.design.loading` and
`studies.published`; `cli/report.py` and the runner import it. Begin with
`report.py` and `templates/study.html`, the page of a study; `files.py` writes
the other files, `index.py` the page of several studies, `site.py` those that
are published, from what `page_files.py` keeps of them.
"""
