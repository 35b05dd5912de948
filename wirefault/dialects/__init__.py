"""The dialects of links: messages, errors and event streams, one module per dialect.

Pure; it imports only ``core``.
"""

from __future__ import annotations

Dialect = str
"""A dialect's name; ``wirefault.dialects.registry`` has all of them."""
