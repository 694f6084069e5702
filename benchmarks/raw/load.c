/*
 * A closed-loop load generator for Kafka's protocol, with precomputed requests: one thread, epoll, no memory per request.
 * It knows nothing of the protocol but the size prefix and where in an answer the error codes stand.
 *
 *   load requests HOST PORT MILLISECONDS FRAMES CONNECTIONS ERROR_OFFSETS
 *       Each connection sends its frame (the i-th one of FRAMES, round robin), awaits the answer, sends again.
 *   load end-to-end HOST PORT MILLISECONDS FRAMES FIRST_OFFSET FETCH_OFFSET_POSITION SMALLEST_ANSWER PERIOD_US ERROR_OFFSETS
 *       FRAMES holds a Produce of one record and a Fetch. The Fetch waits at the end of the log on a connection of its own;
 *       the time runs from sending the Produce to the Fetch's whole answer. One begins every PERIOD_US, or as soon as the
 *       last one is over.
 *   load drain HOST PORT MILLISECONDS FRAMES FETCH_OFFSET_POSITION FIRST,NEXT,...
 *       FRAMES holds a Fetch; it is sent over and over on one connection, at the offsets of the list in turn.
 *
 * FRAMES is a file of requests with their size prefixes. ERROR_OFFSETS are byte positions in an answer, after its size
 * prefix, of two-byte error codes that must be 0, as "7,25,...". It prints "ready" once connected and answered, waits for
 * a line on its standard input, measures, and prints one JSON object.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { FIRST_ANSWER_BYTES = 65536, MOST_ANSWER_BYTES = 64 << 20, MOST_FRAMES = 4096, MOST_ERRORS = 1024, MOST_OFFSETS = 1 << 20, SUB_BITS = 6, BUCKETS = 64 << SUB_BITS };

struct frame { char *bytes; size_t size; };
struct connection { int fd; struct frame *frame; uint64_t sent_ns; uint32_t got; uint32_t size; uint32_t room; int waiting; unsigned char *answer; };

static struct frame frames[MOST_FRAMES];
static int frame_count, error_offsets[MOST_ERRORS], error_count;
static uint64_t buckets[BUCKETS], answers, worst_ns, received_bytes;

static void fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(1);
}

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Log-linear: 64 buckets to each power of two, so a bucket is at most 1.6 % wide. */
static void count_latency(uint64_t ns) {
    int high = 63 - __builtin_clzll(ns | 1), shift = high > SUB_BITS ? high - SUB_BITS : 0;
    uint64_t index = ((uint64_t)shift << SUB_BITS) + (ns >> shift);
    buckets[index < BUCKETS ? index : BUCKETS - 1]++;
    if (ns > worst_ns) worst_ns = ns;
    answers++;
}

static uint64_t bucket_floor_ns(uint64_t index) {
    uint64_t shift = index >> SUB_BITS;
    if (shift) shift--;
    return (index - (shift << SUB_BITS)) << shift;
}

static uint64_t percentile_ns(double part) {
    uint64_t wanted = (uint64_t)(part * (double)answers), seen = 0;
    for (int i = 0; i < BUCKETS; i++)
        if ((seen += buckets[i]) > wanted) return bucket_floor_ns(i);
    return worst_ns;
}

static void print_result(double seconds) {
    printf("{\"answers\": %llu, \"seconds\": %.6f, \"received_bytes\": %llu, \"p50_us\": %.3f, \"p99_us\": %.3f, \"p999_us\": %.3f, \"max_us\": %.3f, \"histogram_us\": [",
           (unsigned long long)answers, seconds, (unsigned long long)received_bytes, percentile_ns(.5) / 1e3, percentile_ns(.99) / 1e3,
           percentile_ns(.999) / 1e3, worst_ns / 1e3);
    const char *separator = "";
    for (int i = 0; i < BUCKETS; i++)
        if (buckets[i]) {
            printf("%s[%.3f, %llu]", separator, bucket_floor_ns(i) / 1e3, (unsigned long long)buckets[i]);
            separator = ", ";
        }
    printf("]}\n");
}

static void read_frames(const char *path) {
    FILE *file = fopen(path, "rb");
    uint32_t prefix;
    if (!file) fail("cannot open %s", path);
    while (fread(&prefix, 4, 1, file) == 1) {
        if (frame_count == MOST_FRAMES) fail("more than %d frames", MOST_FRAMES);
        struct frame *frame = &frames[frame_count++];
        frame->size = ntohl(prefix) + 4;
        frame->bytes = malloc(frame->size);
        memcpy(frame->bytes, &prefix, 4);
        if (fread(frame->bytes + 4, 1, frame->size - 4, file) != frame->size - 4) fail("%s ends inside a frame", path);
    }
    fclose(file);
    if (!frame_count) fail("%s holds no frame", path);
}

static void read_error_offsets(char *list) {
    for (char *part = strtok(list, ","); part; part = strtok(NULL, ",")) {
        if (error_count == MOST_ERRORS) fail("more than %d error offsets", MOST_ERRORS);
        error_offsets[error_count++] = atoi(part);
    }
}

static void open_connection(struct connection *connection, const char *host, int port, struct frame *frame) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    int on = 1;
    inet_pton(AF_INET, host, &address.sin_addr);
    connection->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(connection->fd, (struct sockaddr *)&address, sizeof address)) fail("connect to %s:%d: %s", host, port, strerror(errno));
    setsockopt(connection->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    connection->room = FIRST_ANSWER_BYTES;
    connection->answer = malloc(connection->room);
    connection->frame = frame;
}

static void send_frame(struct connection *connection) {
    size_t sent = 0;
    connection->got = 0;
    connection->waiting = 1;
    connection->sent_ns = now_ns();
    while (sent < connection->frame->size) {
        ssize_t n = send(connection->fd, connection->frame->bytes + sent, connection->frame->size - sent, MSG_NOSIGNAL);
        if (n < 0) fail("send: %s", strerror(errno));
        sent += (size_t)n;
    }
}

/* What can be read now; true once the answer is whole. */
static int receive_answer(struct connection *connection, int flags) {
    ssize_t n = recv(connection->fd, connection->answer + connection->got, connection->room - connection->got, flags);
    if (n == 0) fail("the broker closed the connection");
    if (n < 0) {
        if (errno == EAGAIN) return 0;
        fail("recv: %s", strerror(errno));
    }
    connection->got += (uint32_t)n;
    if (connection->got < 4) return 0;
    uint32_t size = ntohl(*(uint32_t *)connection->answer);
    if (size > MOST_ANSWER_BYTES) fail("an answer of %u bytes", size);
    if (size + 4 > connection->room) {
        connection->room = size + 4;
        connection->answer = realloc(connection->answer, connection->room);
        if (!connection->answer) fail("no memory for an answer of %u bytes", size);
        return 0;
    }
    if (connection->got < size + 4) return 0;
    if (connection->got > size + 4) fail("more than one answer to one request");
    connection->size = size;
    connection->waiting = 0;
    received_bytes += size;
    return 1;
}

static void check_errors(struct connection *connection) {
    for (int i = 0; i < error_count; i++) {
        int at = error_offsets[i];
        if (at + 2 > (int)connection->size) fail("an answer of %u bytes has no error code at %d", connection->size, at);
        int code = connection->answer[4 + at] << 8 | connection->answer[5 + at];
        if (code) fail("error code %d at position %d of an answer", code, at);
    }
}

static void await_answer(struct connection *connection) {
    while (!receive_answer(connection, 0)) {}
    check_errors(connection);
}

static void await_start(void) {
    printf("ready\n");
    fflush(stdout);
    if (getchar() == EOF) exit(0);
    received_bytes = 0;
}

static void requests(const char *host, int port, uint64_t duration_ns, int count) {
    struct connection *connections = calloc((size_t)count, sizeof *connections);
    struct epoll_event events[256];
    int poller = epoll_create1(0), waiting = 0;
    for (int i = 0; i < count; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &connections[i]};
        open_connection(&connections[i], host, port, &frames[i % frame_count]);
        send_frame(&connections[i]);
        await_answer(&connections[i]);
        epoll_ctl(poller, EPOLL_CTL_ADD, connections[i].fd, &event);
    }
    await_start();
    uint64_t start = now_ns(), deadline = start + duration_ns, end = start;
    for (; waiting < count; waiting++) send_frame(&connections[waiting]);
    while (waiting) {
        int n = epoll_wait(poller, events, 256, 10000);
        if (n <= 0) fail("no answer for 10 s on %d connections", waiting);
        for (int i = 0; i < n; i++) {
            struct connection *connection = events[i].data.ptr;
            if (!receive_answer(connection, MSG_DONTWAIT)) continue;
            end = now_ns();
            count_latency(end - connection->sent_ns);
            check_errors(connection);
            if (end < deadline) send_frame(connection);
            else waiting--;
        }
    }
    print_result((double)(end - start) / 1e9);
}

static void set_offset(struct frame *frame, int position, uint64_t offset) {
    for (int i = 0; i < 8; i++) frame->bytes[position + i] = (char)(offset >> (56 - 8 * i));
}

static void sleep_ns(uint64_t duration_ns) {
    struct timespec pause = {.tv_sec = (time_t)(duration_ns / 1000000000u), .tv_nsec = (long)(duration_ns % 1000000000u)};
    nanosleep(&pause, NULL);
}

static void end_to_end(const char *host, int port, uint64_t duration_ns, uint64_t offset, int position, uint32_t smallest, uint64_t period_ns) {
    struct connection producer = {0}, consumer = {0};
    open_connection(&producer, host, port, &frames[0]);
    open_connection(&consumer, host, port, &frames[1]);
    await_start();
    uint64_t start = now_ns(), deadline = start + duration_ns, due = start;
    for (uint64_t now = start; now < deadline; now = now_ns()) {
        if (now < due) sleep_ns(due - now);
        due = (now < due ? due : now) + period_ns;
        set_offset(consumer.frame, position, offset);
        send_frame(&consumer);
        sleep_ns(200000); /* so that the Fetch waits there */
        send_frame(&producer);
        while (!receive_answer(&consumer, 0)) {}
        uint64_t arrived = now_ns();
        await_answer(&producer);
        if (consumer.size < smallest) continue; /* the Fetch had timed out before */
        count_latency(arrived - producer.sent_ns);
        offset++;
    }
    print_result((double)(now_ns() - start) / 1e9);
}

/* Reads answers of any size; only their size prefix is read. */
static void swallow_answer(struct connection *connection) {
    static unsigned char sink[1 << 20];
    uint32_t prefix;
    if (recv(connection->fd, &prefix, 4, MSG_WAITALL) != 4) fail("the broker closed the connection");
    for (uint32_t left = ntohl(prefix); left;) {
        ssize_t n = recv(connection->fd, sink, left < sizeof sink ? left : sizeof sink, 0);
        if (n <= 0) fail("the broker closed the connection");
        left -= (uint32_t)n;
    }
    received_bytes += ntohl(prefix);
}

static void drain(const char *host, int port, uint64_t duration_ns, int position, char *list) {
    static uint64_t offsets[MOST_OFFSETS];
    struct connection connection = {0};
    int count = 0;
    for (char *part = strtok(list, ","); part && count < MOST_OFFSETS; part = strtok(NULL, ",")) offsets[count++] = strtoull(part, NULL, 10);
    open_connection(&connection, host, port, &frames[0]);
    await_start();
    uint64_t start = now_ns(), end = start;
    for (int i = 0; end < start + duration_ns; i = (i + 1) % count) {
        set_offset(connection.frame, position, offsets[i]);
        send_frame(&connection);
        swallow_answer(&connection);
        end = now_ns();
        count_latency(end - connection.sent_ns);
    }
    print_result((double)(end - start) / 1e9);
}

int main(int argc, char **argv) {
    if (argc < 8) fail("too few arguments; see the head of load.c");
    const char *host = argv[2];
    int port = atoi(argv[3]);
    uint64_t duration_ns = strtoull(argv[4], NULL, 10) * 1000000u;
    read_frames(argv[5]);
    if (!strcmp(argv[1], "requests")) {
        read_error_offsets(argv[7]);
        requests(host, port, duration_ns, atoi(argv[6]));
    } else if (!strcmp(argv[1], "end-to-end") && argc == 11) {
        uint64_t period_ns = strtoull(argv[9], NULL, 10) * 1000u;
        read_error_offsets(argv[10]);
        end_to_end(host, port, duration_ns, strtoull(argv[6], NULL, 10), atoi(argv[7]), (uint32_t)atoi(argv[8]), period_ns);
    } else if (!strcmp(argv[1], "drain")) {
        drain(host, port, duration_ns, atoi(argv[6]), argv[7]);
    } else {
        fail("unknown mode %s", argv[1]);
    }
    return 0;
}
