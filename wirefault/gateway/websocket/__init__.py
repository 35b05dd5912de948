"""WebSocket connections: their messages, and the faults that act on them."""
