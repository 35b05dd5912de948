"""The entry point of ``windtunnel`` and ``python -m windtunnel``.

It takes care of Ctrl-C first: everything else is imported after that.
"""

from windtunnel.core.interrupts import end_at_interrupt


def main() -> None:
    """Runs the command that the command line names."""
    end_at_interrupt()
    from windtunnel.cli.main import main as run_command_line

    run_command_line()


if __name__ == "__main__":
    main()
