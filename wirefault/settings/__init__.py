"""The settings of a run and where they come from; a fault set among them is canonical text.

Imports from the rooms ``core`` to ``faults``, and loads the catalogue of faults only for a run that has some.
"""
