"""Where the lab is: its programs and files, which are no part of the library.

A folder that ``wirefault init`` made is a lab of its own. Elsewhere the lab is the one that came with the
library: inside an installed one, as data, and beside that of a checkout. Standard library only, since the
build reads ``LAB_FILES``, too.
"""

from __future__ import annotations

from pathlib import Path

# written by ``wirefault init``: the folder that has it is a lab
MARKER = ".wirefault"
# inside an installed library; a checkout has none
CARRIED = "carried"
LAB_FILES = (
    *("agent", "experiments", "flask_tools", "proxy_manager", "charts.py"),
    *("docker-compose.yaml", "compose.direct.yaml", "compose.subject.yaml", "examples/compose"),
    *("Dockerfile", ".dockerignore", "requirements.lock"),
    *(".env.example", ".gitignore", "logs/.gitkeep", "state/.gitkeep"),
)
LIBRARY = Path(__file__).resolve().parents[1]


def lab_root() -> Path:
    """The folder that holds ``LAB_FILES``; relative, which is shorter in messages, if it is this one."""
    if Path(MARKER).exists():
        return Path()
    carried = LIBRARY / CARRIED
    root = carried if carried.exists() else LIBRARY.parent
    return Path() if root == Path.cwd() else root


def sample_prompts() -> Path:
    """The lab's own prompts file, which a run takes if no other one is named."""
    return lab_root() / "agent" / "prompts.json"


def program_of_folder() -> Path | None:
    """What runs the library of this folder, if the folder is a lab of its own and this library is another."""
    library = Path(LIBRARY.name).resolve()
    program = library / "lab" / "program.py"
    return program if Path(MARKER).exists() and library != LIBRARY and program.exists() else None
