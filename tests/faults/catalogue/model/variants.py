"""The model faults with each parameter that changes their effect."""

from __future__ import annotations

from typing import Any

from wirefault.faults.catalogue.model import MODEL_FAULTS
from wirefault.faults.registry import REGISTRY

VARIANTS: list[tuple[str, dict[str, Any]]] = [
    ("content_filter", {"form": "error"}),
    ("token_limit", {"at": "text"}),
    *(("stream_cut", {"at": at}) for at in ("arguments", "between_calls", "finish")),
    ("stream_cut", {"ending": "reset"}),
    *(("early_end", {"at": at}) for at in ("arguments", "between_calls")),
    *(
        ("mixed_calls", {"kind": kind})
        for kind in ("missing_id", "same_index", "missing_index", "interleaved")
    ),
    ("stream_hang", {"ping_every": 0.2}),
    ("slow_first_token", {"ping_every": 0.2}),
    *(("stream_error", {"error": error}) for error in ("server_error", "rate_limit")),
    ("stream_error", {"at": "finish"}),
    ("early_end", {"terminator": True}),
    *(("corrupt_event", {"kind": kind}) for kind in ("words", "bytes", "shape")),
    *(("malformed_tool_call", {"kind": kind}) for kind in ("trailing_comma", "single_quotes", "words")),
    *(("wrong_arguments", {"kind": kind}) for kind in ("type", "missing", "extra")),
    ("hallucination", {"kind": "done"}),
    ("refusing_progress", {"kind": "refuses"}),
]
EVERY = [kind() for kind in MODEL_FAULTS] + [REGISTRY[name](**options) for name, options in VARIANTS]
