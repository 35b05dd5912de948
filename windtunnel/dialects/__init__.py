"""What is spoken on a link: messages and errors in the forms of HTTP, chat completions and Anthropic.

Pure. Imports only ``core``.
"""

from __future__ import annotations

from typing import Literal

Dialect = Literal["tool", "openai", "anthropic"]
