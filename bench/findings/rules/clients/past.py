"""Open a connection that bypasses the proxy: past.py PROMPT HOW

``direct``: by a socket to a server of another program; ``own``: to a server of this program; ``proxied``: as
the proxy variables say (no bypass).
"""

import os
import socket
import sys
import threading
import time
from urllib.parse import urlsplit

import requests

how = sys.argv[2]
shop = urlsplit(os.environ["SHOP_DIRECT"]) if "SHOP_DIRECT" in os.environ else None
if how == "proxied":
    requests.get(f"{os.environ['SHOP_URL']}/price", timeout=30)
elif how == "own":
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=lambda: time.sleep(0.5) or server.accept())
        thread.start()
        with socket.create_connection(server.getsockname()):
            time.sleep(0.7)
        thread.join()
else:
    with socket.create_connection((shop.hostname, shop.port)) as connection:
        connection.sendall(b"GET /price HTTP/1.1\r\nHost: shop\r\n\r\n")
        connection.recv(1000)
        time.sleep(0.7)
print("The price has been looked up.")
