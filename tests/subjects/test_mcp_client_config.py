"""The configuration of an MCP client, with every server behind the lab."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import pytest

from wirefault.core.errors import InputError
from wirefault.subjects.stdio_shim.client_config import WrappedConfig, read_client_config, wrap_servers

PROGRAM = ["/bin/wirefault", "mcp"]
FILES = {"command": "npx", "args": ["-y", "server", "./data"], "env": {"TOKEN": "x"}, "disabled": False}
WRAPPED = {
    **FILES,
    "command": "/bin/wirefault",
    "args": ["mcp", "--link", "files", "--", "npx", "-y", "server", "./data"],
}


def wrapped(data: Any, lab: str = "", address: str = "") -> WrappedConfig:
    text = data if isinstance(data, str) else json.dumps(data)
    return wrap_servers(read_client_config(text, "mcp.json"), "mcp.json", PROGRAM, lab, lambda _: address)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (
            {"mcpServers": {"files": FILES}, "theme": "dark"},
            {"mcpServers": {"files": WRAPPED}, "theme": "dark"},
        ),
        ({"servers": {"files": FILES}, "inputs": []}, {"servers": {"files": WRAPPED}, "inputs": []}),
        ({"mcp": {"servers": {"files": FILES}}}, {"mcp": {"servers": {"files": WRAPPED}}}),
        ({"context_servers": {"files": FILES}}, {"context_servers": {"files": WRAPPED}}),
    ],
)
def test_client_configuration_keeps_form_and_other_keys(data: Any, expected: Any) -> None:
    config = wrapped(data)
    assert (config.data, config.links) == (expected, {"files": {"mcp": {}}})
    assert (config.wrapped, config.left, config.needs_lab) == (["files"], [], False)


def test_old_zed_form_becomes_new_form() -> None:
    server = {"command": {"path": "npx", "args": ["-y"], "env": {"A": "1"}}}
    [result] = wrapped({"context_servers": {"files": server}}).data["context_servers"].values()
    assert result["args"] == ["mcp", "--link", "files", "--", "npx", "-y"]
    assert result["env"] == {"A": "1"}


def test_vs_code_comments_and_trailing_commas_are_read() -> None:
    text = '{\n// servers\n"servers": {"files": {"command": "a//b", /* two\nlines */ "args": ["x,]",],},},\n}'
    config = wrapped(text)
    assert config.data["servers"]["files"]["args"][-2:] == ["a//b", "x,]"]


def test_lab_is_named_in_every_command() -> None:
    config = wrapped({"mcpServers": {"a": {"command": "x"}}}, lab="lab-1")
    assert config.data["mcpServers"]["a"]["args"] == ["mcp", "--lab", "lab-1", "--link", "a", "--", "x"]


def test_server_over_http_gets_address_of_lab() -> None:
    server = {"type": "http", "url": "https://api.example.com/mcp/?team=1", "headers": {"A": "b"}}
    config = wrapped({"servers": {"web": server}}, address="http://127.0.0.1:6000/mcp")
    assert config.data["servers"]["web"] == {**server, "url": "http://127.0.0.1:6000/mcp/?team=1"}
    assert config.links == {"web": {"upstream": "https://api.example.com/mcp", "dialect": "mcp"}}
    waiting = wrapped({"servers": {"web": server}})
    assert waiting.data["servers"]["web"] == server
    assert waiting.needs_lab and waiting.left[0].startswith("web: its address in a lab is unknown until")


def test_link_names_are_valid_and_unique() -> None:
    names = ["Brave Search", "brave-search", "1st", "tools", "Ünïcode", "x" * 40, "x" * 41]
    config = wrapped({"mcpServers": {name: {"command": "x"} for name in names}})
    assert list(config.links) == [
        "brave_search",
        "brave_search_2",
        "server_1st",
        "server_tools",
        "n_code",
        "x" * 32,
        "x" * 30 + "_2",
    ]


def test_wrapped_server_is_unchanged() -> None:
    once = wrapped({"mcpServers": {"files": FILES}})
    again = wrapped(once.data)
    assert (again.data, again.links) == (once.data, {})
    assert again.left == ["files: already goes through a lab"]


CODEX = """\
model = "gpt-x"
since = 2026-01-02
[mcp_servers."my ctx"]
command = "npx"
args = ["-y", "a\\"b", "\\u007f"]  # as it was
env = { "KEY" = "v" }
[mcp_servers.far]
url = "https://mcp.example.test/mcp"
[[profiles]]
limits = {n = 1.5, on = true}
"""


def test_codex_file_is_written_back_as_toml() -> None:
    config = wrap_servers(read_client_config(CODEX, "config.toml"), "config.toml", PROGRAM, "", lambda _: "")
    result = tomllib.loads(config.text("config.toml"))
    ctx = result["mcp_servers"]["my ctx"]
    assert [ctx["command"], *ctx["args"]] == [
        *PROGRAM, "--link", "my_ctx", "--", "npx", "-y", 'a"b', "\x7f",
    ]  # fmt: skip
    ctx |= {"command": "npx", "args": ["-y", 'a"b', "\x7f"]}
    assert result == tomllib.loads(CODEX)
    assert [line.partition(":")[0] for line in config.left] == ["far"]


def test_opencode_command_stays_one_list() -> None:
    far = {"type": "remote", "url": "https://mcp.example.test/mcp", "headers": {"X-Key": "{env:FAR}"}}
    local = {"type": "local", "command": ["npx", "ctx", "{env:KEY}"], "environment": {"A": "b"}}
    config = wrapped({"provider": {}, "mcp": {"ctx": local, "far": far}}, address="http://127.0.0.1:1/mcp")
    command = [*PROGRAM, "--link", "ctx", "--", "npx", "ctx", "{env:KEY}"]
    assert config.data["mcp"]["ctx"] == local | {"command": command}
    assert config.data["mcp"]["far"] == far | {"url": "http://127.0.0.1:1/mcp"}
    assert list(config.links) == config.wrapped == ["ctx", "far"]


ODD: list[tuple[Any, str]] = [
    ({"link": "https://mcp.example.test/mcp"}, "mcpServers.odd: missing command or url"),
    (
        {"type": "http", "url": "${API_BASE_URL:-https://api.example.test}/mcp"},
        "mcpServers.odd.url: has the variable ${API_BASE_URL:-https://api.example.test}, which only the"
        " client knows: put in its value",
    ),
    ({"url": "{env:BASE}/mcp"}, "mcpServers.odd.url: has the variable {env:BASE}, which only the client"
        " knows: put in its value"),
    ("npx", 'mcpServers.odd: must be an object, not "npx"'),
    ({"command": []}, "mcpServers.odd.command: must be the name of a program"),
]  # fmt: skip


@pytest.mark.parametrize(("server", "reason"), ODD)
def test_odd_server_is_left_and_the_others_wrapped(server: Any, reason: str) -> None:
    config = wrapped({"mcpServers": {"odd": server, "files": FILES}})
    assert config.data == {"mcpServers": {"odd": server, "files": WRAPPED}}
    assert (config.wrapped, list(config.links), config.left) == (["files"], ["files"], [reason])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("", "mcp.json:1: not JSON"),
        ('{\n// x\n"servers": }', "mcp.json:3: not JSON"),
        ("[]", 'mcp.json: must be an object with "mcpServers"'),
        ('{"a": 1, "a": 2}', "mcp.json: duplicate key a"),
        ('{"mcpServers": {"a": {"command": "x", "timeout": NaN}}}', "mcp.json: NaN is not a number in JSON"),
        ({"mcpServer": {}}, "found mcpServer; did you mean 'mcpServers'?"),
        ({}, 'missing "mcpServers"'),
        ({"mcpServers": []}, "mcpServers must be an object of servers by name"),
        ({"mcpServers": {}}, "mcpServers has no servers"),
        ({"mcpServers": {"a": "npx"}}, "mcp.json: mcpServers.a: must be an object"),
        (
            {"mcpServers": {"a": {"comand": "x"}}},
            "mcpServers.a: missing command or url; did you mean 'command'?",
        ),
        ({"mcpServers": {"a": {"command": 5}}}, "mcpServers.a.command: must be the name of a program"),
        ({"mcpServers": {"a": {"command": "x", "args": "y"}}}, "mcpServers.a.args: must be a list of texts"),
        ({"mcpServers": {"a": {"url": "example.com"}}}, "mcpServers.a.url: must be an address such as"),
        *(
            ('{"mcpServers": {"a": {"command": "x", "env": ' + nested + "}}}", "nested too deeply")
            for nested in ("[" * 900 + "]" * 900, '{"a": ' * 900 + "1" + "}" * 900, "[" * 10**5 + "]" * 10**5)
        ),
    ],
    ids=lambda value: str(value)[:60],
)
def test_error_names_file_server_and_key(data: Any, message: str) -> None:
    with pytest.raises(InputError) as caught:
        wrapped(data)
    assert message in str(caught.value)
