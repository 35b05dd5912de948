"""The gateway: a transparent reverse proxy on each link that injects faults into requests and replies.

``http1`` reads and writes messages (pure), ``exchange`` carries one request and its reply, ``lines`` does so
for MCP over stdio, ``budgets`` limits requests, ``lane`` has the attempt in progress, and ``control`` is the
API for the manager. Start with ``exchange``: its ``connection``, ``exchange``, ``relay`` and ``delivery``.
"""
