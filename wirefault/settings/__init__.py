"""Settings of a run and their sources; a fault set among them is canonical text.

Imports the rooms ``core`` to ``faults``, and loads the catalogue of faults only for runs that have faults.
"""
