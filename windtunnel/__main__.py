"""The entry point of ``windtunnel`` and ``python -m windtunnel``."""

import os
import sys


def main() -> None:
    """Runs the command that the command line names; in a folder of `init`'s with its library."""
    from windtunnel.core.lab_files import program_of_folder

    program = program_of_folder()
    if program:
        os.execv(sys.executable, [sys.executable, "-P", str(program), "windtunnel", *sys.argv[1:]])
    from windtunnel.cli.main import main as run_command_line

    run_command_line()


if __name__ == "__main__":
    main()
