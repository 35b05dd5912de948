"""The front: takes a subject's connections, however they were caught, and leads each to where it belongs."""

from __future__ import annotations
