"""The catalogue of faults at the gateway: one small file for each, registered in one list."""

from __future__ import annotations

from windtunnel.faults.base import Fault, Reply, RequestView, error_body
from windtunnel.faults.http_error import HttpError

FAULTS: tuple[Fault, ...] = (HttpError(),)

__all__ = ["FAULTS", "Fault", "Reply", "RequestView", "error_body"]
