"""Contents of the wheel and of the source distribution."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from email.parser import BytesParser
from pathlib import Path, PurePosixPath
from zipfile import ZipFile

from packaging.metadata import Metadata

from tests.package.installing import MARKS
from tests.support import ROOT
from tools.build import _tags, tagged_version
from wirefault._version import __version__
from wirefault.core.lab_folder import CARRIED, LAB_FILES

pytestmark = MARKS


def lab_files() -> set[str]:
    """Every file of the lab in this checkout."""
    paths = [path for name in LAB_FILES for path in (ROOT / name, *(ROOT / name).rglob("*"))]
    return {str(path.relative_to(ROOT)) for path in paths if path.is_file() and path.suffix != ".pyc"}


def test_wheel_has_one_package_with_library_and_lab(wheel: Path) -> None:
    names = [PurePosixPath(name) for name in ZipFile(wheel).namelist()]
    packages = {name.parts[0] for name in names if not name.parts[0].endswith(".dist-info")}
    assert packages == {"wirefault"}
    lab = f"wirefault/{CARRIED}/"
    assert {str(name).removeprefix(lab) for name in names if str(name).startswith(lab)} == lab_files()
    library = {str(path.relative_to(ROOT)) for path in (ROOT / "wirefault").rglob("*") if path.is_file()}
    assert {name for name in library if not name.endswith(".pyc")} <= set(map(str, names))


def test_source_distribution_has_all_wheel_sources(dist: Path) -> None:
    [file] = dist.glob("*.tar.gz")
    with tarfile.open(file) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert names >= {*lab_files(), "pyproject.toml", "setup.py", "README.md", "wirefault/__main__.py"}
    assert not [name for name in names if name.startswith(("tests/", ".venv/", "state/s", "logs/r"))]


def test_metadata_is_valid_for_index(wheel: Path) -> None:
    archive = ZipFile(wheel)
    [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
    metadata = Metadata.from_email(archive.read(name), validate=True)  # raises for any error
    assert metadata.name == "wirefault" and metadata.requires_python == ">=3.11"
    assert metadata.description_content_type == "text/markdown" and metadata.description
    assert metadata.provides_extra and "lab" in metadata.provides_extra
    scripts = archive.read(name.replace("METADATA", "entry_points.txt")).decode()
    assert scripts.startswith("[console_scripts]\nwirefault = ")
    assert BytesParser().parsebytes(archive.read(name.replace("METADATA", "WHEEL")))["Tag"] == "py3-none-any"


def test_index_would_accept_both_files(dist: Path) -> None:
    files = [str(path) for path in (*dist.glob("*.whl"), *dist.glob("*.tar.gz"))]
    done = subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", *files], capture_output=True, text=True
    )
    assert done.returncode == 0 and done.stdout.count("PASSED") == len(files) == 2, done.stdout + done.stderr


def test_version_is_the_tag_or_the_one_in_the_checkout(wheel: Path) -> None:
    expected = tagged_version(_tags()) or __version__
    assert wheel.name == f"wirefault-{expected}-py3-none-any.whl"
    assert f'"{expected}"' in ZipFile(wheel).read("wirefault/_version.py").decode()
