"""The control plane, a process of its own: it makes Toxiproxy and the gateway as ``state.db`` asks for.

It has the loop, the reconciliation of desired with observed, and an HTTP API; what a toxic is, it does not
know. Of wirefault it sees ``core`` to ``state``; it imports neither the agent nor the tools.
"""

import logging

log = logging.getLogger("proxy_manager")
