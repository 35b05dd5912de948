"""Every command of README and docs runs as printed, in order, and shows what its text promises."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from shutil import ignore_patterns

import pytest

from tests.compose.rig import copy_clone
from tests.e2e import command_server
from tests.e2e.reader import Played, Shell, change, own_network, page_blocks, shell, typed
from tests.support import ROOT, required

PAGES = [
    *sorted(path.name for path in ROOT.glob("*.md")),
    *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md")),
]
PATH = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
BLOCKS = {page: page_blocks(page) for page in PAGES}

# Each group has its own clone and shell; its pages follow each other.
GROUPS = {
    "lab": ("README.md", "docs/files.md"),
    "first steps": ("docs/first-run.md", "docs/your-agent.md", "docs/first-experiment.md"),
    "experiments": (
        "docs/experiments.md",
        "docs/reading-a-run.md",
        "docs/page.md",
        "docs/pipelines.md",
        "docs/coming-from.md",
    ),
    "wiring": ("docs/subjects.md",),
    "mcp": ("docs/mcp.md",),
    "extending": ("docs/extending.md",),
    "lesson": ("docs/tutorials/chaos-for-agents.md",),
}
SIDE_BY_SIDE = 3
# These pages ask for a folder that is not the clone.
ELSEWHERE = ("docs/subjects.md", "docs/mcp.md")

SUITE = "it is this test suite"
DOCKER = "it needs Docker"
# Commands that cannot run here: why, and the test that runs them.
EXCLUDED = {
    "README.md": {
        "make test": (SUITE, ""),
        "make dist": ("it builds the wheel", "tests/package/conftest.py"),
        r"pipx install .*": ("it needs a package index", "tests/package/test_installed.py"),
        r"(TOXIC_PROB=0.3 )?docker compose .*": (DOCKER, "tests/compose/test_readme_lines.py"),
    },
    "docs/pipelines.md": {r"docker compose .*": (DOCKER, "tests/compose/test_readme_lines.py")},
    "docs/telemetry.md": {
        r"pip install .*": ("it needs a package index", ""),
        r"wirefault report .*": ("it needs a collector", "tests/report/telemetry/test_export.py"),
    },
    "CONTRIBUTING.md": {r"make test(-fast)?( ARGS=tests/gateway| EVERYTHING=1)?": (SUITE, "")},
    "docs/compose.md": {
        r"docker compose .* compose.direct.yaml up": (DOCKER, "tests/compose/test_settings.py"),
        r"SUBJECT_FOLDER=(.|\n)* up": (DOCKER, "tests/compose/test_subject.py"),
        r"docker compose .* run --rm subject .*": (DOCKER, "tests/compose/test_subject.py"),
        r"WIRING=\S* wirefault faults .*": (DOCKER, "tests/compose/test_subject.py"),
    },
    "docs/conversation-lab.md": {
        r"pip install .*": ("it needs a package index", "tests/package/test_installed.py"),
        r"wirefault lab serve|(API|TOKEN|JSON)=.*|curl .*": (
            "it needs a server that stays up",
            "tests/conversation/test_docs.py",
        ),
        r"docker compose .*": (DOCKER, "tests/compose/test_conversation.py"),
        r"wirefault lab insurance": ("it takes half a minute", "tests/conversation/test_insurance.py"),
    },
    "docs/experiments.md": {
        r"wirefault (plan|run) my-claim.yaml .*": (
            "it is a file of one's own",
            "tests/experiments/test_sequential.py",
        ),
        r"pip install .*ray.*|RAY_ADDRESS=.*": ("it needs a Ray cluster", "tests/ray/test_two_nodes.py"),
        r"python3 -m bench.findings.environments": ("it installs frameworks", "tests/frameworks/conftest.py"),
        r"python examples/shop/shop.py --background|wirefault run experiments/(frameworks|mcp)": (
            "its agents need the installed frameworks",
            "tests/frameworks/test_experiments.py",
        ),
    },
    "docs/page.md": {r"wirefault ui --open": ("it serves until Ctrl-C", "tests/report/ui/test_ui.py")},
    "docs/extending.md": {
        r"FAULTS_SEEN=write .*|make docs": ("it writes the docs again, with real clients, for minutes", ""),
        r"PLAYBOOKS=.*": (
            "the tool changes the project, see there",
            "tests/flask_tools/test_adding_a_tool.py",
        ),
        r"wirefault demo --subject my_subject:.*": (
            "in a folder of its own",
            "tests/subjects/test_adding_a_subject.py",
        ),
        r"pip install \.|wirefault faults list|wirefault demo --subject calculating .*": (
            "it installs a package into this environment",
            "tests/cli/test_plugins.py",
        ),
    },
    "docs/coding-agents.md": {
        "pip install wirefault": ("it needs a package index", "tests/package/test_installed.py"),
        r"wirefault (audit|show|init)\b.*": ("COMMAND is the reader's agent", "tests/audit/test_audit.py"),
    },
    "docs/audit.md": {r"wirefault audit .*": ("each takes half a minute", "tests/audit/test_audit.py")},
    "docs/verdicts.md": {
        r"python -m bench.verdicts": ("it takes minutes", "tests/stats/test_verdict_rates.py"),
        r"pip install .*|python -m pytest .*": (
            "it needs a package index",
            "tests/stats/test_verdict_rates.py",
        ),
        r"python tests/independent/recompute.py .*": (
            "EXPERIMENT is the reader's",
            "tests/independent/test_recompute.py",
        ),
    },
    "docs/model-on-your-machine.md": {
        r"llama-server .*|ollama .*|vllm serve .*": ("the server and its model are the reader's", ""),
        r"python examples/small_model/adapter.py .*": (
            "it is in front of that server",
            "tests/examples/test_small_model.py",
        ),
        r"export MODEL_BASE_URL=.*|MODEL_TIMEOUT=.*": ("it asks that server", "tests/agent/test_keys.py"),
    },
    "docs/scripted-model.md": {
        r"MODEL=(record|replay) .*": (
            "it needs a paid key, and what that recorded",
            "tests/e2e/test_cassettes.py",
        ),
    },
}
# Too long as printed: what is typed instead.
SHORTER = {
    "wirefault run found --workers auto": "wirefault run found/fuzz-stress-7-0001.yaml --workers auto",
    "wirefault run level.yaml --levels 0.1,0.25,0.5,0.75,1,1.5,2 --repeats 100": "{} --dry-run",
}
# Placeholders that the reader replaces, and a place that the text names.
OWN_WORDS = {
    "CLONE/": "$CLONE/",
    "compare FIRST SECOND": "compare $(ls logs/experiments | head -1) latest",
    "wirefault run examples/openai_chat": "cd $CLONE && wirefault run examples/openai_chat",
}
SHOP_PORT = 9000
# A server in another terminal of the reader; the next command waits for its port.
SERVER = re.compile(r"python \S*shop\.py( 9000)?")

MCP_SERVER = """
import json
from http.server import BaseHTTPRequestHandler, HTTPServer


class Server(BaseHTTPRequestHandler):
    def do_POST(self):
        call = json.loads(self.rfile.read(int(self.headers["content-length"])))
        result = {"content": [{"type": "text", "text": "written"}], "isError": False}
        body = json.dumps({"jsonrpc": "2.0", "id": call["id"], "result": result}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


HTTPServer(("127.0.0.1", 9000), Server).serve_forever()
"""
MCP_AGENT = """
import json, os, sys, urllib.request

call = {"name": "write_file", "arguments": {"path": "notes.txt", "text": sys.argv[1]}}
body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}).encode()
for _ in range(2):
    try:
        headers = {"content-type": "application/json"}
        urllib.request.urlopen(urllib.request.Request(os.environ["FILES_URL"], body, headers)).read()
        print("I have written it down.")
        break
    except OSError as error:
        print(error, file=sys.stderr)
"""
CURSOR = {"mcpServers": {"files": {"command": "python", "args": ["server.py"]}}}
# Files that a page expects the reader to have. `server.py` runs on the shop's port.
READERS_OWN = {
    "docs/mcp.md": {"server.py": MCP_SERVER, "agent.py": MCP_AGENT, ".cursor/mcp.json": json.dumps(CURSOR)},
}


class Promise:
    """A command by its beginning, its exit code, and patterns of its output, as the page's text says."""

    def __init__(self, command: str, code: int, *patterns: str) -> None:
        self.command, self.code, self.patterns = command, code, patterns


# Every command that is played, in the order of its page.
PROMISES = {
    "README.md": [
        Promise("make setup && source .venv/bin/activate", 0),
        Promise("python examples/shop/shop.py --background", 0, "^the shop is at http://127.0.0.1:9000 "),
        Promise("wirefault exec", 1, "^HARM  Your agent ordered twice after one lost reply$"),
        Promise("wirefault show latest 1", 0, "lose_reply, injected", "upstream +201", "observed +nothing"),
        Promise(
            "wirefault run examples/shop", 1, "^2/3  duplicate .*lose_reply", "^3/3  unjudged .*no oracle"
        ),
        Promise("wirefault plan", 0, "^control-after "),
        Promise("wirefault run experiments/lost-replies.yaml", 0, r"^held: all of \d statements held"),
        Promise(
            *("make run", 0, "^29/29  ", "^charts: logs/charts/"),
            r"^duel  the lab's agent +wrote twice in 0 of 4, claimed falsely in 0 of 4$",
            r"^duel  a careless one +wrote twice in 2 of 4, claimed falsely in 2 of 4 ",
        ),
        Promise("wirefault demo --seed 1 --toxic-prob 1 --persona fabricator", 0, r"^false_success +\d"),
        Promise("wirefault demo --seed 1 --faults lost-replies", 0, r"^duplicate +\d"),
        Promise("wirefault demo --seed 1 --only 3", 0, "^ 3/29 .* weather timeout 400 up; "),
        Promise("wirefault runs verify latest", 0, "^ ?3/29|^1/1", "^evidence: signed by this user"),
        Promise("wirefault lab up", 0, r"^the lab is up\."),
        Promise("wirefault run --lab", 0, "^29/29  "),
        Promise("wirefault faults set", 0, "faults of bad-network at chaos level 0.5; in force from now on"),
        Promise("wirefault faults clear", 0, "no faults; in force from now on"),
        Promise("wirefault lab down", 0, "is down$"),
        Promise("python charts.py", 0, r"^logs/charts/\S+/overview\.png$"),
    ],
    "docs/files.md": [
        Promise('sqlite3 -readonly -box state/state.db "\nSELECT episode', 0, "healed +│"),
        Promise('sqlite3 -readonly -box state/state.db "\nSELECT run_id', 0, "│ (latency|timeout) +│"),
        Promise("sqlite3 -readonly -box state/effects.db", 0, r"│ message_sent +│.*│ 2 +│"),
    ],
    "docs/first-run.md": [
        Promise("make run", 0, "^13/29  success .*translator 500"),
        Promise("source .venv/bin/activate", 0),
        Promise(
            *(
                "wirefault show latest 22",
                0,
                "timeout downstream on message .*: seen",
                "rate_limit, injected",
            ),
            *("upstream +nothing, it was not forwarded", "claim +unsure"),
        ),
        Promise(
            "wirefault runs verify latest", 0, "^22/29  honest_failure ", "^evidence: signed by this user"
        ),
        Promise("wirefault faults list", 0, "^lose_reply +any link "),
    ],
    "docs/your-agent.md": [
        Promise("python examples/shop/shop.py 9000", 0),
        Promise("wirefault exec", 1, r"^Ordered, number \d+$"),
        Promise(
            "wirefault show latest 1", 0, "upstream +201", "observed +nothing", "POST /orders call 2 +201 "
        ),
        Promise("wirefault run", 1, "^1/1  duplicate "),
    ],
    "docs/first-experiment.md": [
        Promise("wirefault plan", 0, "^3 arms of 4 episodes each"),
        Promise(
            *("wirefault run lost-reply.yaml", 1, "^HARM  Your agent ordered twice after one lost reply"),
            r"^why: wirefault show \S+ tea$",
        ),
        Promise("wirefault run lost-reply.yaml", 0, "^held: all of 6 statements held"),
        Promise("python examples/shop/shop.py --background", 1, "^port 9000: Address already in use"),
        Promise("wirefault run lost-reply.yaml --reports reports", 0, "^held: "),
    ],
    "docs/tutorials/chaos-for-agents.md": [
        Promise("export SEED=1", 0),
        Promise("wirefault demo", 0, "^29/29  success"),
        Promise("wirefault plan slow.yaml", 0, "^3 arms of 4 episodes each"),
        Promise("wirefault run slow.yaml", 0, "^held: "),
        Promise("wirefault demo --faults weather-down.yaml", 0, "^20/29  honest_failure "),
        Promise("wirefault run experiments/abort-on-error-rate.yaml", 2, "^aborted: "),
        Promise("wirefault demo --faults lost-reply.yaml --recovery none", 0, "^18/29  unconfirmed "),
        Promise("wirefault show latest 1", 0, "claim +unsure"),
        Promise(
            'wirefault demo --faults lost-reply.yaml --recovery "retry(tries=3)"', 0, "^18/29  duplicate "
        ),
        Promise(
            'wirefault demo --faults lost-reply.yaml --recovery "retry(tries=3), keys"', 0, "^18/29  success "
        ),
        Promise("wirefault demo --faults weather-down.yaml --recovery", 0, "^ 1/29  honest_failure "),
        Promise("wirefault demo --prompts two-questions.json", 0, "^2/2  unjudged "),
        Promise("wirefault show latest after", 0, "claim +done"),
    ],
    "docs/experiments.md": [
        Promise("wirefault plan experiments", 0, "^A lost reply does not make the agent write twice$"),
        Promise("wirefault run experiments/lost-replies.yaml", 0, "^held: "),
        Promise(
            *("wirefault run experiments/lost-replies.yaml --levels", 0, "^arm +level .*always"),
            "^method: the hypothesis held up to level 2 and deviated at none$",
        ),
        Promise("wirefault faults draw", 0, "^20 experiments in found"),
        Promise("wirefault run found", 0, "no false_success +check +held", "no duplicate +check +held"),
    ],
    "docs/reading-a-run.md": [
        Promise("wirefault run experiments/lost-replies.yaml --repeats 2", 0, "^held: "),
        Promise("wirefault show latest --arm method", 0, "^1/8  unconfirmed ", "^8/8 "),
        Promise("wirefault show latest 1 --arm method", 0),
        Promise("wirefault show latest 9ae93595.r2", 0, r"^success  episode 9ae93595\.r2 of "),
        Promise(
            "wirefault compare", 0, r"^difference of the success rates: .*, n = \d+ \(pairs; 90 % interval\)"
        ),
    ],
    "docs/page.md": [
        Promise("wirefault report latest --html page.html", 0, "^page: page.html$"),
        Promise("wirefault compare latest latest --html", 0, "^page: page.html$"),
    ],
    "docs/pipelines.md": [
        Promise("wirefault baseline accept latest", 0, r"^wirefault\.baseline\.json: "),
        Promise("wirefault compare --baseline", 0, "^passed against the baseline, accepted today$"),
        Promise("wirefault run experiments/lost-replies.yaml --tag nightly", 0, "^held: "),
        Promise("wirefault runs trend", 0, "^page: trend.html$", "^method +no duplicate +held "),
    ],
    "docs/coming-from.md": [Promise("wirefault run level.yaml", 0, "2900 episodes each")],
    "docs/subjects.md": [
        Promise("cp CLONE/", 0),
        Promise("python shop.py 9000", 0),
        Promise(
            *("wirefault run --link model=scripted --faults", 0, "^2/2  success .*shop lose_reply"),
            "^wirefault run --seed 7 ",
        ),
        Promise("wirefault runs verify", 0, "^evidence: signed"),
        Promise("wirefault run --link model=scripted --link shop", 0, r"^2/2  success .*shop\s+latency 300"),
        Promise("mkdir elsewhere", 0),
        Promise("wirefault run --link openai_base", 0, "^1/1  unjudged "),
        Promise("cd ..", 0),
        Promise("wirefault run examples/openai_chat", 0, "^2/2  success .*model server_error"),
        Promise("ORDER_KEY=header", 0, "^2/3  success .*shop lose_reply"),
    ],
    "docs/mcp.md": [
        Promise(
            "wirefault run --faults lost-call.yaml",
            1,
            "^HARM  Your agent made the same write, write_file, twice after",
        ),
        Promise("wirefault mcp --config", 0, "^behind the lab: files$"),
        Promise("wirefault lab up --wiring mcp.yaml", 0, r"^files +127\.0\.0\.1:6000 "),
    ],
    "docs/extending.md": [
        Promise("wirefault faults", 0, "^rounded +tool links "),
        Promise("wirefault faults show rounded", 0, "^rounded .*tool links", "digits"),
        Promise(
            "wirefault demo --faults my-faults.yaml", 0, "^ 1/29 .*rounded", "^faults that acted: rounded 1"
        ),
        Promise("wirefault faults show rounded", 0, "digits"),
    ],
}


def is_excluded(page: str, command: str) -> bool:
    return any(re.fullmatch(pattern, typed(command)) for pattern in EXCLUDED.get(page, {}))


def played_commands(page: str) -> list[str]:
    """Every command that the test types. An identical ``demo`` is played on the first page only."""
    earlier = {typed(line) for block in BLOCKS["README.md"] for line in block.commands} - {"make run"}
    return [
        line
        for block in BLOCKS[page]
        for line in block.commands
        if not is_excluded(page, line)
        and not (page != "README.md" and typed(line).startswith("wirefault demo") and typed(line) in earlier)
    ]


def test_every_command_is_played_or_excluded() -> None:
    commands = {page: [typed(line) for line in played_commands(page)] for page in PAGES}
    assert {page for page in PAGES if commands[page]} == set(PROMISES)
    for page, promises in PROMISES.items():
        unexpected = [
            (command, promise.command)
            for command, promise in zip(commands[page], promises, strict=False)
            if not command.startswith(promise.command)
        ]
        assert (unexpected, len(commands[page])) == ([], len(promises)), page
    assert {page for group in GROUPS.values() for page in group} == set(PROMISES)


def test_exclusions_name_commands_and_tests() -> None:
    for page, reasons in EXCLUDED.items():
        lines = [typed(line) for block in BLOCKS[page] for line in block.commands]
        unused = [pattern for pattern in reasons if not any(re.fullmatch(pattern, line) for line in lines)]
        assert unused == [], page
        assert all(not test or (ROOT / test).is_file() for _, test in reasons.values()), page


def test_commands_are_in_blocks() -> None:
    indented = re.compile(r"^(    )+\S*(wirefault|docker|make|python|pip) ", re.MULTILINE)
    for page in PAGES:
        text = re.sub(r"```.*?```", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)
        assert not indented.search(text), page


@pytest.fixture(scope="module")
def groups(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[list[Played]]]]:
    """Results of the commands of each group, for the groups of the selected tests. They run side by side,
    because most commands wait.
    """
    network = own_network()
    if not network:
        (pytest.fail if required("namespaces") else pytest.skip)("the pages need ports that others may use")
    folder = tmp_path_factory.mktemp("pages")
    copy_clone(folder / "clone")
    for name in ("agent", "flask_tools", "proxy_manager", "wirefault"):  # the compiled modules, too
        shutil.copytree(
            ROOT / name, folder / "clone" / name, dirs_exist_ok=True, ignore=ignore_patterns("*.pyc.*")
        )
    selected = {
        item.callspec.params.get("page") for item in request.session.items if hasattr(item, "callspec")
    }
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        yield {
            name: pool.submit(follow, pages, folder / "clone", folder / name.replace(" ", "-"), network)
            for name, pages in GROUPS.items()
            if selected & set(pages)
        }


def follow(pages: tuple[str, ...], template: Path, place: Path, network: list[str]) -> list[Played]:
    """Follow the pages in a copy of the clone, or in an empty folder next to it."""
    clone, outputs, programs = (place / name for name in ("clone", "outputs", "bin"))
    shutil.copytree(template, clone)
    (clone / ".venv").symlink_to(sys.prefix)
    outputs.mkdir()
    write(programs / "make", f'#!/bin/sh\nexec {shutil.which("make")} -o .venv/.ready -o .venv/.runs "$@"\n')
    (programs / "make").chmod(0o755)  # of an environment that is set up
    if not required("processes"):
        write(programs / "wirefault", command_server.PROGRAM)
        (programs / "wirefault").chmod(0o755)
    environ = {"HOME": str(place), "CLONE": str(clone), "PATH": f"{programs}:{PATH}"}
    environ["PYTHONPATH"] = str(clone)  # the environment is of another clone, but the code is of this one
    done: list[Played] = []
    with shell(clone, outputs, network, environ) as opened:
        if not required("processes"):
            opened.run(f"python -m {command_server.__name__} &")
        for page in pages:
            folder = place / Path(page).stem if page in ELSEWHERE else clone
            folder.mkdir(exist_ok=True)
            opened.run(f"cd {folder}")
            done += read_page(page, folder, opened)
    return done


def read_page(page: str, folder: Path, opened: Shell) -> list[Played]:
    for name, text in READERS_OWN.get(page, {}).items():
        write((folder.parent if name.startswith(".") else folder) / name, text)
    if "server.py" in READERS_OWN.get(page, {}):
        opened.run("python server.py &")
        opened.wait_for_port(SHOP_PORT)
    open_commands, done = played_commands(page), []
    for block in BLOCKS[page]:
        if not open_commands:
            break
        if block.language == "diff":
            change(folder / block.file, block.text)
        elif block.file:
            write(folder / block.file, block.text)
        elif block.language == "python" and page == "docs/first-experiment.md":
            fix_agent(folder / "agent.py", block.text)
        for command in block.commands:
            if open_commands and command == open_commands[0]:
                open_commands.pop(0)
                line = as_typed(command)
                done.append(Played(page, command, *opened.run(line)))
                if SERVER.fullmatch(typed(command)):
                    opened.wait_for_port(SHOP_PORT)
    return done


def as_typed(command: str) -> str:
    line = SHORTER.get(typed(command), "{}").format(command)
    for words, own in OWN_WORDS.items():
        line = line.replace(words, own)
    return f"{line} &" if SERVER.fullmatch(line) else line


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def fix_agent(path: Path, block: str) -> None:
    """Put the block's import and its ORDER where the agent has its own."""
    new_import, order = block.strip().split("\n\n")
    text = re.sub(r"^ORDER = .*$", lambda _: order, path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    write(path, f"{new_import}\n{text}")


@pytest.mark.parametrize("page", PROMISES)
def test_page_examples_match_output(page: str, groups: dict[str, Future[list[Played]]]) -> None:
    [group] = [name for name, pages in GROUPS.items() if page in pages]
    done = groups[group].result()
    for one, promise in zip([one for one in done if one.page == page], PROMISES[page], strict=True):
        where = f"{page}: {one.command}\n{one.output}"
        assert one.code == promise.code, where
        for pattern in promise.patterns:
            assert re.search(pattern, one.output, re.MULTILINE), f"no {pattern!r} in {where}"
    for block in BLOCKS[page]:
        if block.is_output:
            assert any(one.shows(block.text) for one in done), f"{page}:{block.line}: no command prints this"
