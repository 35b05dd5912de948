"""Wiring files: their content, and the one-line error of each mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from wirefault.gateway.intercept.pipes import PipeServer, pipe_link
from wirefault.wiring.links import FUNCTIONS_HOST, Link, found_link, lab_links
from wirefault.wiring.subject_spec import CommandSpec
from wirefault.wiring.topology import Topology, default_topology
from wirefault.wiring.wiring import (
    NO_WIRING,
    dumped_wiring,
    lab_wiring,
    load_wiring,
    recorded_wiring,
    with_links,
    with_subject,
)

WHOLE = """\
links:
  model: {upstream: "https://api.openai.com/v1/", dialect: openai_chat, env: [OPENAI_BASE_URL, BASE]}
  shop:
    upstream: http://127.0.0.1:9000
    env: SHOP_URL
    writes: [POST /orders, "DELETE /orders/*"]
    key: order_id
  far: {upstream: https://shop.example/api}
allow: [shop.example]
subject:
  command: [python, agent.py, "{prompt}"]
prompts: prompts.json
"""


MCP = """\
links:
  files: {upstream: "http://127.0.0.1:9000/mcp", dialect: mcp, writes: [write_file, "create_*"]%s}
subject:
  command: [python, agent.py, "{prompt}"]
prompts: prompts.json
"""


@pytest.fixture
def write(tmp_path: Path):
    (tmp_path / "prompts.json").write_text('[{"prompt": "a"}]')

    def written(text: str) -> Path:
        path = tmp_path / "wirefault.yaml"
        path.write_text(text)
        return path

    return written


def test_wiring_lists_its_links(write):
    wiring = load_wiring(write(WHOLE))
    model, shop, far = wiring.links
    assert (model.upstream, model.base_path, model.env) == (
        "https://api.openai.com/v1",
        "/v1",
        ("OPENAI_BASE_URL", "BASE"),
    )
    assert model.is_model and not shop.is_model and not model.takes_model
    assert (far.base_path, far.env) == ("/api", ("FAR_URL",))
    assert wiring.links.groups == {
        "tools": ("shop", "far"),
        "writes": ("shop",),
        "model": ("model",),
        "all": ("model", "shop", "far"),
    }
    assert wiring.prompts is not None and wiring.prompts.name == "prompts.json"


@pytest.mark.parametrize(
    ("method", "target", "writes"),
    [
        ("POST", "/orders", True),
        ("post", "/orders?x=1", True),
        ("DELETE", "/orders/7/items", True),
        ("GET", "/orders", False),
        ("DELETE", "/orders", False),
        ("POST", "/orders/7", False),
    ],
)
def test_write_calls(method, target, writes):
    assert Link("shop", writes=("POST /orders", "DELETE /orders/*")).is_write(method, target) is writes


def test_processes_receive_whole_wiring(write, tmp_path):
    wiring = load_wiring(write(WHOLE))
    topology = default_topology("lab", links=wiring.links)
    topology.dump(tmp_path / "topology.json")
    assert Topology.load(tmp_path / "topology.json").links == wiring.links
    again = dumped_wiring(wiring.dump())
    assert (again.links, again.subject, again.arguments) == (wiring.links, wiring.subject, wiring.arguments)


def test_links_and_subject_may_come_from_options(write):
    wiring = with_links(load_wiring(write(WHOLE)), ["shop=http://127.0.0.1:9001", "far=scripted,anthropic"])
    assert wiring.links["shop"].upstream == "http://127.0.0.1:9001"
    assert wiring.links["shop"].writes and wiring.links["far"].dialect == "anthropic"
    alone = with_subject(with_links(NO_WIRING, ["shop=http://127.0.0.1:9001"]), ["sh", "-c", "x"])
    assert alone.arguments == ("--link=shop=http://127.0.0.1:9001", "--", "sh", "-c", "x")
    assert dumped_wiring(alone.dump()).links == alone.links


def test_links_without_port_get_free_ones():
    wiring = with_links(lab_wiring(), ["shop=http://127.0.0.1:9001"])
    topology = default_topology("lab", links=wiring.links)
    assert topology.proxies["shop"].port == 6008 and "shop" not in topology.services
    assert topology.proxies["search"] == default_topology("lab").proxies["search"]


def test_lanes_share_only_services():
    first, second = default_topology("lab"), default_topology("lab", lane=1)
    assert first.services == second.services
    assert not set(first.proxies.values()) & set(second.proxies.values())
    assert not {first.manager, first.control} & {second.manager, second.control}
    assert second.proxy_name("search") == "search_proxy_1"


def test_lab_wiring_has_lab_links():
    assert lab_wiring().links == lab_links() and len(lab_links().tools) == 7
    assert lab_wiring().is_lab and not lab_wiring().dump()


WRONG = [
    ("links:", "lnks:", r":1: lnks: no such key; did you mean 'links'"),
    ("  shop:\n", "  shop: 3\n  shop2:\n", r":3: links.shop: must be a mapping, not 3"),
    ("  shop:\n", "  Shop:\n", r":3: links.Shop: a link's name must be a small letter"),
    ("  shop:\n", "  tools:\n", r":3: links.tools: the name tools is reserved"),
    ("  far:", "  shop:", r":8: duplicate key shop"),
    ("    upstream:", "    upstrem:", r":4: links.shop.upstrem: no such key; did you mean 'upstream'"),
    ("    upstream: http://127.0.0.1:9000\n", "", r":3: links.shop: missing upstream"),
    ("http://127.0.0.1:9000", "127.0.0.1:9000", r":4: links.shop.upstream: .* is not an address"),
    ("http://127.0.0.1:9000", "http://127.0.0.1:99999", r":4: links.shop.upstream: .* is not an address"),
    ("http://127.0.0.1:9000", "ftp://127.0.0.1", r":4: links.shop.upstream: .* is not an address"),
    ("http://127.0.0.1:9000", "http://127.0.0.1/?a=b", r":4: links.shop.upstream: .* is not an address"),
    ("http://127.0.0.1:9000", "http://me:pw@127.0.0.1", r":4: links.shop.upstream: must not contain a user"),
    ("http://127.0.0.1:9000", "http://other.example", r":4: .*other.example is not this machine.*allow:"),
    ("http://127.0.0.1:9000", "7", r":4: links.shop.upstream: Input should be a valid string, not 7"),
    ("http://127.0.0.1:9000", "lab", r":4: .*the lab has no service for 'shop'"),
    ("http://127.0.0.1:9000", "scripted", r":4: .*the scripted model needs a model link"),
    (
        "openai_chat",
        "openai_chta",
        r":2: links.model.dialect: unknown dialect .*; did you mean 'openai_chat'",
    ),
    ("env: SHOP_URL", "env: SHOP-URL", r":5: links.shop.env: 'SHOP-URL' is not a valid variable name"),
    ("env: SHOP_URL", "env: BASE", r":5: links.shop.env: the link model uses BASE already"),
    ("[POST /orders,", "[POST,", r":6: links.shop.writes\[1\]: 'POST' is not a call"),
    ('"DELETE /orders/*"', "delete", r":6: links.shop.writes\[2\]: 'delete' is not a call"),
    ("[POST /orders, ", "POST /orders, [", r":6: .*"),
    ('writes: [POST /orders, "DELETE /orders/*"]', "writes: POST /orders", r":6: links.shop.writes: .* list"),
    ("key: order_id", "key: [a]", r":7: links.shop.key: Input should be a valid string"),
    ("key: order_id", "port: 70000", r":7: links.shop.port: .*65535"),
    ("key: order_id", "planted: maybe", r":7: links.shop.planted: .*bool"),
    ("allow: [shop.example]", "allow: shop.example", r":9: allow: Input should be a valid list"),
    ("allow: [shop.example]\n", "", r":8: .*shop.example is not this machine"),
    ("  command:", "  comand:", r"subject.*did you mean 'command'"),
    ("  command:", "  http: http://127.0.0.1/\n  command:", r"subject"),
    ('[python, agent.py, "{prompt}"]', "[]", r":11: subject.command: .*at least 1"),
    ("prompts: prompts.json", "prompts: other.json", r":12: prompts: cannot find the file .*other.json"),
    ("prompts: prompts.json", "promts: prompts.json", r":12: promts: no such key; did you mean 'prompts'"),
    (
        "prompts: p",
        "world: {reset: POST /reset}\nprompts: p",
        r":12: world.reset: must be a mapping, not 'POST",
    ),
    (
        "prompts: p",
        "world: {reset: [{http: x}]}\nprompts: p",
        r":12: world.reset\[1\].http: 'x' is not a call",
    ),
    (WHOLE, "- a list", r": must be a mapping with `links`"),
    (WHOLE, "links: {}", r":1: links: missing links"),
    (WHOLE, "links: [", r": not YAML"),
]


@pytest.mark.parametrize(("before", "after", "message"), WRONG)
def test_invalid_wiring_is_one_line_with_place(write, before, after, message):
    assert before in WHOLE
    with pytest.raises(match=message) as caught:
        load_wiring(write(WHOLE.replace(before, after, 1)))
    assert "wirefault.yaml" in str(caught.value) and "\n" not in str(caught.value)


def test_unreadable_file_is_reported(tmp_path):
    with pytest.raises(match=r"none\.yaml: cannot be read: No such file"):
        load_wiring(tmp_path / "none.yaml")
    (tmp_path / "bytes.yaml").write_bytes(b"\xff")
    with pytest.raises(match="not UTF-8 text"):
        load_wiring(tmp_path / "bytes.yaml")


@pytest.mark.parametrize("option", ["shop", "=http://x", "shop="])
def test_link_option_is_name_and_address(option):
    with pytest.raises(match="--link"):
        with_links(NO_WIRING, [option])


STDIO = "links:\n  files: {mcp: {command: [npx, -y, server, ./data]}}\nsubject: {command: [a, '{prompt}']}\n"


def test_mcp_server_over_stdio_is_tool_link(write):
    files = load_wiring(write(STDIO)).links["files"]
    assert (files.upstream, files.dialect, files.env) == ("stdio", "mcp", ("FILES_MCP",))
    assert files.command == ("npx", "-y", "server", "./data") and not files.is_model
    writing = load_wiring(write(STDIO.replace("files: {", "files: {writes: [write_*], "))).links["files"]
    assert writing.is_write("POST", "/", "write_file") and not writing.is_write("POST", "/", "read_file")


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        ("upstream: http://127.0.0.1:1", "must have either an upstream or mcp, not both"),
        ("dialect: gemini", "leave it out"),
        ("mcp: {command: ['']}", "the program, must not be empty"),
    ],
)
def test_stdio_link_has_no_other_key(write, key, problem):
    text = STDIO.replace("mcp: {", f"{key}, mcp: {{") if "mcp" not in key else STDIO.replace("npx, -y", "''")
    with pytest.raises(match=problem):
        load_wiring(write(text))


def test_mcp_writes_are_declared_as_tools(write):
    wiring = load_wiring(write(MCP % ""))
    files = wiring.links["files"]
    assert wiring.links.tool_names == wiring.links.mcp_names == ("files",) and not files.is_model
    assert files.is_write("POST", "/mcp", "create_folder") and not files.is_write("POST", "/mcp", "read_file")


def test_mcp_server_names_its_tools(write):
    with pytest.raises(match="names its tools itself"):
        load_wiring(write(MCP % ", tools: {read: GET /read}"))


COMMAND = CommandSpec(command=["python", "agent.py", "{prompt}"], folder=".", show=True)


def test_recorded_wiring_restores_found_links(tmp_path):
    discovered = [
        found_link("api.openai.com", 443, "https", ()),
        found_link("api.anthropic.com", 443, "https", (), scripted=True),
        found_link("shop.example.com", 8443, "https", ()),
        found_link("127.0.0.1", 9000, "http", ()),
        found_link(FUNCTIONS_HOST, 80, "http", ()),
        pipe_link(PipeServer("notes", "aa"), ()),
    ]
    path = tmp_path / "wiring.yaml"
    path.write_text(recorded_wiring(discovered, {"tap": "proxy"}, COMMAND))
    wiring = load_wiring(path)
    assert wiring.subject == COMMAND
    key = lambda link: (link.name, link.upstream, link.dialect, link.hosts)  # noqa: E731
    assert [key(link) for link in wiring.links] == [key(link) for link in discovered]
    assert wiring.intercept is not None and wiring.intercept.tap == "proxy"
    assert wiring.links.grows and isinstance(wiring.links["port_9000"], Link)
    assert wiring.allow == {"shop.example.com"}
