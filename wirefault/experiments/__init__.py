"""Experiments: a file that says what must hold, the arms that are flown for it, and the verdict.

``experiment_file`` reads, ``arms`` plans, ``flying`` flies, ``measures`` and ``verdict`` judge.
"""
