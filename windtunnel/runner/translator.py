"""Who translates in a run: decided once, before it starts, and recorded with its settings."""

from __future__ import annotations

import requests

from windtunnel.links.topology import Topology
from windtunnel.settings.settings import Settings

_PROBE_TIMEOUT_S = 15.0


def decide_backend(settings: Settings, topology: Topology) -> tuple[Settings, str | None]:
    """The settings with ``auto`` replaced, and a sentence on how that was decided (None if it was given).

    Under the scripted model ``auto`` is the offline phrasebook, so that a seed repeats itself. Else the
    translator service is asked, through its link before any fault, for the first backend that works.
    """
    if settings.translator_backend != "auto":
        return settings, None
    if settings.model == "scripted":
        return settings.model_copy(update={"translator_backend": "offline"}), None
    backend, reason = _probe(topology.proxies["translator"].url)
    sentence = f"translator: {backend} for this run ({reason})"
    return settings.model_copy(update={"translator_backend": backend}), sentence


def _probe(url: str) -> tuple[str, str]:
    try:
        with requests.Session() as session:
            session.trust_env = False
            reply = session.get(f"{url}/backends/probe?backend=auto", timeout=_PROBE_TIMEOUT_S)
            answer = reply.json()
        return str(answer["backend"]), str(answer["reason"])
    except (requests.RequestException, ValueError, KeyError, TypeError) as error:
        return "offline", f"the probe failed: {type(error).__name__}"
