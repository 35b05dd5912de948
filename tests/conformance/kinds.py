"""The kinds of toxics that both servers have and the suite compares."""

from wirefault.toxiproxy.toxics import SERVER_TOXICS, TOXICS

COMPARED = [toxic for toxic in SERVER_TOXICS.values() if toxic.in_toxiproxy]
# A noop does nothing, so it has no module of tests.
WITH_MODULE = [toxic.kind for toxic in COMPARED if toxic in TOXICS]
