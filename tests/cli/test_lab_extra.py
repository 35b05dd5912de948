"""What is said where the lab's requirements were not installed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from wirefault.cli.lab_extra import LabNotInstalled, require_lab


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
    with pytest.raises(LabNotInstalled) as raised:
        require_lab()
    command = f"{sys.executable} -m pip install {requirement}"
    assert raised.value.message == f"the lab needs no-such-thing: {command}"
    assert raised.value.exit_code == 70


def test_complete_installation_passes() -> None:
    require_lab()
