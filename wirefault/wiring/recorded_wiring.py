"""The wiring file of what a subject was seen to call: to be kept, edited and flown again. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from wirefault.core.sockets import is_loopback
from wirefault.core.yaml_text import dump_yaml
from wirefault.wiring.found import is_model_host
from wirefault.wiring.link import HTTP, Link
from wirefault.wiring.subject_spec import CommandSpec

_HEAD = """# The servers that this command called, as links. To fly it: wirefault fly --wiring FILE
# Say `writes` where a call changes state: then a write that is done twice is proven, not guessed.
"""


def recorded_wiring(links: Iterable[Link], intercept: Mapping[str, Any], command: CommandSpec) -> str:
    """The text of the file. ``intercept``: what its key of that name says."""
    links = list(links)
    hosts = [urlsplit(link.upstream).hostname or "" for link in links if not link.is_of_lab]
    allowed = sorted({host for host in hosts if not is_loopback(host) and not is_model_host(host)})
    wiring = {
        "links": {link.name: _entry(link) for link in links},
        "intercept": dict(intercept),
        "subject": command.model_dump(exclude_defaults=True, by_alias=True),
        **({"allow": allowed} if allowed else {}),
    }
    return _HEAD + dump_yaml(wiring)


def _entry(link: Link) -> dict[str, Any]:
    entry: dict[str, Any] = {"upstream": link.upstream}
    if link.dialect != HTTP:
        entry["dialect"] = link.dialect
    if link.hosts:
        entry["hosts"] = list(link.hosts)
    return entry
