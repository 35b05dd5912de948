"""The ports of a lab that no wiring names."""

MANAGER_PORT = 8000
CONTROL_PORT = 7070
TOXIPROXY_PORT = 8474
