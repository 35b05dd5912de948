"""``python -m agent``: hands over to ``windtunnel run``, which sends the prompts to this agent."""

import sys

from windtunnel.core.interrupts import end_at_interrupt, hand_over

if __name__ == "__main__":
    end_at_interrupt()
    command = [sys.executable, "-m", "windtunnel", "run", "--subject", "agent.subject:open_subject"]
    hand_over([*command, *sys.argv[1:]])  # one process: signals and open files stay
