"""The link that is made for a host which a subject calls for the first time. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection

from wirefault.core.sockets import Address, is_loopback
from wirefault.wiring.link import HTTP, SCRIPTED, Link

MOST_FOUND = 32
_LONGEST_NAME = 32
# Hosts of models' providers: the name of the link, and what is spoken there. The dialect of a single request
# follows from its path, since one host answers in several.
MODEL_HOSTS = {
    "api.openai.com": ("openai", "openai_chat"),
    "api.anthropic.com": ("anthropic", "anthropic"),
    "generativelanguage.googleapis.com": ("gemini", "gemini"),
    "api.groq.com": ("groq", "openai_chat"),
    "api.mistral.ai": ("mistral", "openai_chat"),
    "api.deepseek.com": ("deepseek", "openai_chat"),
    "api.x.ai": ("xai", "openai_chat"),
    "api.together.xyz": ("together", "openai_chat"),
    "api.fireworks.ai": ("fireworks", "openai_chat"),
    "api.cerebras.ai": ("cerebras", "openai_chat"),
    "openrouter.ai": ("openrouter", "openai_chat"),
}
_MODEL_SUFFIXES = {".openai.azure.com": ("azure_openai", "openai_chat")}


def found_link(host: str, port: int, scheme: str, taken: Collection[str], *, scripted: bool = False) -> Link:
    """The link to that server, under a name that is not ``taken``.

    ``scheme``: http or https, as the subject speaks there. A provider's host makes a model link; any other a
    tool link named after the host, one on this machine after its port. ``scripted``: the scripted model
    answers for the providers.
    """
    host = host.lower().rstrip(".")
    model = _model_at(host)
    if model is not None and scripted:
        name, dialect = model
        return Link(_free(name, taken), SCRIPTED, dialect, service=name, hosts=(host,), found=True)
    name, dialect = model or (_name_of(host, port), HTTP)
    usual = port == {"http": 80, "https": 443}[scheme]
    authority = str(Address(host, port)).removesuffix(f":{port}") if usual else str(Address(host, port))
    return Link(_free(name, taken), f"{scheme}://{authority}", dialect, found=True)


def is_model_host(host: str) -> bool:
    """Whether a provider of models answers there."""
    return _model_at(host) is not None


def _model_at(host: str) -> tuple[str, str] | None:
    for suffix, model in _MODEL_SUFFIXES.items():
        if host.endswith(suffix):
            return model
    return MODEL_HOSTS.get(host)


def _name_of(host: str, port: int) -> str:
    if is_loopback(host):
        return f"port_{port}"
    name = re.sub(r"[^a-z0-9]+", "_", host).strip("_")
    return name if name[:1].isalpha() else f"host_{name}"


def _free(name: str, taken: Collection[str]) -> str:
    name = name[:_LONGEST_NAME]
    number = 1
    chosen = name
    while chosen in taken:
        number += 1
        chosen = f"{name[: _LONGEST_NAME - len(str(number)) - 1]}_{number}"
    return chosen
