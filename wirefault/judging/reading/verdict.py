"""What a text may say of a value."""

from __future__ import annotations

from typing import Literal

Stated = Literal["right", "wrong", "unreadable", "none"]
