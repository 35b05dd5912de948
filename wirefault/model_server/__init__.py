"""The scripted model: a server that answers chat completions by playbooks, as the self-test subject's model.
It may import the rooms above it; it uses ``core``, ``dialects`` and ``links``.
"""
