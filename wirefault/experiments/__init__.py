"""Experiments: a hypothesis, arms that are run for it, and a verdict.

``experiment_file`` reads, ``plan`` plans, ``run_experiment`` runs by an ``engine``, ``measures`` and
``verdict`` judge.
"""
