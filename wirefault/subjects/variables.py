"""The environment of a subject: where its links are, and which attempt it works on. Pure."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterable, Mapping

from wirefault.core.identity import BAGGAGE_HEADER, TRACEPARENT_HEADER, Identity
from wirefault.core.lab_files import LIBRARY
from wirefault.core.private_files import private_folder
from wirefault.wiring.link import SCRIPTED, Link
from wirefault.wiring.topology import Topology, topology_file

# The SDKs insist on a key, which the scripted model does not look at.
_KEYS: Mapping[str, tuple[str, ...]] = {
    "openai_chat": ("OPENAI_API_KEY",),
    "openai_responses": ("OPENAI_API_KEY",),
    "anthropic": ("ANTHROPIC_API_KEY",),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
}
_PLACEHOLDER = "scripted-model"
_LOOPBACK_NAMES = ("127.0.0.1", "localhost", "::1")
# What the lab says to its own processes by variables that may have meant something else before.
_OF_THE_LAB = ("STATE_DB", "EFFECTS_DB", "LOGS_DIR", "PROMPTS_FILE", "LAB_ID")
_LAB_PREFIX = "WIREFAULT_"
# what was there of them before, as JSON
ORIGINAL_VARIABLE = "WIREFAULT_ORIGINAL"


def original_of(environ: Mapping[str, str]) -> dict[str, str]:
    """Those of the surroundings' variables that the lab is about to say something else by."""
    return {name: environ[name] for name in _OF_THE_LAB if name in environ}


def run_environ(environ: Mapping[str, str], links: Iterable[Link], topology: Topology) -> dict[str, str]:
    """The surroundings' variables, and those that lead the subject to its links through the lab."""
    links = list(links)
    own = {
        name: value
        for name, value in environ.items()
        if name not in _OF_THE_LAB and not name.startswith(_LAB_PREFIX)
    } | json.loads(environ.get(ORIGINAL_VARIABLE) or "{}")
    addresses = {name: value for link in links for name, value in link_variables(link, topology).items()}
    return {**own, **_missing_keys(links, own), **_past_proxies(own), **addresses}


def link_variables(link: Link, topology: Topology) -> dict[str, str]:
    """The variables in which the subject finds the link. Of an MCP server over stdio: the command line that
    starts it, for a shell, and as JSON in one more variable."""
    variables = dict.fromkeys(link.env, link_address(link, topology))
    if link.is_stdio:
        variables |= {f"{name}_JSON": json.dumps(_shim_words(link, topology)) for name in link.env}
    return variables


def _shim_words(link: Link, topology: Topology) -> list[str]:
    file = topology_file(private_folder().resolve(), topology.lab_id, topology.lane)
    program = str(LIBRARY / "lab" / "program.py")
    return [sys.executable, "-P", program, "wirefault", "mcp", "--lab", str(file), "--link", link.name]


def link_address(link: Link, topology: Topology) -> str:
    """The URL of the link's upstream, behind its faults; of a server over stdio the command that starts it.

    Its path is what the client of that upstream expects: the upstream's own, and ``/v1`` where OpenAI's
    clients ask the scripted model.
    """
    if link.is_stdio:
        return shlex.join(_shim_words(link, topology))
    path = "/v1" if link.upstream == SCRIPTED and link.dialect.startswith("openai") else link.base_path
    return topology.proxies[link.name].url + path


def attempt_environ(identity: Identity) -> dict[str, str]:
    """Which attempt a process works on, and the headers by which its requests may say so."""
    headers = identity.headers("")
    return {
        "WIREFAULT_RUN": identity.run,
        "WIREFAULT_EPISODE": identity.episode,
        "WIREFAULT_ATTEMPT": str(identity.attempt),
        "TRACEPARENT": headers[TRACEPARENT_HEADER],
        "BAGGAGE": headers[BAGGAGE_HEADER],
    }


def _missing_keys(links: Iterable[Link], environ: Mapping[str, str]) -> dict[str, str]:
    """A placeholder for the key of each API that the scripted model speaks, if there is no key for it."""
    keys = [_KEYS.get(link.dialect, ()) for link in links if link.upstream == SCRIPTED]
    return {names[0]: _PLACEHOLDER for names in keys if names and not any(map(environ.get, names))}


def _past_proxies(environ: Mapping[str, str]) -> dict[str, str]:
    """The lab is on loopback, whatever HTTP_PROXY says: no proxy is asked for what is there."""
    given = environ.get("NO_PROXY") or environ.get("no_proxy") or ""
    hosts = [host.strip() for host in given.split(",") if host.strip()]
    listed = ",".join(dict.fromkeys([*hosts, *_LOOPBACK_NAMES]))
    return {"NO_PROXY": listed, "no_proxy": listed}
