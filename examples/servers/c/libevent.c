/*
 * A typical C server on libevent's loop, as in maharjan2012: one thread, and a mechanism of libevent's.
 *
 *   libevent select|poll|epoll fixed PORT REQUEST_BYTES RESPONSE_BYTES
 *   libevent select|poll|epoll stream PORT PACKET_BYTES PACKETS ACK_BYTES
 *   libevent select|poll|epoll http PORT
 *
 * Compile it with `cc -O2 -o libevent libevent.c -levent`.
 *
 * `stream` acknowledges bursts of packets. A burst that begins with a zero byte has one packet. `http` answers /bytes/N.
 */
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/listener.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BACKLOG 4096
#define BODY_BYTES_MAX (64L << 20)
#define OUTPUT_BYTES_MAX (1 << 20)

struct service {
    struct event_base *base;
    /* The bytes of a request, and of one that begins with a zero byte. */
    size_t request_bytes, greeting_bytes;
    /* The most bytes of one read. */
    size_t read_bytes;
    size_t response_bytes;
    char *response;
};

struct connection {
    const struct service *service;
    /* The missing bytes of a request that has begun. */
    size_t left_bytes;
};

static void fail(const char *what) {
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static void end(struct bufferevent *events, struct connection *connection) {
    bufferevent_free(events);
    free(connection);
}

/* Responses without a copy: the output only refers to `response`. */
static void on_bytes(struct bufferevent *events, void *context) {
    struct connection *connection = context;
    const struct service *service = connection->service;
    struct evbuffer *input = bufferevent_get_input(events), *output = bufferevent_get_output(events);
    size_t count;
    while ((count = evbuffer_get_length(input)) > 0) {
        if (connection->left_bytes == 0) {
            char first;
            evbuffer_copyout(input, &first, 1);
            connection->left_bytes = first == 0 ? service->greeting_bytes : service->request_bytes;
        }
        if (count > connection->left_bytes) {
            count = connection->left_bytes;
        }
        evbuffer_drain(input, count);
        connection->left_bytes -= count;
        if (connection->left_bytes == 0) {
            evbuffer_add_reference(output, service->response, service->response_bytes, NULL, NULL);
        }
    }
    /* Do not read from a client that does not read. */
    if (evbuffer_get_length(output) > OUTPUT_BYTES_MAX) {
        bufferevent_disable(events, EV_READ);
    }
}

static void on_drained(struct bufferevent *events, void *context) {
    (void)context;
    bufferevent_enable(events, EV_READ);
}

static void on_last_drained(struct bufferevent *events, void *context) {
    end(events, context);
}

static void on_end(struct bufferevent *events, short what, void *context) {
    if ((what & BEV_EVENT_EOF) && evbuffer_get_length(bufferevent_get_output(events)) > 0) {
        /* The client ended its side; it may still read responses. */
        bufferevent_setcb(events, NULL, on_last_drained, on_end, context);
    } else if (what & (BEV_EVENT_EOF | BEV_EVENT_ERROR)) {
        end(events, context);
    }
}

static void on_accept(struct evconnlistener *listener, evutil_socket_t socket, struct sockaddr *address, int length,
                      void *context) {
    (void)listener, (void)address, (void)length;
    const struct service *service = context;
    int yes = 1;
    struct connection *connection = calloc(1, sizeof *connection);
    struct bufferevent *events = bufferevent_socket_new(service->base, socket, BEV_OPT_CLOSE_ON_FREE);
    if (connection == NULL || events == NULL) {
        fail("out of memory");
    }
    connection->service = service;
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    bufferevent_set_max_single_read(events, service->read_bytes);
    bufferevent_setcb(events, on_bytes, on_drained, on_end, connection);
    bufferevent_enable(events, EV_READ | EV_WRITE);
}

static void on_request(struct evhttp_request *request, void *context) {
    const char *path = evhttp_request_get_uri(request);
    long bytes = strncmp(path, "/bytes/", 7) == 0 ? strtol(path + 7, NULL, 10) : -1;
    if (bytes < 0 || bytes > BODY_BYTES_MAX) {
        evhttp_send_error(request, HTTP_NOTFOUND, NULL);
        return;
    }
    struct evbuffer *body = evbuffer_new();
    evbuffer_add_reference(body, context, bytes, NULL, NULL);
    evhttp_send_reply(request, HTTP_OK, "OK", body);
    evbuffer_free(body);
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
    static const char *const MECHANISMS[] = {"select", "poll", "epoll"};
    const char *service_name = count > 2 ? words[2] : "";
    int is_fixed = strcmp(service_name, "fixed") == 0 && count == 6;
    int is_stream = strcmp(service_name, "stream") == 0 && count == 7;
    int is_http = strcmp(service_name, "http") == 0 && count == 4;
    if (!is_fixed && !is_stream && !is_http) {
        fail("usage: libevent select|poll|epoll fixed PORT REQUEST_BYTES RESPONSE_BYTES\n"
             "       libevent select|poll|epoll stream PORT PACKET_BYTES PACKETS ACK_BYTES\n"
             "       libevent select|poll|epoll http PORT");
    }
    signal(SIGPIPE, SIG_IGN);
    /* libevent has no call that selects a mechanism, so avoid all others. */
    struct event_config *config = event_config_new();
    for (size_t at = 0; at < sizeof MECHANISMS / sizeof *MECHANISMS; at++) {
        if (strcmp(MECHANISMS[at], words[1]) != 0) {
            event_config_avoid_method(config, MECHANISMS[at]);
        }
    }
    struct event_base *base = event_base_new_with_config(config);
    if (base == NULL || strcmp(event_base_get_method(base), words[1]) != 0) {
        fail("unknown mechanism: expected select, poll or epoll");
    }
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)number(words[3]))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    struct service service = {.base = base, .read_bytes = 64 << 10};
    if (is_fixed) {
        service.request_bytes = service.greeting_bytes = (size_t)number(words[4]);
        service.response_bytes = (size_t)number(words[5]);
    } else if (is_stream) {
        service.read_bytes = service.greeting_bytes = (size_t)number(words[4]);
        service.request_bytes = service.greeting_bytes * (size_t)number(words[5]);
        service.response_bytes = (size_t)number(words[6]);
    } else {
        service.response_bytes = BODY_BYTES_MAX;
    }
    service.response = calloc(1, service.response_bytes);
    if (service.response == NULL) {
        fail("out of memory");
    }
    void *context = is_http ? NULL : &service;
    struct evconnlistener *listener =
        evconnlistener_new_bind(base, is_http ? NULL : on_accept, context, LEV_OPT_CLOSE_ON_FREE | LEV_OPT_REUSEABLE, BACKLOG,
                                (struct sockaddr *)&address, sizeof address);
    if (listener == NULL) {
        fail("cannot listen");
    }
    if (is_http) {
        struct evhttp *http = evhttp_new(base);
        evhttp_set_gencb(http, on_request, service.response);
        if (evhttp_bind_listener(http, listener) == NULL) {
            fail("cannot serve");
        }
    }
    event_base_dispatch(base);
    return 0;
}
