"""What every command ends with: 0 held or done, 130 for Ctrl-C (``interrupts``), and these.

``USAGE`` and ``LAB_FAILED`` are EX_USAGE and EX_SOFTWARE of BSD's sysexits.h.
"""

DEVIATED = 1
UNKNOWN = 2
USAGE = 64
LAB_FAILED = 70
