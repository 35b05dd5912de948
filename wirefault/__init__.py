"""Wirefault: a chaos lab for AI agents."""
