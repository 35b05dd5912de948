"""The command line: one file a command, put together in ``main``, and the generated reference.

Imports from every other room; nothing imports from it.
"""
