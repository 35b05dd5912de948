"""Answers one prompt with Google's SDK, which calls two functions of the shop automatically."""

import os
import sys

import requests
from google import genai

SHOP = os.environ["SHOP_URL"]


def get_price(item: str) -> str:
    """Get the price of an item in the shop."""
    try:
        return requests.get(f"{SHOP}/price", params={"item": item}, timeout=5).text
    except requests.RequestException as error:
        return f"error: {error}"


def order_item(item: str, count: int) -> str:
    """Order an item of the shop."""
    try:
        return requests.post(f"{SHOP}/orders", json={"item": item, "count": count}, timeout=5).text
    except requests.RequestException as error:
        return f"error: {error}"


# it finds its address in GOOGLE_GEMINI_BASE_URL
with genai.Client(http_options={"timeout": 20_000, "retry_options": {"attempts": 3}}) as client:
    reply = client.models.generate_content(
        model="gemini-2.5-flash", contents=sys.argv[1], config={"tools": [get_price, order_item]}
    )
print(reply.text)
