"""The message if the lab's requirements are not installed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from wirefault.lab.extra import NotInstalled, require_charts, require_lab, require_packages
from wirefault.wiring.spec_file import SpecFile
from wirefault.wiring.wiring import Wiring, build_wiring, lab_wiring


def metadata(folder: Path, origin: str = "") -> None:
    """An installation of the package that needs two distributions more, one of which is there."""
    information = folder / "wirefault-9.dist-info"
    information.mkdir()
    needs = (
        "click>=8",
        'pytest>=1 ; extra == "lab"',
        'no-such-thing>=1; extra == "lab"',
        'x; extra == "dev"',
    )
    lines = [
        "Metadata-Version: 2.4",
        "Name: wirefault",
        "Version: 9",
        *map("Requires-Dist: {}".format, needs),
    ]
    (information / "METADATA").write_text("\n".join(lines) + "\n", encoding="utf-8")
    if origin:
        (information / "direct_url.json").write_text(origin, encoding="utf-8")


@pytest.mark.parametrize(
    ("origin", "requirement"),
    [
        ("", "'wirefault[lab]'"),
        ('{"url": "file:///a%20b/w.whl"}', "'wirefault[lab] @ file:///a%20b/w.whl'"),
        (
            '{"url": "https://git.example/w", "vcs_info": {"vcs": "git"}}',
            "'wirefault[lab] @ git+https://git.example/w'",
        ),
    ],
)
def test_missing_packages_are_named_with_install_command(
    origin: str, requirement: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    metadata(tmp_path, origin)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(NotInstalled) as raised:
        require_lab()
    command = f"{sys.executable} -m pip install {requirement}"
    assert str(raised.value) == f"the lab needs no-such-thing: {command}"


def test_complete_installation_passes() -> None:
    require_lab()


@pytest.fixture
def core_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    metadata(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)


def wired(upstream: str) -> Wiring:
    data = {"links": {"search": {"upstream": upstream}}, "subject": {"command": ["agent", "{prompt}"]}}
    return build_wiring(SpecFile("w.yaml", data), Path())


FOREIGN = wired("http://127.0.0.1:9000")


@pytest.mark.usefixtures("core_only")
@pytest.mark.parametrize("subject", ["", "mine:agent"])
def test_foreign_agent_needs_no_extra_package(subject: str) -> None:
    require_packages(FOREIGN, subject)


@pytest.mark.usefixtures("core_only")
@pytest.mark.parametrize(
    ("wiring", "subject"),
    [(lab_wiring(), ""), (lab_wiring(), "mine:agent"), (FOREIGN, "lab"), (wired("lab"), "")],
    ids=["lab", "tools of the lab", "agent of the lab", "tool of the lab"],
)
def test_agent_and_tools_of_lab_need_extra(wiring: Wiring, subject: str) -> None:
    with pytest.raises(NotInstalled, match="the lab needs no-such-thing"):
        require_packages(wiring, subject)


@pytest.mark.usefixtures("core_only")
def test_charts_need_their_own_packages_only() -> None:
    require_charts()  # this extra names no matplotlib
