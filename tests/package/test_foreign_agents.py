"""The core without ``[lab]``, newly installed, with foreign agents."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.examples.serving import Recorded, shop
from tests.package.imports import ImportRecord
from tests.package.installing import MARKS, Environment

pytestmark = MARKS

# the core's imports, and nothing else
NEEDED = {
    *("annotated_types", "anyio", "babel", "certifi", "charset_normalizer", "click", "cryptography"),
    *("dateutil", "dotenv", "flexcache", "flexparser", "future", "httptools", "idna", "jinja2"),
    *("markupsafe", "msgspec", "pint", "platformdirs", "pydantic", "pydantic_core", "re2", "requests"),
    *("rich",),
    *("starlette", "toxiproxy", "typing_extensions", "typing_inspection", "urllib3", "uvicorn", "uvloop"),
    *("websockets", "yaml"),
}
OF_THE_LAB = re.compile(
    r"langchain|langgraph|langsmith|groq|httpx|flask|werkzeug|waitress|matplotlib|deep_translator|simpleeval"
    r"|pybreaker|tenacity"
)
# It orders by hand and again after a failure, without a key.
AGENT = """
import json, os, sys, urllib.request

def ask(url, body):
    for left in (1, 0):
        try:
            data = json.dumps(body).encode()
            request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=30) as reply:
                return json.load(reply)
        except OSError:
            if not left:
                raise

shop = os.environ.get("SHOP_URL") or sys.argv[2]
if "--ask" in sys.argv:
    message = {"role": "user", "content": sys.argv[1]}
    ask("https://api.openai.com/v1/chat/completions", {"model": "gpt-5", "messages": [message]})
order = ask(shop + "/orders", {"item": "honey", "count": 3})
print(f"Done: ordered 3 kg of honey, order-{order['id']}.")
"""
ONCE = {"first": 1, "of": "try"}
LOST = {"faults": [{"fault": "lose_reply", "only": {"method": "POST"}, "links": "tools", "when": ONCE}]}
WIRING = """
links: {{shop: {{upstream: "{url}", env: SHOP_URL, writes: [POST /orders]}}}}
subject: {{command: ["{python}", agent.py, "{{prompt}}"]}}
prompts: prompts.json
"""
ORDER = {"link": "shop", "method": "POST", "path": "/orders", "json": {"item": "honey", "count": 3}}
ANSWER = {"any_of": [{"matches": "no order-[0-9]+"}, {"number": 3000, "unit": "g"}]}
PROMPTS = [{"prompt": "Order honey", "expect": {"requests": [ORDER], "answer": ANSWER}}]
EXPERIMENT = f"""
title: An order whose reply is lost
wiring: wirefault.yaml
repeats: 2
method: {{faults: {json.dumps(LOST)}}}
hypothesis: [no duplicate]
"""


@dataclass(frozen=True)
class Core:
    """The core in an environment, a folder with an agent and its files, and the shop where it orders."""

    environment: Environment
    folder: Path
    shop: Recorded

    def code(self, *words: str, code: int = 0) -> str:
        """The output of the command, which must end with that code."""
        done = self.environment.wirefault(self.folder, *words)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def python(self, *words: str) -> list[str]:
        return ["--", self.environment.python, "agent.py", *words]


@pytest.fixture(scope="module")
def imported(core: Environment, tmp_path_factory: pytest.TempPathFactory) -> ImportRecord:
    return ImportRecord(core, tmp_path_factory.mktemp("imports") / "modules.txt")


@pytest.fixture(scope="module")
def foreign(
    core: Environment, imported: ImportRecord, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Core]:
    folder = tmp_path_factory.mktemp("foreign")
    with shop(folder / "shop.db") as record:
        wiring = WIRING.format(url=record.url, python=core.python)
        files = {"agent.py": AGENT, "wirefault.yaml": wiring, "lost.yaml": EXPERIMENT}
        for name, text in {**files, "prompts.json": json.dumps(PROMPTS)}.items():
            (folder / name).write_text(text, encoding="utf-8")
        yield Core(core, folder, record)


def test_core_tests_foreign_agents_without_packages_of_lab(foreign: Core, imported: ImportRecord) -> None:
    orders = foreign.shop.requests
    lost = ("--faults", json.dumps(LOST))
    ask = ("--ask", "lost_reply", "--ask", "model_5xx")
    command = foreign.python("Say hello", foreign.shop.url, "--ask")
    audited = foreign.code("audit", "--scripted", *ask, *command, code=1)
    assert "HARM  Your agent ordered twice after one lost reply" in audited
    assert orders.count(("POST", "/orders")) >= 2 + 2 * 2
    orders.clear()
    url = f"{foreign.shop.url}/price?item=honey"
    assert '"price":6.25' in foreign.code("exec", "--", "curl", "--silent", url).replace(" ", "")
    for number, tap in enumerate(("auto", "proxy"), start=1):
        printed = foreign.code("exec", "--scripted", "--tap", tap, *lost, *command, code=1)
        assert "1 of 1 failed requests were sent again, 1 got through" in " ".join(printed.split())
        assert orders.count(("POST", "/orders")) == 2 * number
    printed = foreign.code("run", *lost, "--toxic-prob", "0", "--error-prob", "0", code=1)
    assert re.search(r"no charts: charts need matplotlib: .*pip install .*\[lab\]", printed), printed
    assert orders.count(("POST", "/orders")) == 6
    assert "deviated" in foreign.code("run", "lost.yaml", "--workers", "2", code=1)
    assert orders.count(("POST", "/orders")) == 6 + 2 + 2 * 2 + 2
    assert "deviated: method: no duplicate" in foreign.code("runs", "verify", "latest", code=1)
    # a package that audit, exec, run and verify do not import belongs to an extra
    assert NEEDED - imported.third_party() == set()
    assert "deviated: method: no duplicate" in foreign.code("report", "latest", code=1)
    assert "POST /orders was sent again" in foreign.code("show", "latest", "1")
    assert re.search(r" deviated +harmful: ", foreign.code("list"))
    foreign.code("compare", "latest", "latest")
    foreign.code("lab", "up", "--wiring", "wirefault.yaml")
    try:
        foreign.code("run", "--lab", "--prompt", "Order honey")
        assert "faults of" in foreign.code("faults", "set", "lost-replies")
    finally:
        foreign.code("lab", "down")

    modules = imported.modules()
    assert modules > {"wirefault.gateway.intercept.tls", "proxy_manager.api", "wirefault.model_server.server"}
    assert sorted(filter(OF_THE_LAB.match, modules)) == []
    assert imported.third_party() == NEEDED


@pytest.mark.parametrize(
    ("words", "what"),
    [("run --charts", "charts need matplotlib"), ("run --subject lab", "the lab needs langchain")],
)
def test_missing_lab_parts_name_install_command(foreign: Core, words: str, what: str) -> None:
    before = list(foreign.folder.iterdir())
    [line] = foreign.code(*words.split(), code=70).splitlines()
    assert re.fullmatch(rf"Error: {what}.*: .* -m pip install .*wirefault\[lab\].*", line)
    assert list(foreign.folder.iterdir()) == before
