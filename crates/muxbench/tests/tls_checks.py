"""Checks a server of the service `fixed` over TLS with OpenSSL. Arguments: port, file with its certificate, sizes of request and
response. Prints the number of requests, and that of failed connections."""

import socket
import ssl
import sys

PORT, CERTIFICATE, REQUEST, RESPONSE = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])


class Client:
    """A connection that moves its encrypted bytes itself."""

    requests = 0

    def __init__(self, context, session=None, piece=1 << 20):
        self.socket = socket.create_connection(("127.0.0.1", PORT), timeout=120)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.piece = piece
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname="localhost", session=session)
        self.run(self.tls.do_handshake)

    def run(self, act):
        """Calls `act` until it needs no more bytes, and sends what it writes in pieces."""
        while True:
            needs_bytes, result = False, None
            try:
                result = act()
            except ssl.SSLWantReadError:
                needs_bytes = True
            encrypted = self.outgoing.read()
            for at in range(0, len(encrypted), self.piece):
                self.socket.sendall(encrypted[at : at + self.piece])
            if not needs_bytes:
                return result
            received = self.socket.recv(1 << 18)
            if received:
                self.incoming.write(received)
            else:
                self.incoming.write_eof()

    def send(self, size):
        self.run(lambda: self.tls.write(bytes([1]) * size))

    def request(self, count=1):
        self.send(count * REQUEST)
        Client.requests += count

    def read(self, size):
        while size > 0:
            content = self.run(lambda: self.tls.read(min(size, 1 << 16)))
            assert content, f"the server ended {size} bytes before the end of its responses"
            size -= len(content)

    def announce_end(self):
        """Announces the end, and does not wait for that of the server."""
        try:
            self.tls.unwrap()
        except ssl.SSLWantReadError:
            pass
        self.socket.sendall(self.outgoing.read())

    def has_ended(self):
        """Reads the announced end of the server, and the end of its stream."""
        try:
            is_announced = self.run(lambda: self.tls.read(1)) == b""
        except ssl.SSLZeroReturnError:
            is_announced = True
        return is_announced and self.socket.recv(1) == b""


def trusting():
    return ssl.create_default_context(cafile=CERTIFICATE)


def records_in_single_bytes_are_answered():
    client = Client(trusting(), piece=1)
    client.request()
    client.read(RESPONSE)


def pipelined_requests_are_answered():
    client = Client(trusting())
    client.request(3)
    client.send(REQUEST - 1)
    client.read(3 * RESPONSE)
    client.send(1)
    Client.requests += 1
    client.read(RESPONSE)


def announced_end_follows_the_responses():
    client = Client(trusting())
    client.request(2)
    client.announce_end()
    client.read(2 * RESPONSE)
    assert client.has_ended(), "the server announces its end"


def sessions_are_resumed():
    for version in ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_2:
        context = trusting()
        context.maximum_version = version
        session = None
        for _ in range(2):
            client = Client(context, session)
            client.request()
            client.read(RESPONSE)
            assert client.tls.session_reused == (session is not None), client.tls.version()
            session = client.tls.session


def plain_text_is_answered_with_an_alert():
    with socket.create_connection(("127.0.0.1", PORT), timeout=120) as plain:
        plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
        received = b""
        while more := plain.recv(100):
            received += more
        assert received[:2] == b"\x15\x03", received


for check in (
    records_in_single_bytes_are_answered,
    pipelined_requests_are_answered,
    announced_end_follows_the_responses,
    sessions_are_resumed,
    plain_text_is_answered_with_an_alert,
):
    check()
print(Client.requests, 1)
