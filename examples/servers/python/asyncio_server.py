"""A typical asyncio server: one event loop, one protocol object per connection.

    python3 asyncio_server.py fixed PORT REQUEST_BYTES RESPONSE_BYTES
    python3 asyncio_server.py stream PORT PACKET_BYTES PACKETS ACK_BYTES
    python3 asyncio_server.py http PORT

`stream` acknowledges bursts of packets. A burst that begins with a zero byte has one packet. `http` answers /bytes/N.
"""

import asyncio
import sys

BODY_BYTES_MAX = 64 << 20


class Answering(asyncio.Protocol):
    """Answers each request with one response. asyncio sets TCP_NODELAY, and forgets a connection that is reset."""

    def __init__(self, buffered_bytes_max: int) -> None:
        self.buffered_bytes_max = buffered_bytes_max
        self.is_full = False
        self.is_at_end = False
        self.owed = []  # responses that wait until the client has read earlier ones

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        # Pause once more than one response is buffered, so a client that does not read occupies memory for at most two.
        transport.set_write_buffer_limits(high=self.buffered_bytes_max)

    def responses(self, data: bytes) -> list:
        """Returns the responses to the requests that these bytes complete."""
        raise NotImplementedError

    def data_received(self, data: bytes) -> None:
        self.owed.extend(self.responses(data))
        self.answer()

    def answer(self) -> None:
        answered = 0
        while answered < len(self.owed) and not self.is_full and not self.transport.is_closing():
            self.transport.write(self.owed[answered])
            answered += 1
        del self.owed[:answered]
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
        return bool(self.owed)


class Sizes(Answering):
    """Requests of known sizes. One that begins with a zero byte has a size of its own."""

    def __init__(self, request_bytes: int, greeting_bytes: int, response: bytes) -> None:
        super().__init__(len(response))
        self.request_bytes = request_bytes
        self.greeting_bytes = greeting_bytes
        self.response = response
        self.left = 0  # missing bytes of a request that has begun

    def responses(self, data: bytes) -> list:
        complete, at = 0, 0
        while at < len(data):
            if self.left == 0:
                self.left = self.greeting_bytes if data[at] == 0 else self.request_bytes
            taken = min(self.left, len(data) - at)
            self.left -= taken
            at += taken
            complete += self.left == 0
        return [self.response] * complete


class Http(Answering):
    """GET requests on persistent connections."""

    def __init__(self) -> None:
        super().__init__(1 << 20)
        self.rest = b""

    def responses(self, data: bytes) -> list:
        *requests, self.rest = (self.rest + data).split(b"\r\n\r\n")
        return [self.response(request) for request in requests]

    @staticmethod
    def response(request: bytes) -> bytes:
        words = request.split(b" ", 2)
        count = words[1][len(b"/bytes/") :] if len(words) == 3 and words[1].startswith(b"/bytes/") else b""
        if words[0] != b"GET" or not count.isdigit() or int(count) > BODY_BYTES_MAX:
            return b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
        return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % int(count) + bytes(int(count))


async def main() -> None:
    service, *numbers = sys.argv[1:] or [""]
    numbers = [int(text) for text in numbers]
    if service == "fixed" and len(numbers) == 3:
        port, request_bytes, response_bytes = numbers
        response = bytes(response_bytes)
        protocol = lambda: Sizes(request_bytes, request_bytes, response)
    elif service == "stream" and len(numbers) == 4:
        port, packet_bytes, packets, ack_bytes = numbers
        ack = bytes(ack_bytes)
        protocol = lambda: Sizes(packet_bytes * packets, packet_bytes, ack)
    elif service == "http" and len(numbers) == 1:
        port = numbers[0]
        protocol = Http
    else:
        sys.exit(__doc__)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(protocol, "127.0.0.1", port, backlog=4096)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
