"""An embedded Toxiproxy server: the HTTP API of 2.12 and its behaviour on the wire, on asyncio.

``python -m wirefault.toxiproxy.embedded``. One conformance suite checks it against the real server.
"""
