"""Answers of the API that several tests expect."""

NO_PROXY = (404, {"error": "proxy not found", "status": 404})
NO_TOXIC = (404, {"error": "toxic not found", "status": 404})
UNSUITABLE = [
    (body, f"bad request body: {error}")
    for body, error in (
        ("", "EOF"),
        ("x", "invalid character 'x' looking for beginning of value"),
        ("é", "invalid character 'Ã' looking for beginning of value"),
        ("{", "unexpected EOF"),
        ("{,", "invalid character ',' looking for beginning of object key string"),
        ('{"a" 1', "invalid character '1' after object key"),
        ('{"a":1 "', "invalid character '\"' after object key:value pair"),
        ("[1 2", "invalid character '2' after array element"),
        ("nil", "invalid character 'i' in literal null (expecting 'u')"),
        ("-x", "invalid character 'x' in numeric literal"),
        ("1.", "unexpected EOF"),
        ('"\n', r"invalid character '\n' in string literal"),
        (r'"\x', "invalid character 'x' in string escape code"),
        (r'"\u12g', r"invalid character 'g' in \u hexadecimal character escape"),
    )
]
