"""Repeats a step of two parallel requests whole when one of them fails."""

import asyncio
import sys

import httpx


async def call(client, method, path):
    reply = await client.request(method, sys.argv[1] + path, json={"item": "tea"})
    reply.raise_for_status()


async def main():
    async with httpx.AsyncClient(timeout=30) as client:
        for _ in range(3):
            try:
                calls = call(client, "POST", "/orders"), call(client, "PUT", "/notes")
                for result in await asyncio.gather(*calls, return_exceptions=True):
                    if result is not None:
                        raise result
                print("ordered and noted")
                return
            except httpx.HTTPError as error:
                print("again:", error)


asyncio.run(main())
