import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
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
import java.util.Arrays;
import java.util.concurrent.Executor;
import java.util.concurrent.Executors;

/**
 * A typical Java server in three variants: a selector loop ({@code nio}), and one thread per connection, of the system ({@code
 * threads}) or of the virtual machine ({@code virtual}, from Java 21 on). The server for HTTP is the JDK's, which has a thread per
 * request.
 *
 * <pre>
 * java Server nio|threads|virtual fixed PORT REQUEST_BYTES RESPONSE_BYTES
 * java Server nio|threads|virtual stream PORT PACKET_BYTES PACKETS ACK_BYTES
 * java Server threads|virtual http PORT
 * </pre>
 *
 * {@code stream} acknowledges bursts of packets. A burst that begins with a zero byte has one packet. {@code http} answers
 * /bytes/N.
 */
public final class Server {
    private static final int BACKLOG = 4096;
    private static final int READ_BYTES = 64 * 1024;
    private static final int BODY_BYTES_MAX = 64 << 20;

    private final InetSocketAddress address;
    private final long requestBytes;
    /** The bytes of a request that begins with a zero byte. */
    private final long greetingBytes;
    /** The most bytes of one read. */
    private final int readBytes;
    private final byte[] response;

    private Server(int port, long requestBytes, long greetingBytes, int readBytes, int responseBytes) {
        this.address = new InetSocketAddress(InetAddress.getLoopbackAddress(), port);
        this.requestBytes = requestBytes;
        this.greetingBytes = greetingBytes;
        this.readBytes = readBytes;
        this.response = new byte[responseBytes];
    }

    public static void main(String[] arguments) throws IOException {
        var variant = arguments.length > 2 ? arguments[0] + " " + arguments[1] : "";
        var numbers = Arrays.stream(arguments).skip(2).mapToInt(Integer::parseInt).toArray();
        if (variant.matches("(threads|virtual) http") && numbers.length == 1) {
            serveHttp(numbers[0], arguments[0].equals("virtual") ? virtualThreads() : Executors.newCachedThreadPool());
        } else if (variant.endsWith(" fixed") && numbers.length == 3) {
            new Server(numbers[0], numbers[1], numbers[1], READ_BYTES, numbers[2]).run(arguments[0]);
        } else if (variant.endsWith(" stream") && numbers.length == 4) {
            long packetBytes = numbers[1];
            new Server(numbers[0], packetBytes * numbers[2], packetBytes, numbers[1], numbers[3]).run(arguments[0]);
        } else {
            throw new IllegalArgumentException("usage: Server nio|threads|virtual fixed PORT REQUEST_BYTES RESPONSE_BYTES, "
                    + "Server nio|threads|virtual stream PORT PACKET_BYTES PACKETS ACK_BYTES, or Server threads|virtual http PORT");
        }
    }

    private void run(String mode) throws IOException {
        switch (mode) {
            case "nio" -> select();
            case "threads" -> accept(serve -> new Thread(serve).start());
            case "virtual" -> accept(virtualThreads());
            default -> throw new IllegalArgumentException("unknown mode " + mode + ": expected nio, threads or virtual");
        }
    }

    /** Starts a virtual thread for each task. Found by its name, so that this file compiles with Java 17. */
    private static Executor virtualThreads() {
        try {
            return (Executor) Executors.class.getMethod("newVirtualThreadPerTaskExecutor").invoke(null);
        } catch (ReflectiveOperationException error) {
            throw new UnsupportedOperationException("virtual threads need Java 21 or newer", error);
        }
    }

    /** Counts the whole requests in bytes that arrive in any pieces. */
    private final class Requests {
        /** The missing bytes of a request that has begun. */
        private long left;

        int take(ByteBuffer bytes) {
            int whole = 0;
            while (bytes.hasRemaining()) {
                if (left == 0) {
                    left = bytes.get(bytes.position()) == 0 ? greetingBytes : requestBytes;
                }
                int taken = (int) Math.min(left, bytes.remaining());
                bytes.position(bytes.position() + taken);
                left -= taken;
                whole += left == 0 ? 1 : 0;
            }
            return whole;
        }
    }

    /** One thread for all connections. */
    private void select() throws IOException {
        var selector = Selector.open();
        var listener = ServerSocketChannel.open();
        listener.bind(address, BACKLOG).configureBlocking(false);
        listener.register(selector, SelectionKey.OP_ACCEPT);
        var input = ByteBuffer.allocateDirect(readBytes);
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
        private final Requests requests = new Requests();
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
            owed += requests.take(input.flip());
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
    private void accept(Executor threads) throws IOException {
        try (var listener = new ServerSocket(address.getPort(), BACKLOG, address.getAddress())) {
            while (true) {
                var socket = listener.accept();
                threads.execute(() -> serve(socket));
            }
        }
    }

    private void serve(Socket socket) {
        try (socket) {
            socket.setTcpNoDelay(true);
            var requests = new Requests();
            var responses = socket.getOutputStream();
            var buffer = new byte[readBytes];
            int count;
            while ((count = socket.getInputStream().read(buffer)) > 0) {
                // One read may contain several requests.
                for (int owed = requests.take(ByteBuffer.wrap(buffer, 0, count)); owed > 0; owed--) {
                    responses.write(response);
                }
            }
        } catch (IOException error) {
            // The client reset the connection, which ends this connection only.
        }
    }

    private static void serveHttp(int port, Executor threads) throws IOException {
        var server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), port), BACKLOG);
        server.setExecutor(threads);
        server.createContext("/bytes/", Server::answer);
        server.start();
    }

    /** Answers a GET of /bytes/N with N bytes. */
    private static void answer(HttpExchange exchange) throws IOException {
        try (exchange) {
            var name = exchange.getRequestURI().getPath().substring("/bytes/".length());
            int count = name.matches("[0-9]{1,8}") ? Integer.parseInt(name) : BODY_BYTES_MAX + 1;
            if (count > BODY_BYTES_MAX) {
                exchange.sendResponseHeaders(404, -1);
                return;
            }
            exchange.sendResponseHeaders(200, count == 0 ? -1 : count);
            exchange.getResponseBody().write(new byte[count]);
        }
    }
}
