"""Mitigations: the setting RECOVERY of the lab's agent, and recipes for any Python agent.

Imports from the room ``core`` alone, and nothing of the lab.
"""
