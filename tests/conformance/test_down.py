"""Disabled, moved and deleted proxies"""

import pytest

from tests.conformance.wire import LONG_MS
from tests.support import until


def test_disabled_proxy_refuses_and_closes_until_enabled(rig):
    connection = rig.dial_and_talk()
    assert rig.client.set_enabled(rig.name, False).enabled is False
    assert connection.ending() in ("closed", "reset")
    with pytest.raises(ConnectionRefusedError):
        rig.dial()
    assert rig.client.set_enabled(rig.name, True).listen == rig.state.listen
    rig.dial_and_talk()


def test_disabling_drops_data_held_by_latency(rig):
    rig.add("latency", "upstream", latency=LONG_MS)
    connection = rig.dial()
    connection.sendall(b"write")
    assert connection.see() == "silence"
    rig.client.set_enabled(rig.name, False)
    until(lambda: rig.upstream.ends)
    assert rig.upstream.all_received == b""


def test_toxics_survive_disabling(rig):
    rig.add("timeout", "upstream", timeout=0)
    rig.client.set_enabled(rig.name, False)
    rig.client.set_enabled(rig.name, True)
    connection = rig.dial()
    connection.sendall(b"hi")
    assert connection.see() == "silence"


def test_deleting_proxy_closes_its_connections(rig):
    connection = rig.dial_and_talk()
    rig.client.delete_proxy(rig.name)
    assert connection.ending() in ("closed", "reset")
    with pytest.raises(ConnectionRefusedError):
        rig.dial()


def test_new_upstream_closes_connections_to_old_one(rig):
    connection = rig.dial_and_talk()
    rig.client.ensure_proxy(rig.name, rig.state.listen, "127.0.0.1:9")
    assert connection.ending() in ("closed", "reset")
