"""Changes while clients connect"""

import threading

import pytest

ROUNDS = 40
CLIENTS = 4


def disable(api, rig):
    yield api("POST", f"/proxies/{rig.name}", {"enabled": False})
    yield api("POST", f"/proxies/{rig.name}", {"enabled": True})


def delete(api, rig):
    row = {"name": rig.name, "listen": rig.state.listen, "upstream": rig.state.upstream}
    yield api("DELETE", f"/proxies/{rig.name}")
    yield api("POST", "/proxies", row)


def populate(api, rig):
    """Populate with a row that differs each time, so that the proxy is replaced."""
    host, _, port = rig.state.upstream.rpartition(":")
    for name in (f"localhost:{port}", f"{host}:{port}"):
        yield api("POST", "/populate", [{"name": rig.name, "listen": rig.state.listen, "upstream": name}])


def move(api, rig):
    host, _, port = rig.state.upstream.rpartition(":")
    for name in (f"localhost:{port}", f"{host}:{port}"):
        yield api("POST", f"/proxies/{rig.name}", {"upstream": name})


def reset(api, rig):
    yield api("POST", f"/proxies/{rig.name}/toxics", {"type": "reset_peer", "attributes": {"timeout": 0}})
    yield api("POST", "/reset")


def remove_toxic(api, rig):
    path = f"/proxies/{rig.name}/toxics"
    yield api("POST", path, {"type": "timeout", "name": "toxic", "attributes": {"timeout": 0}})
    yield api("DELETE", f"{path}/toxic")


@pytest.mark.parametrize("change", [disable, delete, populate, move, reset, remove_toxic])
def test_change_succeeds_while_clients_connect(api, rig, change):
    """A change succeeds and loses no connection while clients connect"""
    stop, failures = threading.Event(), []

    def connect():
        """Wait for each connection's end or reply; one that the server lost times out."""
        while not stop.is_set():
            try:
                with rig.dial() as connection:
                    connection.sendall(b"?")
                    connection.recv(1)
            except ConnectionError:
                continue
            except OSError as error:
                failures.append(error)
                return

    clients = [threading.Thread(target=connect) for _ in range(CLIENTS)]
    for client in clients:
        client.start()
    try:
        answers = [answer for _ in range(ROUNDS) for answer in change(api, rig)]
    finally:
        stop.set()
        for client in clients:
            client.join()
    assert [answer for answer in answers if answer[0] >= 300] == []
    assert failures == []
    rig.dial_and_talk()
