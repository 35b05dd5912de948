"""The gateway: a transparent reverse proxy on each link, which breaks single requests.

``client`` and ``upstream`` move bytes; ``heads``, ``framing`` and ``replies`` see where messages begin and
end; ``endpoint`` rewrites; ``turn`` is one request and its record; ``lane`` knows the attempt; ``control``
is told of it. Faults live in ``windtunnel.faults.catalogue``.
"""
