"""The command `zoo`. A subcommand imports what it needs when it runs.

Imports every room; nothing imports it. Begin with `main.py`, which parses the
command line; each other file is one subcommand or what several share.
"""
