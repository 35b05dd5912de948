"""How well the rules of findings hit: real clients under faults, some of which do the thing and some of which
nearly do. ``python -m bench.findings.rules`` runs them and writes ``scores.json`` for docs/findings-rules.md.
"""
