"""``python -m agent``: hands over to ``wirefault run``, which sends the prompts to this agent."""

import sys

from wirefault.core.interrupts import end_at_interrupt, hand_over

if __name__ == "__main__":
    end_at_interrupt(of_background_job=True)
    command = [sys.executable, "-m", "wirefault", "run", *sys.argv[1:]]
    hand_over(command)  # one process: signals and open files stay
