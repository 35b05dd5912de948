"""The configuration of a process, from its environment, ``.env`` and ``config.json``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from wirefault.core.lab_folder import (
    cassettes_folder,
    effects_file,
    is_lab_up,
    lab_root,
    logs_folder,
    read_lab_record,
    sample_prompts,
    state_file,
)
from wirefault.core.processes import TOPOLOGY_VARIABLE
from wirefault.core.sockets import Address
from wirefault.faults.sets.presets import read_canonical
from wirefault.recovery.strategies import parse_recovery
from wirefault.settings.budgets import load_budgets, load_prices
from wirefault.settings.settings import Settings, SettingsError
from wirefault.settings.sources import (
    ConfigFile,
    Source,
    dotenv_remarks,
    from_dotenv,
    from_environment,
    merge_sources,
    read_config_file,
)
from wirefault.wiring.subject_spec import why_not_killed
from wirefault.wiring.topology import Topology, default_topology, topology_from
from wirefault.wiring.wiring import Wiring, dumped_wiring, lab_wiring

# the chances of toxics and errors are the lab's; other wirings name their faults
NO_CHANCES: Mapping[str, str] = {"toxic_prob": "0", "error_prob": "0"}


COMMAND_LINE = "command line"
_LAB_FILES = ("MOVIES_FILE", "PLAYBOOKS")


@dataclass(frozen=True)
class Configuration:
    """Settings, addresses and files of a process."""

    settings: Settings
    topology: Topology
    environ: Mapping[str, str]  # the environment overrides .env
    prompts: Path
    logs: Path
    state: Path
    effects: Path
    ports: Mapping[str, int] = field(default_factory=dict)  # of a new lab, by the names of ``default_ports``
    remarks: tuple[str, ...] = ()  # sentences for the user
    wiring: Wiring = field(default_factory=lab_wiring)
    faults_name: str = ""  # the fault set as the user named it: a preset, a fault or a file

    @property
    def lab_files(self) -> dict[str, str]:
        """The lab's data files other than the shipped ones, by their variable and as the user named them."""
        shipped = lab_root() / "flask_tools" / "movies.json"
        names = {name: self.environ.get(f"HOST_{name}") or self.environ.get(name, "") for name in _LAB_FILES}
        return {
            name: file for name, file in names.items() if file and Path(file).resolve() != shipped.resolve()
        }


def load_configuration(
    environ: Mapping[str, str],
    command_line: Mapping[str, Any] | None = None,
    wiring: Wiring | None = None,
    *,
    from_surroundings: bool = True,
    decided: Mapping[str, Any] | None = None,
) -> Configuration:
    """Read and validate everything.

    ``wiring`` is for a lab that is about to start; by default it is the running lab's. Without
    ``from_surroundings`` no setting comes from the environment or from ``.env``. ``decided`` holds all
    settings of a run, frozen by its launcher. Raises ``SettingsError`` that names the source and the key, or
    ``InputError``.
    """
    from_surroundings = from_surroundings and not decided
    dotenv, others = from_dotenv(Path(".env")) if from_surroundings else (Source(".env", {}), {})
    merged = {**others, **environ}
    config_path = Path(merged.get("CONFIG_FILE") or lab_root() / "agent" / "config.json")
    config = read_config_file(config_path, required=bool(merged.get("CONFIG_FILE")))
    # in another folder the installed lab's own file is read, but its locations are the lab's
    files = config.files if merged.get("CONFIG_FILE") or lab_root() == Path() else ConfigFile().files
    state = state_file(merged, files.state)
    movies = config.beside(config_path, "movies")
    if movies and not merged.get("MOVIES_FILE"):
        merged["MOVIES_FILE"] = str(movies)
    sources = [
        Source(COMMAND_LINE, command_line or {}),
        Source("launcher", decided or {}),
        from_environment(environ) if from_surroundings else Source("environment", {}),
        dotenv,
        *config.sources(config_path),
    ]
    topology = _topology(merged, config, state.parent)
    wiring = wiring or _wiring(topology)
    defaults = _default_model(sources, merged)
    if not wiring.is_lab:
        defaults |= NO_CHANCES
    settings = merge_sources([*sources, Source("default", defaults)], wiring.links)
    if settings.model in ("record", "replay") and not any("cassettes" in each.values for each in sources):
        settings = settings.model_copy(update={"cassettes": str(cassettes_folder())})
    fallback = parse_recovery(settings.recovery).fallback
    is_direct = settings.fallback == "direct" or (fallback is not None and fallback.tool == "direct")
    if is_direct and merged.get("PROXY_HOST") and not merged.get("SERVICES_HOST"):
        name = "FALLBACK=direct" if settings.fallback == "direct" else "RECOVERY=fallback(tool=direct)"
        raise SettingsError(
            f"{name}: this agent reaches the tools only through the proxies;"
            " in Compose a direct way needs `docker compose -f docker-compose.yaml -f compose.direct.yaml up`"
        )
    if wiring.is_lab:
        _check_price(settings)
    _check_kills(settings, wiring)
    return Configuration(
        settings=settings,
        topology=topology,
        environ=merged,
        prompts=Path(
            merged.get("PROMPTS_FILE")
            or wiring.prompts
            or config.beside(config_path, "prompts")
            or sample_prompts()
        ),
        logs=logs_folder(merged, files.logs),
        state=state,
        effects=effects_file(merged, files.effects),
        ports=config.listening_ports(config_path),
        remarks=(
            *config.remarks,
            *(dotenv_remarks(Path(".env")) if from_surroundings else ()),
        ),
        wiring=wiring,
        faults_name=_faults_name(sources),
    )


def _faults_name(sources: Sequence[Source]) -> str:
    named = next((each.values["faults"] for each in sources if each.values.get("faults") is not None), "")
    return named.strip() if isinstance(named, str) and "{" not in named and "\n" not in named else ""


def _check_kills(settings: Settings, wiring: Wiring) -> None:
    """Refuse faults that kill a subject which cannot be resumed. Raises ``SettingsError``."""
    why = why_not_killed(wiring.subject)
    if not settings.faults or not why:
        return
    killing = next((entry.id for entry in read_canonical(settings.faults).faults if entry.fault.kills), "")
    if killing:
        raise SettingsError(
            f"FAULTS: {killing} kills the subject, and {why}: use `wirefault run` with a wiring whose"
            " `subject:` has `command` or `service`, or `http` with `kill` and `resume`",
            setting="faults",
        )


def _check_price(settings: Settings) -> None:
    """Require a price for the scripted model if there is a budget of cost, which would otherwise never run
    out.

    Other servers may report another model name than the one requested. Raises ``SettingsError``.
    """
    budgets = load_budgets(settings.budgets)
    unpriced = settings.model == "scripted" and settings.model_name not in load_prices(settings.prices)
    if budgets is not None and budgets.counts_cost and unpriced:
        raise SettingsError(
            f"BUDGETS: a budget of cost needs the model's price; add {settings.model_name} to PRICES",
            setting="budgets",
        )


def _wiring(topology: Topology) -> Wiring:
    """Return the topology's wiring with its links, which may have been added one by one while the lab was
    up.
    """
    return replace(dumped_wiring(topology.wiring), links=topology.links)


def _default_model(sources: Sequence[Source], environ: Mapping[str, str]) -> dict[str, str]:
    """Return ``compatible`` if an address is set, ``groq`` if a key is set, else ``scripted``."""
    if any(source.values.get("model_base_url") for source in sources):
        return {"model": "compatible"}
    return {"model": "groq" if environ.get("GROQ_API_KEY") else "scripted"}


def _topology(environ: Mapping[str, str], config: ConfigFile, state: Path) -> Topology:
    running = running_lab(state)
    if running and not environ.get(TOPOLOGY_VARIABLE) and not environ.get("PROXY_HOST"):
        environ = {**environ, TOPOLOGY_VARIABLE: running["topology"]}
    try:
        topology = topology_from(environ)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        file = environ.get(TOPOLOGY_VARIABLE)
        raise SettingsError(f"{TOPOLOGY_VARIABLE}={file}: no lab's topology: {error}") from None
    proxies, services = dict(topology.proxies), dict(topology.services)
    usual = default_topology("")
    if config.proxy.host:
        proxies = {name: Address(config.proxy.host, address.port) for name, address in proxies.items()}
    for name, address in config.dialled("proxy").items():
        if name in proxies and address != usual.proxies[name]:
            proxies[name] = address
    for name, address in config.dialled("services").items():
        if name in services and address != usual.services[name]:
            services[name] = address
    return replace(topology, proxies=proxies, services=services)


def running_lab(state: Path) -> dict[str, Any] | None:
    """Return the record of that folder's lab from ``wirefault lab up``, if it is alive: pid, topology,
    lab_id.
    """
    return read_lab_record(state) if is_lab_up(state) else None


_KEY_ENDING = "_API_KEY"


def without_keys(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without any ``*_API_KEY``, for a process that needs none."""
    return {name: value for name, value in environ.items() if not name.endswith(_KEY_ENDING)}
