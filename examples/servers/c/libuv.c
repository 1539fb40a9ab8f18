/*
 * A typical C server on libuv's loop: one thread, epoll. libuv has no HTTP, so `http` has a small parser of its own.
 *
 *   libuv fixed PORT REQUEST_BYTES RESPONSE_BYTES
 *   libuv stream PORT PACKET_BYTES PACKETS ACK_BYTES
 *   libuv http PORT
 *
 * Compile it with `cc -O2 -o libuv libuv.c -luv`.
 *
 * `stream` acknowledges bursts of packets. A burst that begins with a zero byte has one packet. `http` answers /bytes/N.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#define BACKLOG 4096
#define BODY_BYTES_MAX (64L << 20)
#define OUTPUT_BYTES_MAX (1 << 20)
#define HEAD_BYTES_MAX (8 << 10)

struct service {
    int is_http;
    /* The bytes of a request, and of one that begins with a zero byte. */
    size_t request_bytes, greeting_bytes;
    size_t response_bytes;
    char *response;
    /* The memory of all reads: a read ends before the next one begins. */
    char *input;
    size_t input_bytes;
};

static struct service service;

struct connection {
    uv_tcp_t socket;
    /* The missing bytes of a request that has begun. */
    size_t left_bytes;
    /* The head of an HTTP request that has begun. */
    char head[HEAD_BYTES_MAX];
    size_t head_bytes;
    int is_at_end;
};

struct response {
    uv_write_t request;
    char head[96];
};

static void fail(const char *what) {
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static void *allocate(size_t bytes) {
    void *memory = calloc(1, bytes);
    if (memory == NULL) {
        fail("out of memory");
    }
    return memory;
}

static void on_closed(uv_handle_t *handle) {
    free(handle->data);
}

static void end(struct connection *connection) {
    if (!uv_is_closing((uv_handle_t *)&connection->socket)) {
        uv_close((uv_handle_t *)&connection->socket, on_closed);
    }
}

static void on_input(uv_stream_t *stream, ssize_t count, const uv_buf_t *buffer);

static void on_memory(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer) {
    (void)handle, (void)suggested;
    *buffer = uv_buf_init(service.input, (unsigned)service.input_bytes);
}

static void on_written(uv_write_t *request, int status) {
    uv_stream_t *stream = request->handle;
    struct connection *connection = stream->data;
    free(request->data);
    if (status < 0) {
        end(connection);
    } else if (uv_stream_get_write_queue_size(stream) == 0) {
        if (connection->is_at_end) {
            end(connection);
        } else if (!uv_is_closing((uv_handle_t *)stream)) {
            uv_read_start(stream, on_memory, on_input);
        }
    }
}

/* Sends `bytes` of the response without a copy, after a head that may be empty. */
static void respond(struct connection *connection, const char *status, size_t bytes) {
    uv_stream_t *stream = (uv_stream_t *)&connection->socket;
    struct response *response = allocate(sizeof *response);
    response->request.data = response;
    int head_bytes = 0;
    if (service.is_http) {
        head_bytes = snprintf(response->head, sizeof response->head, "HTTP/1.1 %s\r\nContent-Length: %zu\r\n\r\n", status, bytes);
    }
    uv_buf_t buffers[] = {uv_buf_init(response->head, (unsigned)head_bytes), uv_buf_init(service.response, (unsigned)bytes)};
    if (uv_write(&response->request, stream, buffers, 2, on_written) < 0) {
        free(response);
        end(connection);
    } else if (uv_stream_get_write_queue_size(stream) > OUTPUT_BYTES_MAX) {
        /* Do not read from a client that does not read. */
        uv_read_stop(stream);
    }
}

static void on_bytes(struct connection *connection, const char *bytes, size_t count) {
    while (count > 0) {
        if (connection->left_bytes == 0) {
            connection->left_bytes = *bytes == 0 ? service.greeting_bytes : service.request_bytes;
        }
        size_t taken = count < connection->left_bytes ? count : connection->left_bytes;
        bytes += taken;
        count -= taken;
        connection->left_bytes -= taken;
        if (connection->left_bytes == 0) {
            respond(connection, "", service.response_bytes);
        }
    }
}

/* Answers a GET without a body. */
static void on_head(struct connection *connection) {
    static const char START[] = "GET /bytes/";
    const char *head = connection->head;
    long bytes = strncmp(head, START, sizeof START - 1) == 0 ? strtol(head + sizeof START - 1, NULL, 10) : -1;
    if (bytes < 0 || bytes > BODY_BYTES_MAX) {
        respond(connection, "404 Not Found", 0);
    } else {
        respond(connection, "200 OK", (size_t)bytes);
    }
}

static void on_http(struct connection *connection, const char *bytes, size_t count) {
    for (size_t at = 0; at < count; at++) {
        if (connection->head_bytes == HEAD_BYTES_MAX - 1) {
            end(connection);
            return;
        }
        connection->head[connection->head_bytes++] = bytes[at];
        if (connection->head_bytes >= 4 && memcmp(connection->head + connection->head_bytes - 4, "\r\n\r\n", 4) == 0) {
            connection->head[connection->head_bytes] = 0;
            on_head(connection);
            connection->head_bytes = 0;
        }
    }
}

static void on_input(uv_stream_t *stream, ssize_t count, const uv_buf_t *buffer) {
    struct connection *connection = stream->data;
    if (count > 0 && service.is_http) {
        on_http(connection, buffer->base, (size_t)count);
    } else if (count > 0) {
        on_bytes(connection, buffer->base, (size_t)count);
    } else if (count == UV_EOF && uv_stream_get_write_queue_size(stream) > 0) {
        /* The client ended its side; it may still read responses. */
        connection->is_at_end = 1;
        uv_read_stop(stream);
    } else if (count < 0) {
        end(connection);
    }
}

static void on_connection(uv_stream_t *listener, int status) {
    struct connection *connection = allocate(sizeof *connection);
    uv_tcp_init(listener->loop, &connection->socket);
    connection->socket.data = connection;
    if (status < 0 || uv_accept(listener, (uv_stream_t *)&connection->socket) < 0) {
        end(connection);
        return;
    }
    uv_tcp_nodelay(&connection->socket, 1);
    uv_read_start((uv_stream_t *)&connection->socket, on_memory, on_input);
}

static long number(const char *text) {
    char *end;
    long value = strtol(text, &end, 10);
    if (*end != 0 || value < 1 || value > 1L << 40) {
        fail("invalid number: expected a positive integer");
    }
    return value;
}

int main(int count, char **words) {
    const char *name = count > 1 ? words[1] : "";
    int is_fixed = strcmp(name, "fixed") == 0 && count == 5;
    int is_stream = strcmp(name, "stream") == 0 && count == 6;
    service.is_http = strcmp(name, "http") == 0 && count == 3;
    if (!is_fixed && !is_stream && !service.is_http) {
        fail("usage: libuv fixed PORT REQUEST_BYTES RESPONSE_BYTES\n"
             "       libuv stream PORT PACKET_BYTES PACKETS ACK_BYTES\n"
             "       libuv http PORT");
    }
    signal(SIGPIPE, SIG_IGN);
    service.input_bytes = 64 << 10;
    service.response_bytes = BODY_BYTES_MAX;
    if (is_fixed) {
        service.request_bytes = service.greeting_bytes = (size_t)number(words[3]);
        service.response_bytes = (size_t)number(words[4]);
    } else if (is_stream) {
        service.input_bytes = service.greeting_bytes = (size_t)number(words[3]);
        service.request_bytes = service.greeting_bytes * (size_t)number(words[4]);
        service.response_bytes = (size_t)number(words[5]);
    }
    service.input = allocate(service.input_bytes);
    service.response = allocate(service.response_bytes);
    uv_tcp_t listener;
    struct sockaddr_in address;
    uv_ip4_addr("127.0.0.1", (int)number(words[2]), &address);
    uv_tcp_init(uv_default_loop(), &listener);
    if (uv_tcp_bind(&listener, (struct sockaddr *)&address, 0) < 0
        || uv_listen((uv_stream_t *)&listener, BACKLOG, on_connection) < 0) {
        fail("cannot listen");
    }
    return uv_run(uv_default_loop(), UV_RUN_DEFAULT);
}
