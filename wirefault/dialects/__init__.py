"""What is spoken on a link: messages, errors and event streams in each dialect, one module a dialect.

Pure; it may import ``core`` alone.
"""

from __future__ import annotations

Dialect = str
"""A dialect's name; ``wirefault.dialects.registry`` has all of them."""
