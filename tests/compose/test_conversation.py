"""Compose profile `recovery`: the conversation lab with PostgreSQL and Redis, through its published port."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import requests

from tests.compose.engine import IMAGE, PATIENCE_S, V1, V2, docker, has, works
from tests.compose.rig import SELDOM, Lab, copy_clone, environment
from tests.support import free_port, required, until

pytestmark = pytest.mark.compose
DATABASES = ("postgres:15-bookworm", "redis:7.0-bookworm")
PARIS = "What is the temperature in Paris right now?"
FALLBACK = "fallback(model=scripted-diligent)"
QUERY = "SELECT failure_mode, status FROM agent_interactions ORDER BY id"


@dataclass
class Conversation:
    """The server: the page's address with its token, and how long it took to start."""

    link: str
    seconds: float
    lab: Lab

    def chat(self, **request: str) -> dict:
        url, _, token = self.link.partition("/?token=")
        reply = requests.post(
            f"{url}/api/v1/chat",
            json={"session_id": "me", "message": PARIS, **request},
            headers={"Authorization": f"Bearer {token}"},
            timeout=PATIENCE_S,
        )
        assert reply.status_code == 200, reply.text
        return reply.json()


@pytest.fixture(scope="module")
def conversation(engine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Conversation]:
    """The server of another clone, so that its run is not among the runs of the other tests' lab."""
    for image in DATABASES:
        if not works("docker", "image", "inspect", image) and not works("docker", "pull", image):
            reason = f"{image} is not here and cannot be pulled (.ci/images.sh makes a substitute)"
            (pytest.fail if required("docker") else pytest.skip)(reason)
    folder = tmp_path_factory.mktemp("recovery")
    folder.chmod(0o755)
    copy_clone(folder)
    image = {"WIREFAULT_RECOVERY_IMAGE": f"{IMAGE}-recovery"}
    environ = {**environment("recovery-"), **image, "RECOVERY_PORT": str(free_port())}
    lab = Lab(folder, environ, V2 if has(V2) else V1)
    try:
        lab.compose("--profile recovery build conversation")
        start = time.monotonic()
        lab.compose("--profile recovery up -d conversation")
        links = until(
            lambda: re.findall(r"http://127\.0\.0\.1:\d+/\?token=\w+", "\n".join(lab.log("conversation"))),
            "the page's address",
            **SELDOM,
        )
        yield Conversation(links[0], time.monotonic() - start, lab)
    finally:
        lab.down()
        docker("rmi", *image.values(), check=False)


def test_failed_and_recovered_turn_through_the_published_port(
    conversation: Conversation, record_property
) -> None:
    start = time.monotonic()
    failed = conversation.chat(failure_mode="service_unavailable", recovery="none")
    assert (failed["status"], failed["failure_injection_applied"]) == ("error", True)
    recovered = conversation.chat(failure_mode="service_unavailable", recovery=FALLBACK)
    assert (recovered["status"], recovered["metadata"]["recovered"]) == ("success", True)
    assert "8.4" in recovered["response"]
    record_property("up of the conversation lab, images built, s", round(conversation.seconds, 1))
    record_property("a failed and a recovered turn, s", round(time.monotonic() - start, 1))


def test_page_opens_with_the_printed_address(conversation: Conversation) -> None:
    page = requests.get(conversation.link, timeout=PATIENCE_S)
    assert page.status_code == 200 and "token" not in page.url and "<textarea" in page.text


def test_turns_are_in_postgresql_and_sessions_in_redis(conversation: Conversation) -> None:
    postgres, redis = (conversation.lab.container(name)["Id"] for name in ("postgres", "redis"))
    words = ("psql", "-h", "127.0.0.1", "-U", "postgres", "-At", "-c", QUERY)
    assert docker("exec", postgres, *words).split() == [
        *("service_unavailable|error", "service_unavailable|success")
    ]
    assert "wirefault:state:me" in docker("exec", redis, "redis-cli", "keys", "wirefault:*").split()


def test_databases_are_not_published(conversation: Conversation) -> None:
    for name in ("postgres", "redis"):
        ports = conversation.lab.container(name)["NetworkSettings"]["Ports"]
        assert not any(ports.values())
