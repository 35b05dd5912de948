"""The entry point of ``wirefault`` and ``python -m wirefault``.

Handles Ctrl-C first and imports everything else after that.
"""

from wirefault.core.interrupts import collect_seldom, end_at_interrupt, end_quickly, hand_over


def main() -> None:
    """Run the command line; in a folder made by `init`, with that folder's library."""
    import sys  # already imported

    # a run must heal its lab when Ctrl-C ends it, so that also background jobs handle it
    end_at_interrupt(in_background=sys.argv[1:2] in (["demo"], ["run"], ["lab"]))
    collect_seldom()
    from wirefault.core.lab_folder import folder_program

    program = folder_program()
    if program:
        hand_over([sys.executable, "-P", str(program), "wirefault", *sys.argv[1:]])
    from wirefault.cli.main import main as run_command_line

    try:
        run_command_line()
    except OSError as error:
        from wirefault.core.errors import LAB_FAILED, resource_problem

        problem = resource_problem(error)  # such as an output on a full disk
        if not problem:
            raise
        sys.stderr.write(f"error: {problem}\n")
        sys.exit(LAB_FAILED)
    finally:
        end_quickly()


if __name__ == "__main__":
    main()
