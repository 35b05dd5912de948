"""Sends SIGINT at the imports of the process on whose path it is, each to a copy made just for that.

At every import, or every so many as INTERRUPT_EVERY says, the process forks. The copy gets the signal and
goes on; how it ends and what it says on standard error stand in the file INTERRUPTED, beside the import. The
process itself never gets a signal: one flight shows what Ctrl-C does at all of them.
"""

import os
import signal
import sys

_EVERY = int(os.environ["INTERRUPT_EVERY"])
_REPORT = os.environ["INTERRUPTED"]
_imports = 0
_forking = False


def _hook(event, arguments):
    global _imports, _forking
    if event != "import" or _forking:
        return
    _imports += 1
    if _imports % _EVERY:
        return
    _forking = True  # for ever in the copy: what it imports is of no interest
    if (copy := os.fork()) == 0:
        os.dup2(os.open(_REPORT + ".stderr", os.O_RDWR | os.O_CREAT | os.O_TRUNC), 2)
        os.kill(os.getpid(), signal.SIGINT)
        return  # into the import, for who has caught the signal or waits for a better moment
    _, status = os.waitpid(copy, 0)
    with open(_REPORT + ".stderr") as errors, open(_REPORT, "a") as report:  # noqa: PTH123
        report.write(f"{arguments[0]}\t{os.waitstatus_to_exitcode(status)}\t{errors.read()!r}\n")
    _forking = False


sys.addaudithook(_hook)
