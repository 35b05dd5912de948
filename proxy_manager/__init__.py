"""The control plane, a separate process: it brings Toxiproxy and the gateway to the state in ``state.db``.

A loop, the reconciliation of desired and observed state, and an HTTP API. It knows nothing about kinds of
toxics. It imports wirefault's rooms from ``core`` to ``state``, and neither the agent nor the tools.
"""

import logging

log = logging.getLogger("proxy_manager")
