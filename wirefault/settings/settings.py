"""The settings of a run: one table of names, ranges and defaults, frozen once the run starts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Annotated, Literal, get_args
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from wirefault.core.errors import InputError
from wirefault.faults.sets.fault_set import MAX_CHAOS_LEVEL
from wirefault.recovery.strategies import parse_recovery
from wirefault.settings.budgets import canonical_budgets, canonical_prices
from wirefault.toxiproxy.toxics.text_form import ToxicSpec, parse_list
from wirefault.wiring.links import lab_links

GROQ_BASE_URL = "https://api.groq.com/openai/v1"

Probability = Annotated[float, Field(ge=0, le=1)]
Seconds = Annotated[float, Field(gt=0, le=600)]


class SettingsError(InputError):
    """An invalid setting; the message says which, in which source, and what would be valid."""

    def __init__(self, message: str, source: str = "", setting: str = "", problem: str = "") -> None:
        """Make the error about a ``setting`` of that ``source``; ``problem``: the message without both."""
        super().__init__(message)
        self.source, self.setting, self.problem = source, setting, problem or message


class Settings(BaseModel):
    """Configuration of a run. It holds no secrets, because the run's row and the logs contain all of it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    seed: int = Field(ge=0, lt=2**31, description="seed of every draw; random by default")
    toxic_prob: Probability = Field(0.1, description="chance of a toxic, per attempt and tool link")
    toxic_scope: Literal["used", "each", "all"] = Field(
        "used",
        description="whether TOXIC_PROB draws for each of the prompt's `tool_links` (without them: for each"
        " tool link), for each tool link, or for all at once",
    )
    toxic_seconds: float = Field(
        0.0,
        ge=0,
        le=600,
        description="how long such a toxic lasts after its attempt is armed; 0: the whole attempt",
    )
    error_prob: Probability = Field(0.1, description="chance of an HTTP error, per try at a tool link")
    tool_limit: int = Field(1, ge=1, le=20, description="HTTP tries of one tool call")
    prompt_limit: int = Field(1, ge=1, le=20, description="attempts at one prompt")
    toxics: str = Field(
        "timeout:400,latency:300,latency:1500",
        description="the toxics that TOXIC_PROB draws from: kind[@stream][:value], comma separated",
    )
    idempotency: bool = Field(True, description="send an Idempotency-Key with writes")
    fallback: Literal["off", "direct"] = Field(
        "off", description="after the last failed try, make one more past the proxy (direct) or none (off)"
    )
    stream: bool = Field(False, description="ask the model for event streams, which stream faults need")
    keep_alive: bool = Field(
        False, description="keep connections to tools open for an attempt; off: a new one for each try"
    )
    tool_timeout: Seconds = Field(
        1.0, description="seconds for one HTTP try at a tool without a backend (see BACKEND_TIMEOUT)"
    )
    backend_timeout: Seconds = Field(
        5.0,
        description="seconds for one HTTP try at a tool with a real backend: the translator, unless offline",
    )
    fallback_timeout: Seconds = Field(5.0, description="seconds for the one try of FALLBACK=direct")
    proxy_wait: float = Field(
        0.0, ge=0, le=600, description="seconds that a try waits for a proxy that refuses connections"
    )
    model_timeout: Seconds = Field(
        30.0, description="seconds for one request to the model; with STREAM=on for each wait within it"
    )
    arm_timeout: Seconds = Field(2.0, description="seconds in which an attempt must be armed")
    settle_bound: Seconds = Field(2.0, description="seconds to wait for held requests after healing")
    model_calls: int = Field(8, ge=1, le=1000, description="model calls per attempt")
    tool_calls: int = Field(12, ge=1, le=1000, description="tool calls per attempt")
    attempt_time: Seconds = Field(30.0, description="seconds per attempt")
    retry_after: float = Field(0.2, ge=0, le=60, description="seconds in Retry-After of an injected 429")
    retry_after_max: float = Field(
        1.0, ge=0, le=60, description="longest Retry-After, in seconds, for which a call waits"
    )
    model: Literal["scripted", "groq", "compatible", "record", "replay"] = Field(
        "scripted",
        description="the model of the agent; record stores a real model's answers, replay returns them",
    )
    groq_model: str = Field("openai/gpt-oss-120b", min_length=1, description="the model's name at the server")
    model_base_url: str = Field("", description="an OpenAI-compatible server, for MODEL=compatible or record")
    bodies: Literal["auto", "on", "off"] = Field(
        "auto",
        description="keep the first 64 KiB of each request's and reply's body, for judging; auto: unless the"
        " subject records its calls itself, as the lab's agent does",
    )
    cassettes: str = Field(
        "state/cassettes",
        min_length=1,
        description="the folder where MODEL=record stores answers and replay finds them",
    )
    persona: Literal[
        "diligent", "stubborn", "quitter", "fabricator", "restarter", "parrot", "talker", "typist", "undoer"
    ] = Field("diligent", description="character of the scripted model")
    translator_backend: Literal["auto", "google", "mymemory", "libre", "offline"] = Field(
        "auto", description="the translation service"
    )
    faults: str = Field("", description="the fault set: a preset's or a fault's name, or a file")
    chaos_level: float = Field(
        1.0,
        ge=0,
        le=MAX_CHAOS_LEVEL,
        description="factor for every probability of the fault set, up to 1 each: 1 as written, 0 none",
    )
    fault_episodes: Probability = Field(
        1.0,
        description="fault only episodes whose own draw is below this; the others run without faults",
    )
    fault_calls: int = Field(
        0,
        ge=0,
        description="maximum number of calls of an episode that the gateway may fault; 0: no limit",
    )
    shadow: str = Field(
        "",
        description="set by an experiment on its control: the faults of its other arms, evaluated and"
        " recorded as shadows, never applied",
    )

    recovery: str = Field(
        "",
        description="the mitigations of the lab's agent: `name(parameter=value, ...)`, comma separated;"
        " empty: as TOOL_LIMIT, IDEMPOTENCY and FALLBACK say; none: no retry, no keys",
    )

    audit_writes: str = Field(
        "",
        description="set by an audit: who answers writes, their server or the clean run's replies; JSON",
    )

    audit_model: str = Field(
        "",
        description="set by an audit: whether the clean run's model replies are recorded or replayed; JSON",
    )

    prices: str = Field(
        "",
        description="a YAML file of models' prices, USD per million tokens: `name: {input: 2.5, output: 10}`",
    )

    budgets: str = Field(
        "",
        description="a YAML file of limits on an episode and the run: tokens, cost, time and others",
    )

    @field_validator("*", mode="before")
    @classmethod
    def _is_no_boolean(cls, value: object, info: ValidationInfo) -> object:
        # pydantic would accept true as 1
        if isinstance(value, bool) and cls.model_fields[str(info.field_name)].annotation is not bool:
            raise ValueError("must not be true or false")
        return value

    @field_validator("toxics")
    @classmethod
    def _canonical_toxics(cls, text: str) -> str:
        return ",".join(str(spec) for spec in parse_list(text))

    @field_validator("recovery")
    @classmethod
    def _canonical_recovery(cls, text: str) -> str:
        return str(parse_recovery(text))

    @field_validator("shadow")
    @classmethod
    def _is_shadow(cls, text: str) -> str:
        try:
            arms = json.loads(text or "{}")
            known = all(set(arm) <= set(cls.model_fields) for arm in arms.values())
        except (ValueError, TypeError, AttributeError):
            known = False
        if not known:
            raise ValueError("must map arm names to settings, as an experiment writes them")
        return text

    @field_validator("prices")
    @classmethod
    def _canonical_prices(cls, text: str) -> str:
        """Canonical JSON of a text; ``sources`` has already read files."""
        return canonical_prices(text)

    @field_validator("budgets")
    @classmethod
    def _canonical_budgets(cls, text: str) -> str:
        """Canonical JSON of a text; ``sources`` has already read files."""
        return canonical_budgets(text)

    @field_validator("faults", mode="before")
    @classmethod
    def _canonical_faults(cls, value: object, info: ValidationInfo) -> object:
        """Canonical text of a set, its plain data or its text; ``sources`` has already read presets and
        files.

        The validation context has the wiring's ``links``; the default is the lab's links.
        """
        if value == "":
            return value
        # only a run that has faults loads the catalogue
        from wirefault.faults.sets.presets import canonical_text

        links = (info.context or {}).get("links")
        return canonical_text(value, lab_links() if links is None else links)

    @field_validator("model_base_url")
    @classmethod
    def _is_url(cls, url: str) -> str:
        parts = urlsplit(url)
        if url and (
            parts.scheme not in ("http", "https") or not parts.hostname or any(map(str.isspace, url))
        ):
            raise ValueError("must be an address, http://... or https://...")
        if "@" in parts.netloc:
            raise ValueError("must not contain a user or password, since the logs show it; use MODEL_API_KEY")
        return url.rstrip("/")

    @property
    def toxic_specs(self) -> Sequence[ToxicSpec]:
        return parse_list(self.toxics)

    @property
    def asks_groq(self) -> bool:
        """Return whether Groq is the model's server: also for ``record``, unless another address is set."""
        return self.model == "groq" or (self.model == "record" and not self.model_base_url)

    @property
    def translates_offline(self) -> bool:
        """Return whether the translator's ``auto`` means its phrasebook, so that the run is reproducible."""
        return self.model in ("scripted", "record", "replay")

    def timeout_at(self, link_name: str) -> float:
        """Return the seconds allowed for one try at that tool link."""
        return float(getattr(self, timeout_setting(link_name, self.translator_backend)))

    @property
    def model_name(self) -> str:
        """Return the model name that the client requests from the server."""
        return f"scripted-{self.persona}" if self.model == "scripted" else self.groq_model

    def dump(self) -> str:
        return json.dumps(self.model_dump(), sort_keys=True)

    @property
    def hash(self) -> str:
        return hashlib.blake2b(self.dump().encode(), digest_size=8).hexdigest()


NAMES = tuple(Settings.model_fields)
# decided by an experiment or an audit: no command has an option for them
INTERNAL = frozenset({"shadow", "audit_writes", "audit_model"})
SETTABLE = tuple(name for name in NAMES if name not in INTERNAL)


def example_values(name: str) -> tuple[str, ...]:
    """Return texts for the setting: all of a choice, else its default if there is one."""
    field = Settings.model_fields[name]
    if field.annotation is bool:
        return "on", "off"
    return get_args(field.annotation) or (() if field.is_required() else (str(field.default),))


def timeout_setting(link_name: str, translator_backend: str) -> str:
    """Return the name of the setting that bounds a try at that link; links with a real backend get more
    time.
    """
    if link_name in lab_links().model_names:
        return "model_timeout"
    asks_backend = link_name == "translator" and translator_backend not in ("auto", "offline")
    return "backend_timeout" if asks_backend else "tool_timeout"


def load_frozen(text: str) -> Settings:
    """Load settings as ``dump`` wrote them into a run's row; trusted, so the catalogue is not loaded."""
    return Settings.model_construct(**json.loads(text))
