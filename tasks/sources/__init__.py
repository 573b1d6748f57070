"""Sources: files of rows, lines and columns, and TFDS, as SeqIO reads them.

Imports SeqIO and `errors`. Begin with `line_files.py`, which reads strictly and
names bad rows; `data_folders.py` finds the files.
"""
