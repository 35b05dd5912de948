"""The command line: one file per command, combined in ``main``.

Imports from every other room; nothing imports it.
"""
