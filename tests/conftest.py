"""For all tests."""

import signal

# A job in the background of a shell without job control is started with SIGINT ignored, and so is what it
# starts: the tests of Ctrl-C would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
