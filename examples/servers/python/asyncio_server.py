"""A typical asyncio server for requests and responses of fixed sizes: one event loop, one protocol object per connection.

    python3 asyncio_server.py PORT REQUEST_BYTES RESPONSE_BYTES
"""

import asyncio
import sys


class FixedSizes(asyncio.Protocol):
    """Answers each whole request with one response. asyncio sets TCP_NODELAY, and forgets a connection that is reset."""

    def __init__(self, request_bytes: int, response: bytes) -> None:
        self.request_bytes = request_bytes
        self.response = response
        self.received = 0  # bytes of an incomplete request
        self.is_full = False
        self.is_at_end = False
        self.owed = 0  # responses that wait until the client has read earlier ones

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        # Pause once more than one response is buffered, so a client that does not read occupies memory for at most two.
        transport.set_write_buffer_limits(high=len(self.response))

    def data_received(self, data: bytes) -> None:
        requests, self.received = divmod(self.received + len(data), self.request_bytes)
        self.owed += requests
        self.answer()

    def answer(self) -> None:
        while self.owed and not self.is_full and not self.transport.is_closing():
            self.owed -= 1
            self.transport.write(self.response)
        if self.is_full:
            self.transport.pause_reading()

    def pause_writing(self) -> None:
        self.is_full = True

    def resume_writing(self) -> None:
        self.is_full = False
        self.answer()
        if not self.is_full and not self.transport.is_closing():
            if self.is_at_end:
                self.transport.close()
            else:
                self.transport.resume_reading()

    def eof_received(self) -> bool:
        # Keep a half-closed connection open until all its requests are answered.
        self.is_at_end = True
        return self.owed > 0


async def main() -> None:
    if len(sys.argv) != 4:
        sys.exit(f"usage: {sys.argv[0]} PORT REQUEST_BYTES RESPONSE_BYTES")
    port, request_bytes, response_bytes = map(int, sys.argv[1:])
    response = bytes(response_bytes)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: FixedSizes(request_bytes, response), "127.0.0.1", port, backlog=4096
    )
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
