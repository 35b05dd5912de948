"""``python -m agent``: hands over to ``windtunnel run``, which sends the prompts to this agent."""

import os
import sys

if __name__ == "__main__":
    hand_over = [sys.executable, "-m", "windtunnel", "run"]
    os.execv(sys.executable, [*hand_over, *sys.argv[1:]])  # one process: signals and open files stay
