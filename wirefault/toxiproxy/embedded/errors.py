"""The errors of Toxiproxy's API, with its words and its status codes."""

from __future__ import annotations


class ApiError(Exception):
    """An answer of the API: ``{"error": message, "status": status}``."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.message = message
        self.status = status


def bad_request_body(reason: str) -> ApiError:
    return ApiError(f"bad request body: {reason}", 400)
