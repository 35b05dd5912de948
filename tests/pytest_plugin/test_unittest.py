"""The marker on unittest.TestCase: on the class, on a method, and with coroutines."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pytest_plugin.suites import CONFTEST, Session, run_suite, write_suite

pytestmark = pytest.mark.slow

SHOP_OF_CLASS = (
    CONFTEST
    + """
@pytest.fixture
def shop_of_class(request, shop):
    request.cls.shop = shop
"""
)
TESTS = """
import unittest
import httpx
import pytest

class Shop(unittest.TestCase):
    def items(self):
        return httpx.get(f"{self.shop}/items").status_code

@pytest.mark.usefixtures("shop_of_class")
@pytest.mark.wirefault("unavailable")
class TestMarked(Shop):
    def setUp(self):
        self.at_start = self.items()

    def test_meets_fault_from_set_up_on(self):
        self.assertEqual((self.at_start, self.items()), (503, 503))

    def test_own_failure_is_shown(self):
        self.assertEqual(self.items(), 200)

    def test_skips(self):
        self.skipTest("not today")

class TestInherited(TestMarked):
    def test_inherits_mark(self):
        self.assertEqual(self.items(), 503)

@pytest.mark.usefixtures("shop_of_class")
class TestMethods(Shop):
    def test_unmarked(self):
        self.assertEqual(self.items(), 200)

    @pytest.mark.wirefault("unavailable")
    def test_fault_never_arrives(self):
        pass

    @pytest.mark.wirefault([{"fault": "lose_reply"}])
    def test_orders_twice(self):
        for _ in range(2):
            with self.assertRaises(httpx.TransportError):
                httpx.post(f"{self.shop}/orders", json={"item": "mug"})

    @pytest.mark.wirefault("unavailable", repeats=3)
    def test_repeats(self):
        self.items()

@pytest.mark.usefixtures("shop_of_class")
class TestAsync(unittest.IsolatedAsyncioTestCase):
    @pytest.mark.wirefault("unavailable")
    async def test_coroutine(self):
        async with httpx.AsyncClient() as client:
            self.assertEqual((await client.get(f"{self.shop}/items")).status_code, 503)
"""
ROWS = (
    ("test_meets_fault_from_set_up_on", "passed", ""),
    ("test_inherits_mark", "passed", ""),
    ("test_own_failure_is_shown", "failure", "503 != 200"),
    ("test_skips", "skipped", "not today"),
    ("test_unmarked", "passed", ""),
    ("test_fault_never_arrives", "failure", "the fault unavailable never arrived"),
    ("test_orders_twice", "failure", "POST /orders"),
    ("test_repeats", "error", "repeats: not on a unittest.TestCase"),
    ("test_coroutine", "passed", ""),
)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    folder: Path = tmp_path_factory.mktemp("suite")
    write_suite(folder, TESTS, conftest=SHOP_OF_CLASS)
    return run_suite(folder, "--wirefault-seed=7")


def test_repeats_of_the_option_are_refused(tmp_path: Path) -> None:
    write_suite(
        tmp_path,
        """
import unittest
import pytest

class TestOnce(unittest.TestCase):
    @pytest.mark.wirefault("unavailable")
    def test_by_option(self): ...

    @pytest.mark.wirefault("unavailable", repeats=1)
    def test_by_marker(self): ...
""",
    )
    cases = run_suite(tmp_path, "--wirefault-repeats=2").cases
    assert "--wirefault-repeats: not on a unittest.TestCase" in cases["test_by_option"].message
    assert "unittest.TestCase" not in cases["test_by_marker"].message


@pytest.mark.parametrize(("name", "result", "message"), ROWS)
def test_case_ends_like_marked_function(session: Session, name: str, result: str, message: str) -> None:
    case = session.cases[name]
    assert case.result == result, case.message
    assert message in case.message
