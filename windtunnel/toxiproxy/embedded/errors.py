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


def missing_field(name: str) -> ApiError:
    return ApiError(f"missing required field: {name}", 400)


def proxy_not_found() -> ApiError:
    return ApiError("proxy not found", 404)


def proxy_already_exists() -> ApiError:
    return ApiError("proxy already exists", 409)


def invalid_stream() -> ApiError:
    return ApiError("stream was invalid, can be either upstream or downstream", 400)


def invalid_toxic_type() -> ApiError:
    return ApiError("invalid toxic type", 400)


def toxic_already_exists() -> ApiError:
    return ApiError("toxic already exists", 409)


def toxic_not_found() -> ApiError:
    return ApiError("toxic not found", 404)
