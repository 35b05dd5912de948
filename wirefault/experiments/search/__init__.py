"""Searches over an experiment's faults: a dose, a smallest set, a cause, all pairs.

Each search is a pure function from the episodes recorded until now to the next ones, or to a result. So an
interrupted search is resumed by its records alone.
"""
