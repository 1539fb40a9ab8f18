"""An ASGI application, for uvicorn and similar servers. It responds to /bytes/N with N bytes."""

bodies = {}


def body(path):
    """The content of a path; None if it is not /bytes/N."""
    number = path.removeprefix("/bytes/")
    if path != f"/bytes/{number}" or not number.isascii() or not number.isdigit() or len(number) > 8:
        return None
    if path not in bodies:
        bodies[path] = b"x" * int(number)
    return bodies[path]


async def app(scope, receive, send):
    if scope["type"] != "http":
        return
    content = body(scope["path"])
    status, content = (404, b"") if content is None else (200, content)
    length = str(len(content)).encode()
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-length", length)]})
    await send({"type": "http.response.body", "body": content})
