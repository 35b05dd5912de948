"""Experiments of the Chaos Toolkit: how they are recognised, and what their actions are called here. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePath
from typing import Any

from wirefault.core.errors import InputError
from wirefault.wiring.spec_file import SpecFile

_OWN_KEYS = ("steady-state-hypothesis", "rollbacks")
_NETWORK_PROGRAMS = ("toxiproxy-cli", "tc", "iptables", "nft")
_DOCS = "docs/coming-from.md has a table"

# by the function of chaostoolkit-toxiproxy: the toxic, and its attribute by the argument
_TOXICS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "create_latency_toxic": ("latency", {"latency": "latency", "jitter": "jitter"}),
    "create_bandwith_degradation_toxic": ("bandwidth", {"rate": "rate"}),
    "create_slow_connection_close_toxic": ("slow_close", {"delay": "delay"}),
    "create_timeout_toxic": ("timeout", {"timeout": "timeout"}),
    "create_slicer_toxic": (
        "slicer",
        {"average_size": "average_size", "size_variation": "size_variation", "delay": "delay"},
    ),
    "create_limiter_toxic": ("limit_data", {"bytes_limit": "bytes"}),
}
_FUNCTIONS: Mapping[str, str] = {
    "disable_proxy": "toxic: down on the link",
    "enable_proxy": "not needed: toxics are removed after each attempt",
    "delete_toxic": "not needed: toxics are removed after each attempt",
    "reset": "not needed: toxics are removed after each attempt",
    "create_proxy": "a link of the wiring",
    "modify_proxy": "the upstream of a link of the wiring",
    "delete_proxy": "not needed: proxies end with the lab",
}


def is_chaos_toolkit(data: Mapping[str, Any]) -> bool:
    """Whether the file is an experiment of the Chaos Toolkit: its method is a list of activities."""
    method = data.get("method")
    if isinstance(method, list) and any(isinstance(step, dict) and "provider" in step for step in method):
        return True
    return any(key in data for key in _OWN_KEYS) and (method is None or isinstance(method, list))


def refusal(file: SpecFile) -> InputError:
    """Return the error that says what the file is and what its activities are called here."""
    hypothesis = file.data.get("steady-state-hypothesis")
    probes = hypothesis.get("probes") if isinstance(hypothesis, dict) else None
    lines = [
        f"{file.where}: an experiment of the Chaos Toolkit: not run here, {_DOCS}. Its activities:",
        *_lines("steady-state-hypothesis.probes", probes),
        *_lines("method", file.data.get("method")),
        *_lines("rollbacks", file.data.get("rollbacks")),
    ]
    return InputError("\n".join(lines))


def _lines(place: str, steps: object) -> Iterator[str]:
    for number, step in enumerate(steps if isinstance(steps, list) else (), start=1):
        if isinstance(step, dict):
            name = step.get("name") or step.get("ref") or "?"
            yield f"  {place}[{number}] {str(name)[:60]}: {_name_here(step)}"
            yield from _pauses(step)


def _name_here(step: Mapping[str, Any]) -> str:
    provider = step.get("provider")
    if not isinstance(provider, dict):
        return "nothing: an activity without a provider"
    arguments = provider.get("arguments")
    arguments = arguments if isinstance(arguments, dict) else {}
    if step.get("type") == "probe":
        return _probe(provider)
    kind, function = provider.get("type"), str(provider.get("func", ""))
    module = str(provider.get("module", ""))
    if kind == "python" and module.startswith("chaostoxi"):
        return _toxiproxy(function, arguments)
    if kind == "process":
        path = str(provider.get("path", ""))[:60]
        if PurePath(path).name in _NETWORK_PROGRAMS:
            return f"not by command ({path}): write a toxic (wirefault faults list)"
        return f"`world: {{reset: {{command: [{path}, ...]}}}}` of the wiring, if it sets up the episode"
    if kind == "http":
        method, url = provider.get("method", "GET"), _address(provider)
        return f"`world: {{reset: {{http: {method} {url}}}}}` of the wiring, if it sets up the episode"
    return f"no counterpart ({module or kind}.{function}): faults here act on the links of an agent"


def _toxiproxy(function: str, arguments: Mapping[str, Any]) -> str:
    link = str(arguments.get("for_proxy") or arguments.get("proxy_name") or "LINK")
    if function in _FUNCTIONS:
        return _FUNCTIONS[function]
    if function == "create_toxic":
        attributes = arguments.get("attributes")
        attributes = attributes if isinstance(attributes, dict) else {}
        stream = str(arguments.get("stream", "downstream"))
        return _entry(str(arguments.get("toxic_type", "TYPE")), link, stream, attributes.items())
    if function not in _TOXICS:
        return f"unknown function {function} of chaostoolkit-toxiproxy"
    toxic, names = _TOXICS[function]
    attributes = ((names[name], value) for name, value in arguments.items() if name in names)
    return _entry(toxic, link, "downstream", attributes)


def _entry(toxic: str, link: str, stream: str, attributes: Iterable[tuple[str, Any]]) -> str:
    """Return the entry of a fault set that is the toxic."""
    written = ", ".join(f"{name}: {value}" for name, value in attributes)
    keys = f"toxic: {toxic}, links: {link}, stream: {stream}" + (f", with: {{{written}}}" if written else "")
    return f"`- {{{keys}}}` in `toxics` of a fault set"


def _probe(provider: Mapping[str, Any]) -> str:
    if provider.get("type") == "http":
        return f"`world: {{probe: {{http: GET {_address(provider)}}}}}` of the wiring"
    if provider.get("type") == "process":
        return f"`world: {{probe: {{command: [{str(provider.get('path', ''))[:60]}, ...]}}}}` of the wiring"
    return "a statement of `hypothesis`, such as success_rate >= 0.9"


def _address(provider: Mapping[str, Any]) -> str:
    """Return the URL without credentials and query, which may be secret."""
    url = str(provider.get("url", "")).partition("?")[0]
    scheme, colon, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    return (f"{scheme}{colon}{host.rpartition('@')[2]}{slash}{path}")[:80]


def _pauses(step: Mapping[str, Any]) -> Iterator[str]:
    if isinstance(step.get("pauses"), dict):
        yield "    pauses: `during: {start: 2s, duration: 3s}` of the toxic"
