"""A small shop that keeps its orders in SQLite: python shop.py [--background] [PORT [FILE]]

A repetition is known by the header Idempotency-Key, or by the order's own order_id: it is not a second order.
"""

import os
import socket
import sqlite3
import sys
from contextlib import closing

from flask import Flask, request
from werkzeug.serving import make_server

PRICES = {"green tea": 4.5, "teapot": 29.0, "honey": 6.25}
COLUMNS = "id, item, count, customer"


def create_app(file: str) -> Flask:
    app = Flask("shop")

    def run(statement: str, *values: object) -> list[dict[str, object]]:
        with closing(sqlite3.connect(file, timeout=10)) as database, database:
            database.row_factory = sqlite3.Row
            return [dict(row) for row in database.execute(statement, values)]

    columns = "id INTEGER PRIMARY KEY, item TEXT, count INTEGER, customer TEXT, key TEXT UNIQUE"
    run(f"CREATE TABLE IF NOT EXISTS orders ({columns})")

    @app.get("/price")
    def price():
        item = request.args.get("item", "")
        if item not in PRICES:
            return {"error": f"we do not sell {item!r}"}, 404
        return {"item": item, "price": PRICES[item], "currency": "EUR"}

    @app.get("/orders")
    def orders():
        return run(f"SELECT {COLUMNS} FROM orders ORDER BY id")

    @app.post("/orders")
    def order():
        body = request.get_json()
        item, count = (body.get("item"), body.get("count", 1)) if isinstance(body, dict) else (None, 1)
        if item not in PRICES or not isinstance(count, int) or count < 1:
            return {"error": f"that cannot be ordered: {body}"}, 422
        key = request.headers.get("Idempotency-Key") or body.get("order_id")
        insert = f"INSERT OR IGNORE INTO orders VALUES (NULL, ?, ?, ?, ?) RETURNING {COLUMNS}"
        added = run(insert, item, count, body.get("customer"), key)
        return (added or run(f"SELECT {COLUMNS} FROM orders WHERE key = ?", key))[0], 201

    @app.delete("/orders/<int:number>")
    def cancel(number: int):
        gone = run("DELETE FROM orders WHERE id = ? RETURNING id", number)
        return ("", 204) if gone else ({"error": f"unknown order {number}"}, 404)

    return app


def serve(port: int, file: str, background: bool) -> None:
    try:
        listener = socket.create_server(("127.0.0.1", port))
    except OSError as error:
        sys.exit(
            f"port {port}: {os.strerror(error.errno or 0)}. Stop the program that has it, or start the shop"
            f" on a free port (shop.py {port + 1}) and use that one in what follows."
        )
    server = make_server("127.0.0.1", port, create_app(file), threaded=True, fd=listener.fileno())
    if background and (process := os.fork()):
        print(f"the shop is at http://127.0.0.1:{port} (to end it: kill {process})", flush=True)
        os._exit(0)
    server.serve_forever()


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if word != "--background"]
    serve(int(words[0]) if words else 9000, words[1] if words[1:] else "shop.db", "--background" in sys.argv)
