"""Tries each of its functions three times, also the one that must not be repeated."""

import wirefault


@wirefault.tool(writes=True)
def send_email(to: str) -> dict[str, str]:
    return {"sent": to}


@wirefault.tool
def get_price(item: str) -> dict[str, float]:
    return {item: 3.5}


def execute(function, word):
    for _ in range(3):
        try:
            return function(word)
        except OSError as error:
            print("again:", error)
    raise RuntimeError("failed")


execute(get_price, "tea")
print("Mail sent:", execute(send_email, "ann@example.test"))
