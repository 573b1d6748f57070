"""Studies: tables of runs that differ in one thing at a time."""
