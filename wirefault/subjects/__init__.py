"""The agents under test: the contract, the kinds that a wiring names, and loading by name.

The lab's own subject, ``agent``, is loaded by name like any other, never imported.
"""
