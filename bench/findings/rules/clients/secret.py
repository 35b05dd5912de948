"""Ask a model on another machine, then call a server with a key.

secret.py PROMPT LINK PATH KEY [VIA]: KEY is ``same``, ``if-refused`` (the same if the model refuses it) or
another key.
"""

import sys

from calling import Failed, call

link, path, key, via = (*sys.argv[2:], "requests")[:4]
body = {"model": "gpt-5", "messages": [{"role": "user", "content": sys.argv[1]}]}
refused = False
try:
    call("remote", "/chat/completions", body, headers={"Authorization": "Bearer model-key"}, via=via)
except Failed:
    refused = True
same = key == "same" or (key == "if-refused" and refused)
bearer = {"Authorization": f"Bearer {'model-key' if same else key}"}
call(link, path, body if path.endswith("completions") else None, headers=bearer, via=via)
print("The price has been looked up.")
