"""A server of fixed sizes that is slow for a while after its first request, as one with a just-in-time compiler is.

Arguments: LOG PORT REQUEST RESPONSE SLOW_S DELAY_S. Appends a line to LOG at each start."""

import selectors
import socket
import sys
import time

log, port, request, response = sys.argv[1], *map(int, sys.argv[2:5])
slow_s, delay_s = map(float, sys.argv[5:7])
with open(log, "a") as file:
    file.write("started\n")
listener = socket.create_server(("127.0.0.1", port), backlog=1000)
selector = selectors.DefaultSelector()
selector.register(listener, selectors.EVENT_READ)
pending, first = {}, None
while True:
    for key, _ in selector.select():
        connection = key.fileobj
        if connection is listener:
            connection = listener.accept()[0]
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            selector.register(connection, selectors.EVENT_READ)
            pending[connection] = 0
            continue
        try:
            data = connection.recv(1 << 16)
        except ConnectionResetError:
            data = b""
        if not data:
            selector.unregister(connection)
            del pending[connection]
            connection.close()
            continue
        pending[connection] += len(data)
        while pending[connection] >= request:
            pending[connection] -= request
            now = time.monotonic()
            first = first or now
            if now < first + slow_s:
                time.sleep(delay_s)
            connection.sendall(b"x" * response)
