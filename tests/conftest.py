"""For all tests."""

import signal

from hypothesis import HealthCheck, settings

# A job in the background of a shell without job control is started with SIGINT ignored, and so is what it
# starts: the tests of Ctrl-C would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# how long something takes is the machine's affair, and no test's
settings.register_profile("lab", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("lab")
