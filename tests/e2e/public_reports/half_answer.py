"""Takes what came over a WebSocket before its end as the answer."""

import asyncio
import json
import sys

import websockets


async def main():
    text = ""
    async with websockets.connect(sys.argv[1].replace("http", "ws") + sys.argv[2], proxy=None) as socket:
        await socket.send(json.dumps({"type": "response.create", "model": "m", "input": "total?"}))
        try:
            async for message in socket:
                text += json.loads(message).get("delta", "")
        except websockets.ConnectionClosed:
            pass
    print(text.strip())


asyncio.run(main())
