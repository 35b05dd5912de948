"""The control plane, a separate process: it brings Toxiproxy and the gateway to the state in ``state.db``.

It has a loop, the reconciliation of desired and observed state, and an HTTP API. It does not depend on the
kinds of toxics. It imports wirefault's rooms from ``core`` to ``state``, but not the agent or the tools.
"""

import logging

log = logging.getLogger("proxy_manager")
