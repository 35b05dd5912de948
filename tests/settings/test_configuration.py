"""Configuration merged from command line, environment, ``.env`` and ``config.json``."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support import ROOT
from wirefault.core.files import private_file
from wirefault.core.lab_folder import (
    MARKER,
    hold_lab_lock,
    write_lab_record,
)
from wirefault.core.processes import TOPOLOGY_VARIABLE
from wirefault.settings.configuration import (
    load_configuration,
    running_lab,
)
from wirefault.settings.settings import NAMES, Settings, SettingsError
from wirefault.settings.sources import _INTERVALS, read_config_file
from wirefault.wiring.links import lab_links
from wirefault.wiring.subject_spec import CommandSpec, HttpSpec, PythonSpec
from wirefault.wiring.topology import default_ports, default_topology
from wirefault.wiring.wiring import NO_WIRING, with_links


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "agent").mkdir()
    (tmp_path / MARKER).touch()  # as `wirefault lab init` creates it
    return tmp_path


def config(data, path="agent/config.json"):
    Path(path).write_bytes(data if isinstance(data, bytes) else json.dumps(data).encode())


def dotenv(text):
    Path(".env").write_text(text, encoding="utf-8")


def test_direct_fallback_needs_address():
    apart = {"FALLBACK": "direct", "PROXY_HOST": "proxies"}
    with pytest.raises(SettingsError, match=r"compose\.direct\.yaml"):
        load_configuration(apart)
    assert load_configuration({**apart, "SERVICES_HOST": "{service}"}).settings.fallback == "direct"
    assert load_configuration({"FALLBACK": "direct"}).settings.fallback == "direct"


LADDER = ["command line", "environment", ".env", "config.json", "default"]


@pytest.mark.parametrize("top", range(5))
def test_source_order(top):
    limits = {name: 10 - index for index, name in enumerate(LADDER) if index >= top}
    dotenv(f"TOOL_LIMIT={limits.get('.env', '')}\n")
    config({"settings": {"tool_limit": limits["config.json"]} if "config.json" in limits else {}})
    configuration = load_configuration(
        {"TOOL_LIMIT": str(limits["environment"])} if "environment" in limits else {},
        {"tool_limit": str(limits["command line"])} if "command line" in limits else {},
    )
    assert configuration.settings.tool_limit == (10 - top if top < 4 else 1)


@pytest.mark.parametrize("name", ["command line", "environment", ".env", "agent/config.json: settings"])
def test_bad_value_names_source_and_setting(name):
    dotenv("TOXIC_PROB=nan\n" if name == ".env" else "")
    config({"settings": {"toxic_prob": 7}} if "config" in name else {})
    with pytest.raises(SettingsError, match=f"^{name}: TOXIC_PROB="):
        load_configuration(
            {"TOXIC_PROB": "2"} if name == "environment" else {},
            {"toxic_prob": "many"} if name == "command line" else {},
        )


def test_defaults_without_files():
    configuration = load_configuration({})
    assert (configuration.settings.model, configuration.settings.toxic_prob) == ("scripted", 0.1)
    assert (str(configuration.prompts), str(configuration.logs)) == ("agent/prompts.json", "logs")
    assert (str(configuration.state), str(configuration.effects)) == ("state/state.db", "state/effects.db")


@pytest.mark.parametrize(
    ("environ", "text", "model"),
    [
        ({"GROQ_API_KEY": "k"}, "", "groq"),
        ({}, "GROQ_API_KEY=k", "groq"),
        ({"GROQ_API_KEY": "k", "MODEL": "scripted"}, "", "scripted"),
        ({"GROQ_API_KEY": "k", "MODEL_BASE_URL": "http://h/v1"}, "", "compatible"),
        ({}, "GROQ_API_KEY=k\nMODEL_BASE_URL=http://h/v1", "compatible"),
    ],
)
def test_key_and_address_select_model(environ, text, model):
    dotenv(text)
    assert load_configuration(environ).settings.model == model


def test_settings_have_no_key():
    dotenv("GROQ_API_KEY=gsk-secret\nMODEL_API_KEY=mak-secret\n")
    configuration = load_configuration({})
    assert "secret" not in configuration.settings.dump()
    assert configuration.environ["GROQ_API_KEY"] == "gsk-secret"


def test_environment_precedes_dotenv_for_places():
    dotenv("LOGS_DIR=from-dotenv\nSTATE_DB=s/from-dotenv.db\n")
    configuration = load_configuration({"LOGS_DIR": "from-environment"})
    assert (str(configuration.logs), str(configuration.state)) == ("from-environment", "s/from-dotenv.db")


def test_config_sets_places():
    config({"files": {"prompts": "p", "logs": "l", "state": "s/s.db", "effects": "e.db", "movies": "m.json"}})
    configuration = load_configuration({})
    assert [
        str(p)
        for p in (configuration.prompts, configuration.logs, configuration.state, configuration.effects)
    ] == [
        "agent/p",
        "l",
        "s/s.db",
        "e.db",
    ]
    assert configuration.environ["MOVIES_FILE"] == "agent/m.json"
    assert load_configuration({"MOVIES_FILE": "mine"}).environ["MOVIES_FILE"] == "mine"


def test_config_paths_are_relative_to_it(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    config({"files": {"prompts": "mine.json", "movies": "../movies.json"}}, elsewhere / "config.json")
    configuration = load_configuration({"CONFIG_FILE": str(elsewhere / "config.json")})
    assert configuration.prompts == elsewhere / "mine.json"
    assert configuration.environ["MOVIES_FILE"] == str(tmp_path / "movies.json")
    absolute = str(tmp_path / "there.json")
    config({"files": {"prompts": absolute}})
    assert str(load_configuration({}).prompts) == absolute


def test_file_at_old_path_is_reported():
    Path("agent/mine.json").write_text("[]", encoding="utf-8")
    config({"files": {"prompts": "agent/mine.json"}})
    with pytest.raises(
        SettingsError, match=r"files\.prompts: cannot find agent/agent/mine\.json.*it is 'mine\.json'"
    ):
        load_configuration({})


def test_old_name_works_with_warning():
    config({"intervals": {"proxy_timeout": 2.5}})
    configuration = load_configuration({})
    assert configuration.settings.tool_timeout == 2.5
    [remark] = configuration.remarks
    assert "intervals.proxy_timeout is now called tool_timeout" in remark


@pytest.mark.parametrize("name", _INTERVALS)
def test_intervals_are_settings_in_seconds(name):
    assert name in NAMES
    config({"intervals": {name: 0.75}})
    assert getattr(load_configuration({}).settings, name) == 0.75


def test_config_sets_dialled_addresses():
    config({"proxy": {"host": "toxiproxy"}, "services": {"search": "search_tool:81"}})
    topology = load_configuration({}).topology
    assert str(topology.proxies["movie"]) == "toxiproxy:6002"
    assert str(topology.services["search"]) == "search_tool:81"
    assert str(topology.services["movie"]) == "127.0.0.1:5002"


def test_default_address_keeps_lab_ports():
    config({"services": {"search": "127.0.0.1:5000", "movie": "movies:81"}})
    services = load_configuration({"SERVICES_HOST": "{service}", "PROXY_HOST": "proxies"}).topology.services
    assert (str(services["search"]), str(services["movie"])) == ("search_tool:5000", "movies:81")


def test_config_sets_listen_addresses():
    config({"ports": {"search": 5100, "manager": 8001}})
    topology = default_topology("lab", ports=load_configuration({}).ports)
    at = (topology.services["search"], topology.proxies["search"], topology.gateways["search"])
    assert [address.port for address in at] == [5100, 6100, 7100]
    assert (topology.manager.port, topology.services["movie"].port) == (8001, 5002)


BAD = [
    ({"ports": {"serch": 5100}}, "ports.serch: unknown part; did you mean 'search'"),
    ({"ports": {"search": 5001}}, "ports: the service of weather and the service of search .* use port 5001"),
    ({"ports": {"search": 4001}}, "ports: the service of weather and the proxy of search both use port"),
    ({"ports": {"search": 64_000}}, "ports.search: .*less than or equal to 63535"),
    ({"ports": {"search": "5100"}}, "ports.search: .*integer"),
    ({"ports": {"search": True}}, "ports.search: .*integer"),
    ({"intervals": {"proxy_timeout": 1, "tool_timeout": 1}}, "proxy_timeout is the old name of tool_timeout"),
    (b"", r":1: not JSON"),
    (b'{\n"settings": {}\n"faults": 1}', r":3: not JSON"),
    (b"\xff", "not UTF-8"),
    (b"[]", "the file: must be an object"),
    (b"[" * 100_000, ":1: nested too deeply"),
    (b'{"settings": {"seed": ' + b"9" * 5000 + b"}}", "limit"),
    (b'{"settings": {"seed": 1, "seed": 2}}', "duplicate key seed"),
    ({"setings": {}}, "unknown key setings; did you mean 'settings'"),
    ({"files": 5}, "files: must be an object$"),
    ({"settings": []}, "settings: "),
    ({"files": {"promts": "x"}}, "unknown key files.promts; did you mean 'prompts'"),
    ({"proxy": {"hots": "x"}}, "proxy.hots: unknown link; did you mean 'host'"),
    ({"proxy": {"host": 5}}, "proxy.host: .*string$"),
    ({"services": {"serch": "h:1"}}, "services.serch: unknown link; did you mean 'search'"),
    ({"services": {"search": "nowhere"}}, "services.search: 'nowhere' is not host:port"),
    ({"services": {"search": 5}}, "services.search: .*string$"),
    ({"settings": {"toxic_prb": 1}}, ": settings.toxic_prb: unknown setting; did you mean 'toxic_prob'"),
    ({"settings": {"TOXIC_PROB": 1}}, ": settings.TOXIC_PROB: unknown setting; did you mean 'toxic_prob'"),
    (b'{"settings": {"toxic_prob": NaN}}', ": settings: TOXIC_PROB=nan: "),
    ({"settings": {"toxic_prob": True}}, "TOXIC_PROB=True: must not be true or false"),
    (
        {"intervals": {"tool_timout": 1}},
        "intervals.tool_timout: unknown interval; did you mean 'tool_timeout'",
    ),
    ({"intervals": {"toxic_prob": 1}}, "intervals.toxic_prob: unknown interval"),
    ({"intervals": {"tool_timeout": 0}}, ": intervals: TOOL_TIMEOUT=0: "),
]


@pytest.mark.parametrize(("data", "message"), BAD, ids=[message[:30] for _, message in BAD])
def test_bad_config_names_file_and_place(data, message):
    config(data, "mine.json")
    with pytest.raises(SettingsError, match=message) as caught:
        load_configuration({"CONFIG_FILE": "mine.json"})
    assert str(caught.value).startswith("mine.json")


def test_all_wrong_keys_are_named_at_once():
    config({"interval": {}, "settings": {"sed": 1}, "services": {"serch": "h:1", "movie": "h"}, "files": 5})
    with pytest.raises(SettingsError) as caught:
        load_configuration({})
    message = str(caught.value)
    for name in (
        "unknown key interval",
        "settings.sed",
        "services.serch",
        "'h' is not host:port",
        "files: must",
    ):
        assert name in message
    assert all(line.startswith("agent/config.json: ") for line in message.splitlines())


def test_names_at_most_some_of_many_wrong_keys():
    config({"settings": {f"key{number}": 1 for number in range(1000)}})
    with pytest.raises(SettingsError) as caught:
        load_configuration({})
    assert len(str(caught.value).splitlines()) == 20


def test_similar_lab_keys_are_accepted_or_named():
    config(
        {
            "proxy": {"search_tool": "proxies.example:16000", "movie": "127.0.0.1:6002"},
            "services": {"proxy_mgr": "proxy_mgr:8000", "search_tool": "search_tool:5000"},
            "intervals": {"proxy_mgr_wait": 0.25, "proxy_check_interval": 1},
            "proxy_check_interval": 1,
        }
    )
    configuration = load_configuration({})
    assert configuration.settings.proxy_wait == 0.25
    assert str(configuration.topology.proxies["search"]) == "proxies.example:16000"
    assert configuration.topology.proxies["movie"].port == 6002
    assert str(configuration.topology.services["search"]) == "search_tool:5000"
    renamed, *unneeded = configuration.remarks
    assert "intervals.proxy_mgr_wait is now called proxy_wait" in renamed
    assert [remark.split(" is ignored: ")[0].split(": ")[1] for remark in unneeded] == [
        "intervals.proxy_check_interval",
        "proxy_check_interval",
        "services.proxy_mgr",
    ]


def test_named_config_must_exist():
    with pytest.raises(SettingsError, match=r"mine\.json: no such file"):
        load_configuration({"CONFIG_FILE": "mine.json"})
    with pytest.raises(SettingsError, match="agent: cannot be read: Is a directory"):
        load_configuration({"CONFIG_FILE": "agent"})


def test_dotenv_file_may_name_config():
    config({"settings": {"tool_limit": 5}}, "mine.json")
    dotenv("CONFIG_FILE=mine.json")
    assert load_configuration({}).settings.tool_limit == 5


def test_shipped_config_has_each_key_with_default():
    path = ROOT / "agent" / "config.json"
    shipped = read_config_file(path, required=True)
    defaults = Settings(seed=1)
    assert shipped.intervals == {name: getattr(defaults, name) for name in _INTERVALS}
    assert shipped.ports == default_ports(lab_links())
    assert shipped.services == {
        name: str(default_topology("").services[name]) for name in lab_links().tool_names
    }
    assert all(shipped.files.model_dump().values())
    assert shipped.beside(path, "prompts") == ROOT / "agent" / "prompts.json"
    assert shipped.beside(path, "movies") == ROOT / "flask_tools" / "movies.json"


def test_shipped_config_changes_nothing():
    config({})
    without = load_configuration({"SEED": "1", "LAB_ID": "lab", "MOVIES_FILE": "m"})
    config((ROOT / "agent" / "config.json").read_bytes())
    assert load_configuration({"SEED": "1", "LAB_ID": "lab", "MOVIES_FILE": "m"}) == replace(
        without, ports=default_ports(lab_links())
    )


# the running lab


def lab_up(pid, state="state"):
    Path(state).mkdir(exist_ok=True)
    default_topology("lab-up").dump(Path(state) / "topology.json")
    lab = {"pid": pid, "lab_id": "lab-up", "topology": f"{state}/topology.json"}
    write_lab_record(Path(state), lab)


def test_running_lab_is_found():
    lab_up(os.getpid())
    with hold_lab_lock(Path("state")):
        lab = running_lab(Path("state"))
        assert lab and lab["lab_id"] == "lab-up"
        assert load_configuration({}).topology.lab_id == "lab-up"


def test_running_lab_is_located_by_configured_database():
    lab_up(os.getpid(), "elsewhere")
    config({"files": {"state": "elsewhere/state.db"}})
    with hold_lab_lock(Path("elsewhere")):
        assert load_configuration({}).topology.lab_id == "lab-up"


def test_named_proxy_or_topology_precedes_running_lab():
    lab_up(os.getpid())
    default_topology("mine").dump(Path("mine.json"))
    with hold_lab_lock(Path("state")):
        named = load_configuration({"PROXY_HOST": "toxiproxy", "LAB_ID": "compose"})
        assert named.topology.lab_id == "compose"
        assert load_configuration({TOPOLOGY_VARIABLE: "mine.json"}).topology.lab_id == "mine"


def test_lab_of_dead_launcher_is_not_found():
    lab_up(os.getpid())  # the process id may have been reused
    assert running_lab(Path("state")) is None


@pytest.mark.parametrize("text", ["", "null", "[]", "{}", '"x"', "\x00"])
def test_broken_lab_file_is_ignored(text):
    write_lab_record(Path(), {})
    private_file(Path(), ".json").write_text(text, encoding="utf-8")
    with hold_lab_lock(Path()):
        assert not running_lab(Path())


@pytest.mark.parametrize("text", [None, "", "[]", "{}", '{"services": 5}'])
def test_broken_topology_is_refused_with_its_file(text):
    if text is not None:
        Path("topology.json").write_text(text, encoding="utf-8")
    with pytest.raises(SettingsError, match=f"{TOPOLOGY_VARIABLE}=topology.json: no lab's topology"):
        load_configuration({TOPOLOGY_VARIABLE: "topology.json"})


def test_user_wiring_has_zero_default_fault_probability() -> None:
    own = with_links(NO_WIRING, ["shop=http://127.0.0.1:9"])
    settings = load_configuration({}, wiring=own).settings
    assert (settings.toxic_prob, settings.error_prob) == (0, 0)
    assert load_configuration({}, {"toxic_prob": "0.2"}, own).settings.toxic_prob == 0.2
    lab = load_configuration({}).settings
    assert lab.toxic_prob > 0 and lab.error_prob > 0


@pytest.mark.parametrize(
    ("subject", "why"),
    [
        (None, "this subject runs in the lab's own process"),  # in place
        (CommandSpec(command=["agent"], show="as-is"), "`exec` starts its command once"),
        (HttpSpec(http="http://127.0.0.1:9/"), "an `http` subject is started elsewhere"),
        (PythonSpec(python="agent:answer"), "a `python` subject is a call in a process of the lab"),
    ],
)
def test_kill_of_subject_without_own_process_is_refused(subject, why) -> None:
    own = replace(with_links(NO_WIRING, ["shop=http://127.0.0.1:9"]), subject=subject)
    faults = json.dumps({"faults": [{"id": "crash", "fault": "kill_subject", "links": "shop"}]})
    with pytest.raises(SettingsError, match=f"FAULTS: crash kills the subject, and {why}.*`service`"):
        load_configuration({}, {"faults": faults}, own)
    killable = replace(own, subject=CommandSpec(command=["agent"]))
    assert "crash" in load_configuration({}, {"faults": faults}, killable).settings.faults
    commanded = HttpSpec(http="http://127.0.0.1:9/", kill=["docker", "kill", "x"], resume=["docker", "start"])
    assert load_configuration({}, {"faults": faults}, replace(own, subject=commanded))
