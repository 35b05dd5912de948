"""The entry point of ``wirefault`` and ``python -m wirefault``.

It takes care of Ctrl-C first: everything else is imported after that.
"""

from wirefault.core.interrupts import end_at_interrupt, end_quickly, hand_over


def main() -> None:
    """Runs the command that the command line names; in a folder of `init`'s with its library."""
    import sys  # is there already

    # Ctrl-C ends a flight at any moment, whoever started it: its lab is to be healed then
    end_at_interrupt(of_background_job=sys.argv[1:2] in (["demo"], ["run"], ["lab"]))
    from wirefault.core.lab_folder import folder_program

    program = folder_program()
    if program:
        hand_over([sys.executable, "-P", str(program), "wirefault", *sys.argv[1:]])
    from wirefault.cli.main import main as run_command_line

    try:
        run_command_line()
    finally:
        end_quickly()


if __name__ == "__main__":
    main()
