"""The ports of a lab that no wiring names."""

MANAGER_PORT = 8000
CONTROL_PORT = 7070
FRONT_PORT = 7100
TOXIPROXY_PORT = 8474
