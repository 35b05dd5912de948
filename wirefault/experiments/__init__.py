"""Experiments: a hypothesis, arms that are run for it, and a verdict.

``experiment_file`` reads, ``plan`` plans, a ``strategy`` decides what runs next and an ``engine`` runs it,
``measures`` and ``verdict`` judge.
"""
