"""Which functions may send requests, by their code alone."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sqlite3
import urllib.parse
import urllib.request
from collections.abc import Callable
from typing import Any

import httpx
import pytest
import requests
from langchain_core.tools import BaseTool

from wirefault import tool
from wirefault.subjects.functions.reach import may_send

CLIENT = httpx.Client()
DATABASE = sqlite3.connect(":memory:")
LOG = logging.getLogger("shop")


class Shop:
    """An object that holds its client."""

    def __init__(self) -> None:
        self.session = requests.Session()

    def order(self) -> None:
        self.session.post("http://shop/orders")


class Ledger:
    """An object without one."""

    def __init__(self) -> None:
        self.rows: dict[str, int] = {}

    def order(self) -> None:
        self.rows["tea"] = 1


SHOP, LEDGER = Shop(), Ledger()


def _helper() -> None:
    urllib.request.urlopen("http://shop")


def _by_closure(client: Any) -> Callable[[], Any]:
    return lambda: client.get("http://shop")


def by_module() -> None:
    httpx.post("http://shop/orders")


def by_object() -> None:
    CLIENT.get("http://shop")


def by_own_object() -> None:
    SHOP.order()


def by_helper() -> None:
    _helper()


def imported_in_its_body() -> None:
    from aiohttp import ClientSession  # type: ignore[import-not-found]

    ClientSession()


@tool
def of_another_tool() -> None:
    CLIENT.get("http://shop")


def by_another_tool() -> None:
    of_another_tool()


class Remote(BaseTool):
    """A tool of LangChain with its client in its method."""

    name: str = "remote"
    description: str = "asks"

    def _run(self) -> None:
        requests.get("http://shop")


class Local(BaseTool):
    """One that only computes."""

    name: str = "local"
    description: str = "computes"

    def _run(self) -> int:
        return 1


def computes() -> str:
    LOG.info("a price")
    return json.dumps([os.getpid(), urllib.parse.quote("tea"), asyncio.sleep])


def keeps_its_own_rows() -> None:
    LEDGER.order()
    DATABASE.execute("SELECT 1")


@tool
def marked() -> None:
    """A tool that crosses the lab by sockets of the lab."""


def by_marked() -> None:
    marked()


@pytest.mark.parametrize(
    ("function", "args", "sends"),
    [
        (by_module, (), True),
        (by_object, (), True),
        (by_own_object, (), True),
        (SHOP.order, (), True),
        (by_helper, (), True),
        (imported_in_its_body, (), True),
        (by_another_tool, (), True),
        (_by_closure(CLIENT), (), True),
        (Remote._run, (Remote(),), True),
        (Local._run, (Local(),), False),
        (computes, (), False),
        (keeps_its_own_rows, (), False),
        (LEDGER.order, (), False),
        (by_marked, (), False),
        (len, (), False),
    ],
)
def test_code_shows_whether_a_function_may_send(function: Any, args: tuple[Any, ...], sends: bool) -> None:
    assert may_send(function, args) is sends
