"""Repeats a refund after a lost reply. Each try has a new key in its body."""

import sys
import uuid

import httpx

for _ in range(3):
    try:
        order = {"refund": 17, "idempotency_key": str(uuid.uuid4())}
        print("Refunded:", httpx.post(sys.argv[1] + "/orders", json=order, timeout=30).json()["id"])
        break
    except httpx.HTTPError as error:
        print("again:", error)
