"""``python -m agent``: start ``wirefault run --lab``, which sends the prompts to this agent."""

import sys

from wirefault.core.interrupts import end_at_interrupt, hand_over

if __name__ == "__main__":
    end_at_interrupt(in_background=True)
    command = [sys.executable, "-m", "wirefault", "run", "--lab", *sys.argv[1:]]
    hand_over(command)  # the same process, with its signals and open files
