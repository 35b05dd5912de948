"""A budget account in a file is shared, even after a process that had it open was killed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from wirefault.gateway.budgets.account import Account, SharedBook


def account(book: SharedBook) -> Account:
    with book.opened() as opened:
        return opened


def test_concurrent_counts_add_up(tmp_path):
    books = [SharedBook(tmp_path, "arm", str(lane)) for lane in range(4)]

    def count(number: int) -> None:
        with books[number % 4].opened() as opened:
            opened.take_call(str(number % 4), 1e9)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(count, range(200)))
    assert (account(books[0]).calls, account(books[0]).open) == (200, dict.fromkeys("0123", 50))


def test_requests_of_killed_gateway_are_over(tmp_path):
    with SharedBook(tmp_path, "arm", "0").opened() as opened:
        opened.take_call("0", 1e9)
        opened.take_call("1", 1e9)
    again = account(SharedBook(tmp_path, "arm", "0"))
    assert (again.calls, again.open) == (2, {"1": 1})


def test_pools_have_separate_accounts(tmp_path):
    with SharedBook(tmp_path, "arm", "0").opened() as opened:
        opened.tokens = 5
    assert account(SharedBook(tmp_path, "other", "0")).tokens == 0


@pytest.mark.parametrize("text", ["{", '{"x": 1}', "[1]"])
def test_invalid_account_file_is_named(tmp_path, text):
    file = tmp_path / "budgets" / "arm.json"
    file.parent.mkdir()
    file.write_text(text)
    with pytest.raises(OSError, match=r"arm\.json is not a budget"):
        SharedBook(tmp_path, "arm", "0")
