"""Every command of the README runs from the installed wheel, in a folder of ``lab init``."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.e2e.reader import own_network, page_blocks, shell, typed
from tests.e2e.test_pages import PROMISES, SERVER, SHOP_PORT
from tests.package.installing import MARKS, Environment
from tests.support import ROOT, required

pytestmark = MARKS
PAGE = "README.md"
# they build, test or contain the lab in a clone
_NEEDS_CLONE = re.compile(r"(\w+=\S+ )?(make|pipx|docker) .*")


def test_readme_commands_run_from_wheel(installed: Environment, tmp_path: Path) -> None:
    network = own_network()
    if not network:
        (pytest.fail if required("namespaces") else pytest.skip)("the README needs ports that others may use")
    installed.must_run(tmp_path, "lab", "init", "lab")
    # the README's shop is the reader's own server; the wheel has no examples
    shutil.copytree(ROOT / "examples" / "shop", tmp_path / "lab" / "examples" / "shop")
    (tmp_path / "outputs").mkdir()
    commands = [line for block in page_blocks(PAGE) for line in block.commands]
    open_promises = [one for one in PROMISES[PAGE] if not _NEEDS_CLONE.fullmatch(one.command)]
    environ = {"HOME": str(tmp_path), "PATH": f"{installed.path}/bin:/usr/bin:/bin", "PYTHONPATH": ""}
    with shell(tmp_path / "lab", tmp_path / "outputs", network, environ) as opened:
        for command in commands:
            if _NEEDS_CLONE.fullmatch(typed(command)):
                continue
            code, output = opened.run(command)
            promise = open_promises.pop(0)
            assert typed(command).startswith(promise.command)
            assert code == promise.code, f"{command}\n{output}"
            for pattern in promise.patterns:
                assert re.search(pattern, output, re.MULTILINE), f"no {pattern!r} in {command}\n{output}"
            if SERVER.fullmatch(typed(command)):
                opened.wait_for_port(SHOP_PORT)
    assert open_promises == []
