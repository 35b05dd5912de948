"""What counts as a connection past the lab, of looks that are made up."""

from __future__ import annotations

from wirefault.core.sockets import Address
from wirefault.subjects.taps.watch import BypassTracker, Past, SystemSocket

ELSEWHERE = Address("93.184.216.34", 443)
OWN = Address("10.0.0.2", 40000)
SERVER = Address("127.0.0.1", 9000)
CLIENT = Address("127.0.0.1", 40001)
NOBODY = Address("0.0.0.0", 0)


def tcp(inode: int, remote: Address, local: Address = OWN) -> SystemSocket:
    return SystemSocket("tcp", inode, local, remote)


def listener(inode: int) -> SystemSocket:
    return SystemSocket("tcp", inode, SERVER, NOBODY, listens=True)


def seen(*looks: list[SystemSocket], allowed: Address | None = None) -> dict[Past, int]:
    """After these looks, all of whose sockets with a number below 100 are the subject's."""
    tracker = BypassTracker(lambda address: address == allowed)
    for look in looks:
        tracker.take(look, {one.inode: "agent" for one in look if one.inode < 100})
    return tracker.counts


def test_a_connection_of_the_subject_s_counts_once_however_often_it_is_seen() -> None:
    past = Past("tcp", ELSEWHERE, "agent")
    assert seen([tcp(1, ELSEWHERE), tcp(2, ELSEWHERE)], [tcp(1, ELSEWHERE)]) == {past: 2}


def test_what_others_do_and_what_may_be_does_not_count() -> None:
    assert seen([tcp(100, ELSEWHERE)]) == {}
    assert seen([tcp(1, ELSEWHERE)], allowed=ELSEWHERE) == {}
    assert seen([tcp(1, Address("10.0.0.1", 53))]) == {}


def test_a_server_of_its_own_is_called_by_itself_and_by_others() -> None:
    assert seen([listener(1), tcp(2, SERVER, CLIENT), tcp(3, CLIENT, SERVER)]) == {}
    assert seen([listener(1)], [tcp(3, CLIENT, SERVER)]) == {}
    assert seen([listener(1), tcp(2, Address("93.184.216.34", 9000))]) != {}


def test_both_ends_of_a_pair_are_its_own_though_nobody_listens_any_more() -> None:
    assert seen([tcp(2, SERVER, CLIENT), tcp(3, CLIENT, SERVER)]) == {}


def test_a_server_of_somebody_else_on_this_machine_counts() -> None:
    assert seen([listener(100), tcp(2, SERVER, CLIENT), tcp(101, CLIENT, SERVER)]) != {}


def test_udp_counts_if_it_lasts() -> None:
    quic = SystemSocket("udp", 1, OWN, ELSEWHERE)
    assert seen([quic]) == {}
    assert seen([quic], [quic]) == {Past("udp", ELSEWHERE, "agent"): 1}


def test_there_is_no_news_once_it_is_known_where_all_lead() -> None:
    tracker = BypassTracker(lambda address: False)
    tracker.take([tcp(1, ELSEWHERE)], {1: "agent"})
    assert not tracker.has_unknown({1: "agent"})
    assert tracker.has_unknown({1: "agent", 2: "agent"})
