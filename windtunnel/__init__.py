"""Windtunnel: a chaos lab for AI agents."""
