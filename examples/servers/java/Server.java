import java.io.BufferedInputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.StandardSocketOptions;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;

/**
 * A typical Java server for requests and responses of fixed sizes, in two variants: a selector loop ({@code nio}), and one
 * thread per connection ({@code threads}).
 *
 * <pre>java Server nio|threads PORT REQUEST_BYTES RESPONSE_BYTES</pre>
 */
public final class Server {
    private static final int BACKLOG = 4096;
    private static final int READ_BYTES = 64 * 1024;

    private final InetSocketAddress address;
    private final int requestBytes;
    private final byte[] response;

    private Server(int port, int requestBytes, int responseBytes) {
        this.address = new InetSocketAddress(InetAddress.getLoopbackAddress(), port);
        this.requestBytes = requestBytes;
        this.response = new byte[responseBytes];
    }

    public static void main(String[] arguments) throws IOException {
        if (arguments.length != 4) {
            throw new IllegalArgumentException("usage: Server nio|threads PORT REQUEST_BYTES RESPONSE_BYTES");
        }
        var server = new Server(
                Integer.parseInt(arguments[1]), Integer.parseInt(arguments[2]), Integer.parseInt(arguments[3]));
        switch (arguments[0]) {
            case "nio" -> server.select();
            case "threads" -> server.accept();
            default -> throw new IllegalArgumentException("unknown mode " + arguments[0] + ": expected nio or threads");
        }
    }

    /** One thread for all connections. */
    private void select() throws IOException {
        var selector = Selector.open();
        var listener = ServerSocketChannel.open();
        listener.bind(address, BACKLOG).configureBlocking(false);
        listener.register(selector, SelectionKey.OP_ACCEPT);
        var input = ByteBuffer.allocateDirect(READ_BYTES);
        while (true) {
            selector.select(key -> {
                if (key.isAcceptable()) {
                    accept(listener, selector);
                } else {
                    ((Connection) key.attachment()).ready(input);
                }
            });
        }
    }

    private void accept(ServerSocketChannel listener, Selector selector) {
        try {
            var channel = listener.accept();
            if (channel == null) {
                return;
            }
            channel.setOption(StandardSocketOptions.TCP_NODELAY, true).configureBlocking(false);
            var key = channel.register(selector, SelectionKey.OP_READ);
            key.attach(new Connection(key, channel));
        } catch (IOException error) {
            // Descriptors ran out, or the client disconnected: continue to serve other clients.
            System.err.println("accept: " + error);
        }
    }

    /** A connection of the selector. It counts owed responses, because requests may arrive in any pieces. */
    private final class Connection {
        private final SelectionKey key;
        private final SocketChannel channel;
        /** The unsent rest of the current response. */
        private final ByteBuffer output = ByteBuffer.wrap(response).limit(0);
        /** The number of bytes of an incomplete request. */
        private int received;
        /** The number of responses that are not yet in the output. */
        private long owed;
        private boolean isAtEnd;

        Connection(SelectionKey key, SocketChannel channel) {
            this.key = key;
            this.channel = channel;
        }

        void ready(ByteBuffer input) {
            try {
                if (key.isReadable()) {
                    read(input);
                }
                write();
                if (isAtEnd && !isOwing()) {
                    channel.close();
                } else {
                    // Do not read from the client while a response is unsent.
                    key.interestOps(isOwing() ? SelectionKey.OP_WRITE : SelectionKey.OP_READ);
                }
            } catch (IOException error) {
                // The client reset the connection.
                close();
            }
        }

        private void read(ByteBuffer input) throws IOException {
            int count = channel.read(input.clear());
            if (count < 0) {
                isAtEnd = true;
                return;
            }
            long all = (long) received + count;
            owed += all / requestBytes;
            received = (int) (all % requestBytes);
        }

        private void write() throws IOException {
            while (isOwing()) {
                if (!output.hasRemaining()) {
                    output.clear();
                    owed--;
                }
                channel.write(output);
                if (output.hasRemaining()) {
                    return;
                }
            }
        }

        private boolean isOwing() {
            return output.hasRemaining() || owed > 0;
        }

        private void close() {
            try {
                channel.close();
            } catch (IOException error) {
                System.err.println("close: " + error);
            }
        }
    }

    /** A thread for each connection. */
    private void accept() throws IOException {
        try (var listener = new ServerSocket(address.getPort(), BACKLOG, address.getAddress())) {
            while (true) {
                var socket = listener.accept();
                new Thread(() -> serve(socket)).start();
            }
        }
    }

    private void serve(Socket socket) {
        try (socket) {
            socket.setTcpNoDelay(true);
            // One read may contain several requests.
            var requests = new BufferedInputStream(socket.getInputStream());
            OutputStream responses = socket.getOutputStream();
            var request = new byte[requestBytes];
            // Fewer bytes mean the end of the stream; all earlier requests are answered.
            while (requests.readNBytes(request, 0, requestBytes) == requestBytes) {
                responses.write(response);
            }
        } catch (IOException error) {
            // The client reset the connection, which ends this connection only.
        }
    }
}
