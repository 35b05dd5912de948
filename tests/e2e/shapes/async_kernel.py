"""An async loop without retries that ends with its exception. Arguments: the model's address, the shop's."""

import asyncio
import json
import sys

from aiohttp import ClientSession, ClientTimeout
from openai import AsyncOpenAI

MODEL, SHOP = sys.argv[1:]


async def main() -> None:
    client = AsyncOpenAI(base_url=MODEL, api_key="unused", timeout=5, max_retries=0)
    messages: list = [{"role": "user", "content": "Order two mugs"}]
    async with ClientSession(raise_for_status=True, timeout=ClientTimeout(5)) as session:
        while True:
            message = (await client.chat.completions.create(model="m", messages=messages)).choices[0].message
            if not message.tool_calls:
                print(message.content)
                return
            messages.append(message.model_dump(exclude_none=True))
            for call in message.tool_calls:
                if call.function.name == "get_price":
                    request = session.get(f"{SHOP}/price")
                else:
                    request = session.post(f"{SHOP}/orders", json=json.loads(call.function.arguments))
                async with request as reply:
                    text = await reply.text()
                messages.append({"role": "tool", "tool_call_id": call.id, "content": text})


asyncio.run(main())
