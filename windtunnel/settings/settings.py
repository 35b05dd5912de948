"""The settings of a run: one table of names, ranges and defaults, frozen once the run starts.

Order: command line, environment, ``.env``, ``config.json``, default. Whatever is unknown or out of
range raises ``SettingsError``, which names the key and where it stands, before anything starts.
"""

from __future__ import annotations

import hashlib
import io
import json
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from dotenv import dotenv_values
from dotenv.parser import parse_stream
from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator

from windtunnel.core.spelling import nearest
from windtunnel.faults.catalogue import REGISTRY
from windtunnel.faults.sets.chaos_level import scaled
from windtunnel.faults.sets.fault_set import FaultSet, build_set, load_set
from windtunnel.toxiproxy.toxics import ToxicSpec, parse_list

GROQ_BASE_URL = "https://api.groq.com/openai/v1"

Probability = Annotated[float, Field(ge=0, le=1)]
Seconds = Annotated[float, Field(gt=0, le=600)]


class SettingsError(ValueError):
    """A setting that cannot be used; the message says which, where it stands and what would do."""


class Settings(BaseModel):
    """What a run is configured with. No secret is among them: the row and the logs show them all."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    seed: int = Field(ge=0, lt=2**31, description="draws every fault; drawn itself when not given")
    toxic_prob: Probability = Field(0.1, description="chance of a toxic, per attempt and tool link")
    error_prob: Probability = Field(0.1, description="chance of an HTTP error, per try at a tool link")
    tool_limit: int = Field(1, ge=1, le=20, description="HTTP tries of one tool call")
    prompt_limit: int = Field(1, ge=1, le=20, description="attempts at one prompt")
    toxics: str = Field(
        "timeout:400,latency:300,latency:1500",
        description="what TOXIC_PROB draws from: kind[@stream][:value], comma separated",
    )
    idempotency: bool = Field(True, description="send an Idempotency-Key with writes")
    fallback: Literal["off", "direct"] = Field("off", description="what an exhausted call may still try")
    tool_timeout: Seconds = Field(1.0, description="seconds for one HTTP try at a tool")
    model_timeout: Seconds = Field(30.0, description="seconds for one request to the model")
    arm_timeout: Seconds = Field(2.0, description="seconds in which an attempt must be armed")
    settle_bound: Seconds = Field(2.0, description="seconds to wait for held requests after healing")
    model_calls: int = Field(8, ge=1, le=1000, description="model calls per attempt")
    tool_calls: int = Field(12, ge=1, le=1000, description="tool calls per attempt")
    attempt_time: Seconds = Field(30.0, description="seconds per attempt")
    retry_after: float = Field(0.2, ge=0, le=60, description="seconds in Retry-After of an injected 429")
    retry_after_max: float = Field(1.0, ge=0, le=60, description="seconds of Retry-After that are honoured")
    model: Literal["scripted", "groq", "compatible"] = Field("scripted", description="who plans")
    groq_model: str = Field("openai/gpt-oss-120b", min_length=1, description="the model's name at the server")
    model_base_url: str = Field("", description="an OpenAI-compatible server, for MODEL=compatible")
    persona: Literal["diligent", "stubborn", "quitter", "fabricator"] = Field(
        "diligent", description="character of the scripted model"
    )
    translator_backend: Literal["auto", "google", "mymemory", "libre", "offline"] = Field(
        "auto", description="who translates"
    )
    faults: str = Field("", description="the fault set: a preset's name or a file")
    chaos_level: Probability = Field(
        1.0, description="times every probability of the fault set: 1 as written, 0 none"
    )

    @field_validator("*", mode="before")
    @classmethod
    def _no_truth_for_a_number(cls, value: object, info: ValidationInfo) -> object:
        # pydantic would take true for 1
        if isinstance(value, bool) and info.field_name != "idempotency":
            raise ValueError("must not be true or false")
        return value

    @field_validator("toxics")
    @classmethod
    def _canonical_toxics(cls, text: str) -> str:
        return ",".join(str(spec) for spec in parse_list(text))

    @field_validator("faults", mode="before")
    @classmethod
    def _canonical_faults(cls, given: object) -> object:
        """From a set, its plain data or its text; names and files are looked up by ``config``."""
        if isinstance(given, FaultSet):
            given = given.dump()  # read again, since nobody has checked what Python code put into it
        if isinstance(given, dict):
            return build_set(given, "fault set", REGISTRY).dump()
        return load_set(given, "fault set", REGISTRY).dump() if isinstance(given, str) else given

    @field_validator("model_base_url")
    @classmethod
    def _is_url(cls, url: str) -> str:
        parts = urlsplit(url)
        if url and (
            parts.scheme not in ("http", "https") or not parts.hostname or any(map(str.isspace, url))
        ):
            raise ValueError("must be an address, http://... or https://...")
        if "@" in parts.netloc:
            raise ValueError("must hold no user and no password, since the logs show it; use MODEL_API_KEY")
        return url.rstrip("/")

    @property
    def toxic_specs(self) -> Sequence[ToxicSpec]:
        return parse_list(self.toxics)

    @property
    def fault_set(self) -> FaultSet:
        """What is in force: as ``faults`` says, at ``chaos_level``."""
        return scaled(load_set(self.faults, "fault set", REGISTRY), self.chaos_level)

    @property
    def model_name(self) -> str:
        """What the client asks the model server for."""
        return f"scripted-{self.persona}" if self.model == "scripted" else self.groq_model

    def dump(self) -> str:
        return json.dumps(self.model_dump(), sort_keys=True)

    @property
    def hash(self) -> str:
        return hashlib.blake2b(self.dump().encode(), digest_size=8).hexdigest()


NAMES = tuple(Settings.model_fields)

# Variables that belong in .env but are not settings of a run: secrets and places of the installation.
INSTALLATION: tuple[str, ...] = tuple(
    """
    GROQ_API_KEY MODEL_API_KEY LAB_ID TOXIPROXY_URL PROMPTS_FILE CONFIG_FILE MOVIES_FILE LIBRE_URL
    STATE_DB EFFECTS_DB LOGS_DIR SERVICES_HOST PROXY_HOST GATEWAY_HOST CONTROL_HOST MANAGER_HOST LISTEN_HOST
    PROXY_LISTEN_HOST TRANSLATOR_DEADLINE_S STATUS_PORT WINDTUNNEL_IMAGE
    """.split()  # noqa: SIM905
)


@dataclass(frozen=True)
class Source:
    """Where values come from: ``where`` is shown in errors, keys are setting names in lower case."""

    where: str
    values: Mapping[str, Any]


def resolve(sources: Iterable[Source]) -> Settings:
    """Merges the sources (the first one wins) and validates. Raises ``SettingsError``."""
    merged: dict[str, Any] = {}
    origin: dict[str, str] = {}
    for source in sources:
        for key, value in source.values.items():
            if key not in NAMES:
                raise SettingsError(f"{source.where}: {key} is no setting{nearest(key, NAMES)}")
            if key not in merged and value is not None:
                merged[key], origin[key] = value, source.where
    merged.setdefault("seed", secrets.randbelow(2**31))
    merged.setdefault("model", "compatible" if merged.get("model_base_url") else "scripted")
    settings = _validate(merged, origin)
    if settings.model == "compatible" and not settings.model_base_url:
        raise SettingsError("MODEL=compatible needs MODEL_BASE_URL, the address of the model's server")
    return settings


def _validate(merged: Mapping[str, Any], origin: Mapping[str, str]) -> Settings:
    try:
        return Settings(**merged)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = str(first["loc"][0]) if first["loc"] else "?"
        reason = first["msg"].removeprefix("Value error, ")
        where = origin.get(key, "settings")
        raise SettingsError(f"{where}: {key.upper()}={_shown(merged.get(key))}: {reason}") from None


def _shown(value: object) -> str:
    """For an error message: short, and no password of a URL."""
    return "..." if "@" in str(value) and "://" in str(value) else repr(value)[:80]


def from_environment(environ: Mapping[str, str]) -> Source:
    """The settings among the environment's variables; an empty one counts as not set."""
    return Source("environment", {name: environ[name.upper()] for name in NAMES if environ.get(name.upper())})


def from_dotenv(path: Path) -> tuple[Source, dict[str, str]]:
    """A ``.env`` file's settings, and its other known variables (keys, places) as they are.

    Raises ``SettingsError`` for a name that is neither, and for what cannot be read.
    """
    settings: dict[str, str] = {}
    others: dict[str, str] = {}
    for name, value in _dotenv_values(path).items():
        if name.lower() in NAMES:
            settings[name.lower()] = value or ""
        elif name in INSTALLATION or name.startswith(("COMPOSE_", "DOCKER_")):
            others[name] = value or ""
        else:
            known = (*map(str.upper, NAMES), *INSTALLATION)
            raise SettingsError(f"{path}: {name} is no setting{nearest(name, known)}")
    return Source(str(path), {name: value for name, value in settings.items() if value}), others


def _dotenv_values(path: Path) -> dict[str, str | None]:
    """Empty without a file. A line that dotenv would skip is an error (not quoted: it may be a secret)."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{path}: not UTF-8 text") from None
    for binding in parse_stream(io.StringIO(text)):
        if binding.error:
            raise SettingsError(f"{path}:{binding.original.line}: not NAME=value")
    return dotenv_values(stream=io.StringIO(text))


def load_frozen(text: str) -> Settings:
    """The settings as ``dump`` wrote them into a run's row."""
    return Settings(**json.loads(text))
