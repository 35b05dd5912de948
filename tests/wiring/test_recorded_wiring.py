"""The wiring that ``wirefault exec --record`` writes can be flown."""

from __future__ import annotations

from wirefault.wiring.found import found_link
from wirefault.wiring.link import Link
from wirefault.wiring.recorded_wiring import recorded_wiring
from wirefault.wiring.subject_spec import CommandSpec
from wirefault.wiring.wiring import load_wiring

COMMAND = CommandSpec(command=["python", "agent.py", "{prompt}"], folder=".", show=True)


def test_it_reads_as_the_links_that_were_found(tmp_path):
    found = [
        found_link("api.openai.com", 443, "https", ()),
        found_link("api.anthropic.com", 443, "https", (), scripted=True),
        found_link("shop.example.com", 8443, "https", ()),
        found_link("127.0.0.1", 9000, "http", ()),
    ]
    path = tmp_path / "wiring.yaml"
    path.write_text(recorded_wiring(found, {"tap": "proxy"}, COMMAND))
    wiring = load_wiring(path)
    assert wiring.subject == COMMAND
    key = lambda link: (link.name, link.upstream, link.dialect, link.hosts)  # noqa: E731
    assert [key(link) for link in wiring.links] == [key(link) for link in found]
    assert wiring.intercept is not None and wiring.intercept.tap == "proxy"
    assert wiring.links.grows and isinstance(wiring.links["port_9000"], Link)
