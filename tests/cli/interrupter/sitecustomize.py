"""Send SIGINT at the imports of a process, each time to a copy forked for it.

The process forks at every import, or at every INTERRUPT_EVERY-th. The copy gets the signal and continues; its
exit code and standard error go to the file INTERRUPTED, together with the import. The process itself gets no
signal, so one run shows Ctrl-C at all imports.
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
    _forking = True  # for the rest of the copy: its own imports do not matter
    if (copy := os.fork()) == 0:
        os.dup2(os.open(_REPORT + ".stderr", os.O_RDWR | os.O_CREAT | os.O_TRUNC), 2)
        os.kill(os.getpid(), signal.SIGINT)
        return  # into the import, for who has caught the signal or waits for a better moment
    _, status = os.waitpid(copy, 0)
    with open(_REPORT + ".stderr") as errors, open(_REPORT, "a") as report:  # noqa: PTH123
        report.write(f"{arguments[0]}\t{os.waitstatus_to_exitcode(status)}\t{errors.read()!r}\n")
    _forking = False


sys.addaudithook(_hook)
