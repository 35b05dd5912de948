"""Which clients each tap catches, for https, http and this machine's own addresses."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.subjects.taps.ingress import AnsweringIngress
from tests.subjects.taps.tapped import opened, places, run
from tests.support import required

pytestmark = pytest.mark.slow

URLS = ["https://api.example.com/x", "http://shop.example:8080/x", "http://127.0.0.1:9009/x"]
PLACES = ["https://api.example.com:443", "http://shop.example:8080", "http://127.0.0.1:9009"]

PYTHON = {
    "urllib": "import urllib.request as u; get = lambda url: u.urlopen(url).read().decode()",
    "requests": "import requests; get = lambda url: requests.get(url).text",
    "httpx": "import httpx; get = lambda url: httpx.get(url).text",
    "httpx2": "import httpx2; get = lambda url: httpx2.get(url).text",
    "urllib3": """
import urllib3
get = lambda url: urllib3.PoolManager().request("GET", url).data.decode()""",
    "aiohttp": """
import aiohttp, asyncio
async def got(url):
    async with aiohttp.ClientSession() as session, session.get(url) as reply:
        return await reply.text()
get = lambda url: asyncio.run(got(url))""",
}
PYTHON_ENDS = "\nimport sys\nfor url in sys.argv[1:]: print(get(url))"
NODE_FETCH = "(async () => { for (const url of URLS) console.log(await (await fetch(url)).text()); })()"
NODE_HTTPS = """
const got = url => new Promise((give, fail) => require(url.split(':')[0]).get(url, reply => {
  let text = '';
  reply.on('data', part => text += part).on('end', () => give(text));
}).on('error', fail));
(async () => { for (const url of URLS) console.log(await got(url)); })()"""
GO = """package main
import ("fmt"; "io"; "net/http"; "os")
func main() {
    for _, url := range os.Args[1:] {
        reply, failed := http.Get(url)
        if failed != nil { fmt.Fprintln(os.Stderr, failed); os.Exit(1) }
        text, _ := io.ReadAll(reply.Body)
        fmt.Println(string(text))
    }
}"""
JAVA = """
import java.net.*;
import java.net.http.*;
class Get {
    public static void main(String[] urls) throws Exception {
        for (var url : urls) {
            var asked = HttpRequest.newBuilder(URI.create(url)).build();
            var reply = HttpClient.newHttpClient().send(asked, HttpResponse.BodyHandlers.ofString());
            System.out.println(reply.body());
        }
    }
}"""


def python(client: str) -> list[str]:
    if find_spec(client) is None:
        pytest.skip(f"{client} is not installed")
    return [sys.executable, "-c", PYTHON[client] + PYTHON_ENDS]


def program(name: str) -> str:
    program = shutil.which(name)
    if not program and not required(name):
        pytest.skip(f"{name} is not installed")
    return program or name


def go(folder: Path) -> list[str]:
    (folder / "get.go").write_text(GO)
    subprocess.run([program("go"), "build", "-o", "get", "get.go"], cwd=folder, check=True)
    return [str(folder / "get")]


def java(folder: Path) -> list[str]:
    (folder / "Get.java").write_text(JAVA)
    quick_start = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")  # half the processor time: it runs but once
    return [program("java"), *quick_start, str(folder / "Get.java")]


def node(text: str) -> list[str]:
    return [program("node"), "-e", f"const URLS = process.argv.slice(1);{text}"]


COMMANDS = {
    "curl": lambda folder: [program("curl"), "-sS", "-w", "\\n"],
    **{name: lambda folder, name=name: python(name) for name in PYTHON},
    "node fetch": lambda folder: node(NODE_FETCH),
    "node https": lambda folder: node(NODE_HTTPS),
    "go": go,
    "java": java,
}
# by the proxy tap, as its remark reports
ESCAPE = {"urllib3": URLS, "aiohttp": URLS, "go": URLS[2:]}


@pytest.mark.usefixtures("namespaces")
@pytest.mark.parametrize("client", COMMANDS)
def test_namespace_tap_catches_client(tmp_path: Path, ingress: AnsweringIngress, client: str) -> None:
    command = COMMANDS[client](tmp_path)
    with opened(ingress, tmp_path, "namespace") as tap:
        assert places(run(tap, [*command, *URLS], tmp_path)) == PLACES


@pytest.mark.parametrize("client", [client for client in COMMANDS if ESCAPE.get(client) != URLS])
def test_proxy_tap_catches_proxy_aware_clients(
    tmp_path: Path, ingress: AnsweringIngress, client: str
) -> None:
    command = COMMANDS[client](tmp_path)
    urls = [url for url in URLS if url not in ESCAPE.get(client, ())]
    with opened(ingress, tmp_path, "proxy") as tap:
        assert places(run(tap, [*command, *urls], tmp_path)) == PLACES[: len(urls)]


def test_children_of_node_are_caught(tmp_path: Path, ingress: AnsweringIngress) -> None:
    start = "require('child_process').execFileSync('curl', ['-sS', ...URLS.slice(0, 1)], {stdio: 'inherit'})"
    with opened(ingress, tmp_path, "proxy") as tap:
        assert places(run(tap, [*node(start), *URLS], tmp_path)) == PLACES[:1]
