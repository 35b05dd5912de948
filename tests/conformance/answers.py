"""Answers of the API that several tests expect."""

NO_PROXY = (404, {"error": "proxy not found", "status": 404})
NO_TOXIC = (404, {"error": "toxic not found", "status": 404})
BAD_BODY = "bad request body"
MALFORMED = (
    *("", "x", "é", "{", "{,", '{"a" 1', '{"a":1 "', "[1 2", "nil", "-x", "1.", '"\n', r'"\x', r'"\u12g'),
    *("1", '"a"', "[]"),
)


def refusal(answer):
    """Status and error text of a refusal; for invalid bodies each server has its own words."""
    status, body = answer
    assert body["status"] == status
    return status, BAD_BODY if body["error"].startswith(f"{BAD_BODY}: ") else body["error"]
