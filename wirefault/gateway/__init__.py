"""The gateway: a transparent reverse proxy on each link, which breaks single requests and their replies.

``http1`` reads and writes messages (pure), ``connection`` carries them, ``lane`` knows the attempt and
``control`` is told of it. The room imports from the rooms above it: core to state, but not from judging.
"""
