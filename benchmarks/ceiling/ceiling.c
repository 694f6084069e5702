/*
 * What the machine allows a broker of one thread: receive a request, write its records, answer with bytes that a broker
 * gave before, or send a file. One thread, epoll, no checksum, no index, no thought.
 *
 *   ceiling PORT ANSWERS DIRECTORY
 *
 * Of a Produce each partition's records go to a file of its own in DIRECTORY, with their offset written over theirs, and it
 * is answered with those offsets. A Fetch is answered partition by partition, from recorded heads and, by sendfile, the
 * segments of the broker that was recorded; one that finds nothing waits for a Produce, or as long as it says. An
 * OffsetCommit is written to a file. It and all others are answered with the bytes that were recorded for the same request,
 * but for its correlation id; else with the last ones of the same kind and version; where there are none the connection is
 * closed.
 *
 * ANSWERS is a file of entries, all numbers big endian:
 *   'A' SIZE key, SIZE answer                 a request without its correlation id; the answer with its size
 *   'T' SIZE name, SIZE id                    a topic: that of the entries 'F' behind it
 *   'F' i32 partition, i64 offset, i64 position, i32 length, SIZE path, SIZE head, SIZE tail
 *                                             what is answered for one partition at one offset: head, the length of the
 *                                             records, the records themselves, tail; sorted by partition and offset
 * where SIZE is an i32 that counts the bytes behind it. Flexible versions only: Produce 9 and later, Fetch 12 and later.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { PRODUCE = 0, FETCH = 1, OFFSET_COMMIT = 8, PRODUCED_PARTITION = 33, MOST_TOPICS = 16, MOST_PARTITIONS = 1024, MOST_ANSWERS = 8192, MOST_PARTS = 4096, MOST_FILES = 4096,
       FIRST_ROOM = 65536, MOST_REQUEST = 256 << 20, EVENTS = 256, HELD_LOOK_MS = 10, BATCH_SIZE_AT = 8, BATCH_COUNT_AT = 57, BATCH_HEADER = 61 };

struct bytes { unsigned char *at; size_t size; };
struct answer { struct bytes key, answer; };
struct piece { int64_t offset, position; int32_t length; int fd; struct bytes head, tail; };
struct partition { struct piece *pieces; int count; int fd; size_t last_size; int64_t next_offset; };
struct topic { struct bytes name, id; struct partition *partitions; };
/* Of an answer that is being sent: bytes in memory, or, with a descriptor, of a file. */
struct part { unsigned char *at; size_t size; int fd; off_t position; };
struct connection {
    int fd, writing, closed;
    unsigned char *requests; /* what was received and is not answered yet */
    size_t got, room;
    struct answer *last;
    unsigned char *answer; /* what is sent from memory */
    size_t answer_room;
    struct part *parts;
    int part_count, part_at;
    uint64_t held_until_ns; /* its Fetch waits for records until then, if not 0 */
    struct connection *next_held;
};

static struct answer answers[MOST_ANSWERS];
static struct topic topics[MOST_TOPICS];
static int answer_count, topic_count, poller, has_written;
static struct connection *held;
static const char *directory;

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

/* A walk over bytes. */

struct walk { unsigned char *at, *end; };

static unsigned char *take(struct walk *walk, size_t size) {
    unsigned char *at = walk->at;
    if ((size_t)(walk->end - at) < size) fail("a request or an entry of answers ends too soon");
    walk->at += size;
    return at;
}

static int16_t take_i16(struct walk *walk) { uint16_t n; memcpy(&n, take(walk, 2), 2); return (int16_t)be16toh(n); }
static int32_t take_i32(struct walk *walk) { uint32_t n; memcpy(&n, take(walk, 4), 4); return (int32_t)be32toh(n); }
static int64_t take_i64(struct walk *walk) { uint64_t n; memcpy(&n, take(walk, 8), 8); return (int64_t)be64toh(n); }

static uint32_t take_uvarint(struct walk *walk) {
    uint32_t value = 0;
    for (int shift = 0; shift < 35; shift += 7) {
        unsigned char byte = *take(walk, 1);
        value |= (uint32_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) return value;
    }
    fail("a number has no end");
    return 0;
}

/* COMPACT_STRING or COMPACT_BYTES; empty where it is null. */
static struct bytes take_compact(struct walk *walk) {
    uint32_t size = take_uvarint(walk);
    size = size ? size - 1 : 0;
    return (struct bytes){take(walk, size), size};
}

static void skip_tags(struct walk *walk) {
    for (uint32_t count = take_uvarint(walk); count; count--) {
        take_uvarint(walk);
        take(walk, take_uvarint(walk));
    }
}

static struct bytes take_sized(struct walk *walk) {
    size_t size = (size_t)take_i32(walk);
    return (struct bytes){take(walk, size), size};
}

static int same(struct bytes a, struct bytes b) { return a.size == b.size && !memcmp(a.at, b.at, a.size); }

/* What was recorded. */

static int opened(struct bytes path) {
    static struct { struct bytes path; int fd; } files[MOST_FILES];
    static int count;
    char text[4096];
    for (int i = count - 1; i >= 0; i--)
        if (same(files[i].path, path)) return files[i].fd;
    if (!path.size) return -1;
    if (count == MOST_FILES) fail("more than %d files", MOST_FILES);
    snprintf(text, sizeof text, "%.*s", (int)path.size, (char *)path.at);
    files[count].path = path;
    if ((files[count].fd = open(text, O_RDONLY)) < 0) fail("open %s: %s", text, strerror(errno));
    return files[count++].fd;
}

static struct topic *new_topic(struct bytes name, struct bytes id) {
    if (topic_count == MOST_TOPICS) fail("more than %d topics", MOST_TOPICS);
    struct topic *topic = &topics[topic_count++];
    *topic = (struct topic){name, id, calloc(MOST_PARTITIONS, sizeof *topic->partitions)};
    for (int i = 0; i < MOST_PARTITIONS; i++) topic->partitions[i].fd = -1;
    return topic;
}

static struct partition *partition_of(struct topic *topic, int32_t number) {
    if (number < 0 || number >= MOST_PARTITIONS) fail("no partition %d", number);
    return &topic->partitions[number];
}

static void read_answers(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) fail("cannot open %s", path);
    fseek(file, 0, SEEK_END);
    size_t size = (size_t)ftell(file);
    rewind(file);
    struct walk walk = {malloc(size), NULL};
    walk.end = walk.at + size;
    if (fread(walk.at, 1, size, file) != size) fail("cannot read %s", path);
    fclose(file);
    struct topic *topic = NULL;
    while (walk.at < walk.end) {
        unsigned char kind = *take(&walk, 1);
        if (kind == 'A') {
            if (answer_count == MOST_ANSWERS) fail("more than %d answers", MOST_ANSWERS);
            answers[answer_count].key = take_sized(&walk);
            answers[answer_count++].answer = take_sized(&walk);
        } else if (kind == 'T') {
            struct bytes name = take_sized(&walk);
            topic = new_topic(name, take_sized(&walk));
        } else if (kind == 'F' && topic) {
            struct partition *partition = partition_of(topic, take_i32(&walk));
            struct piece piece = {.offset = take_i64(&walk), .position = take_i64(&walk), .length = take_i32(&walk)};
            piece.fd = opened(take_sized(&walk));
            piece.head = take_sized(&walk);
            piece.tail = take_sized(&walk);
            partition->pieces = realloc(partition->pieces, sizeof piece * (size_t)(partition->count + 1));
            partition->pieces[partition->count++] = piece;
            if (!piece.length) partition->next_offset = piece.offset;
        } else {
            fail("%s holds an entry of kind %d", path, kind);
        }
    }
}

/* Sending. */

static void put(struct connection *connection, struct part part) {
    if (connection->part_count == MOST_PARTS) fail("an answer has more than %d parts", MOST_PARTS);
    if (part.size) connection->parts[connection->part_count++] = part;
}

static void put_bytes(struct connection *connection, unsigned char *at, size_t size) {
    put(connection, (struct part){at, size, -1, 0});
}

static void put_i32(unsigned char *at, uint32_t value) {
    value = htobe32(value);
    memcpy(at, &value, 4);
}

static unsigned char *put_uvarint(unsigned char *at, uint32_t value) {
    for (; value > 0x7f; value >>= 7) *at++ = (unsigned char)(value & 0x7f) | 0x80;
    *at++ = (unsigned char)value;
    return at;
}

static unsigned char *room_for_answer(struct connection *connection, size_t size) {
    if (size > connection->answer_room) connection->answer = realloc(connection->answer, connection->answer_room = size);
    return connection->answer;
}

static void listen_for(struct connection *connection, int writing) {
    struct epoll_event event = {.events = writing ? EPOLLOUT : EPOLLIN, .data.ptr = connection};
    if (connection->writing == writing) return;
    connection->writing = writing;
    epoll_ctl(poller, EPOLL_CTL_MOD, connection->fd, &event);
}

/* As much as the socket takes; true when all is sent. */
static int sent(struct connection *connection) {
    while (connection->part_at < connection->part_count) {
        struct part *part = &connection->parts[connection->part_at];
        int more = connection->part_at + 1 < connection->part_count ? MSG_MORE : 0;
        ssize_t n = part->fd < 0 ? send(connection->fd, part->at, part->size, MSG_NOSIGNAL | MSG_DONTWAIT | more)
                                 : sendfile(connection->fd, part->fd, &part->position, part->size);
        if (n < 0 && errno != EAGAIN) connection->closed = 1;
        if (n <= 0) return 0;
        if (part->fd < 0) part->at += n;
        if (!(part->size -= (size_t)n)) connection->part_at++;
    }
    connection->part_at = connection->part_count = 0;
    return 1;
}

/* Produce. */

static struct topic *topic_of(struct bytes name_or_id) {
    for (int i = 0; i < topic_count; i++)
        if (same(topics[i].name, name_or_id) || same(topics[i].id, name_or_id)) return &topics[i];
    unsigned char *copy = memcpy(malloc(name_or_id.size), name_or_id.at, name_or_id.size);
    return new_topic((struct bytes){copy, name_or_id.size}, (struct bytes){copy, 0});
}

static void open_log(struct topic *topic, int32_t number) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%d-%d", directory, (int)(topic - topics), number);
    struct partition *partition = partition_of(topic, number);
    partition->fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 0644);
    if (partition->fd < 0) fail("open %s: %s", path, strerror(errno));
}

static void append(struct topic *topic, int32_t number, struct bytes records) {
    struct partition *partition = partition_of(topic, number);
    if (partition->fd < 0) open_log(topic, number);
    for (size_t at = 0; at + BATCH_HEADER <= records.size;) {
        struct walk size = {records.at + at + BATCH_SIZE_AT, records.at + records.size};
        struct walk count = {records.at + at + BATCH_COUNT_AT, records.at + records.size};
        uint64_t offset = htobe64((uint64_t)partition->next_offset);
        memcpy(records.at + at, &offset, 8);
        partition->next_offset += take_i32(&count);
        at += (size_t)take_i32(&size) + 12;
    }
    if (write(partition->fd, records.at, records.size) != (ssize_t)records.size) fail("write: %s", strerror(errno));
    partition->last_size = records.size;
    has_written = 1;
}

/* Writes what stands behind the request's header; each partition is answered with the offset of its first record. */
static void answer_produce(struct connection *connection, unsigned char *correlation, struct walk *walk, int version) {
    unsigned char *answer = room_for_answer(connection, FIRST_ROOM);
    memcpy(answer + 4, correlation, 4);
    answer[8] = 0; /* the header's tags */
    take_compact(walk);
    take(walk, 2 + 4);
    uint32_t topics_left = take_uvarint(walk);
    size_t at = (size_t)(put_uvarint(answer + 9, topics_left) - answer);
    for (; topics_left > 1; topics_left--) {
        unsigned char *begin = walk->at;
        struct topic *topic = topic_of(version >= 13 ? (struct bytes){take(walk, 16), 16} : take_compact(walk));
        size_t name_size = (size_t)(walk->at - begin);
        uint32_t left = take_uvarint(walk);
        answer = room_for_answer(connection, at + name_size + 32 + left * PRODUCED_PARTITION);
        memcpy(answer + at, begin, name_size);
        at = (size_t)(put_uvarint(answer + at + name_size, left) - answer);
        for (; left > 1; left--, at += PRODUCED_PARTITION) {
            int32_t number = take_i32(walk);
            uint64_t base = htobe64((uint64_t)partition_of(topic, number)->next_offset);
            append(topic, number, take_compact(walk));
            skip_tags(walk);
            memset(answer + at, 0, PRODUCED_PARTITION);
            put_i32(answer + at, (uint32_t)number);
            memcpy(answer + at + 6, &base, 8);
            memset(answer + at + 14, 0xff, 8); /* no time of appending */
            answer[at + 30] = 1; /* no errors of records */
        }
        skip_tags(walk);
        answer[at++] = 0;
    }
    memset(answer + at, 0, 5); /* throttle time, tags */
    put_i32(answer, (uint32_t)at + 5 - 4);
    put_bytes(connection, answer, at + 5);
}

/* A commit is written as it was asked for. */
static void write_commit(struct bytes request) {
    static int fd = -1;
    char path[4096];
    snprintf(path, sizeof path, "%s/commits", directory);
    if (fd < 0) fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0644);
    if (write(fd, request.at, request.size) != (ssize_t)request.size) fail("write: %s", strerror(errno));
}

/* Fetch. */

struct asked { struct partition *partition; int64_t offset; };
struct fetch { int32_t wait_ms; size_t max_bytes; struct bytes topic; int count; struct asked asked[MOST_PARTITIONS]; };

static void read_fetch(struct walk *walk, int version, struct fetch *fetch) {
    if (version < 15) take_i32(walk);
    fetch->wait_ms = take_i32(walk);
    take_i32(walk);
    fetch->max_bytes = (size_t)take_i32(walk);
    take(walk, 1 + 4 + 4);
    fetch->count = 0;
    uint32_t count = take_uvarint(walk);
    if (count > 2) fail("a Fetch of more than one topic");
    if (count < 2) return;
    unsigned char *begin = walk->at;
    struct topic *topic = topic_of(version >= 13 ? (struct bytes){take(walk, 16), 16} : take_compact(walk));
    fetch->topic = (struct bytes){begin, (size_t)(walk->at - begin)};
    for (uint32_t left = take_uvarint(walk); left > 1; left--) {
        struct asked *asked = &fetch->asked[fetch->count++];
        if (fetch->count == MOST_PARTITIONS) fail("a Fetch of %d partitions", MOST_PARTITIONS);
        asked->partition = partition_of(topic, take_i32(walk));
        take(walk, 4);
        asked->offset = take_i64(walk);
        take(walk, 4 + 8 + 4);
        skip_tags(walk);
    }
}

/* What was recorded at this offset, or at the end if that is behind it. */
static struct piece *found(struct asked *asked) {
    struct partition *partition = asked->partition;
    if (!partition->count) fail("a Fetch of a partition that was not recorded");
    int low = 0, high = partition->count - 1;
    while (low < high) {
        int middle = (low + high) / 2;
        if (partition->pieces[middle].offset < asked->offset) low = middle + 1;
        else high = middle;
    }
    struct piece *piece = &partition->pieces[low];
    if (piece->offset > asked->offset || (piece->offset < asked->offset && piece->length))
        fail("nothing was recorded at offset %lld", (long long)asked->offset);
    return piece;
}

/* The records of one partition: the recorded ones, or behind their end those that were appended last. */
static struct part records_of(struct asked *asked, struct piece *piece) {
    struct partition *partition = asked->partition;
    if (piece->length || asked->offset >= partition->next_offset)
        return (struct part){NULL, (size_t)piece->length, piece->fd, piece->position};
    off_t end = lseek(partition->fd, 0, SEEK_END);
    return (struct part){NULL, partition->last_size, partition->fd, end - (off_t)partition->last_size};
}

/* Whether it is answered: not if there is nothing, unless it has to be. */
static int answer_fetch(struct connection *connection, unsigned char *correlation, struct fetch *fetch, int at_once) {
    static struct piece *pieces[MOST_PARTITIONS];
    static struct part records[MOST_PARTITIONS];
    size_t room = 64 + fetch->topic.size, size = 0, found_bytes = 0;
    for (int i = 0; i < fetch->count; i++) {
        pieces[i] = found(&fetch->asked[i]);
        records[i] = records_of(&fetch->asked[i], pieces[i]);
        if (found_bytes >= fetch->max_bytes) records[i].size = 0;
        found_bytes += records[i].size;
        room += 5 + pieces[i]->head.size;
    }
    if (!found_bytes && !at_once) return 0;
    unsigned char *at = room_for_answer(connection, room), *begin = at;
    memcpy(at + 4, correlation, 4);
    memset(at + 8, 0, 1 + 4 + 2 + 4); /* the header's tags, throttle time, error code, session */
    at = put_uvarint(at + 19, fetch->count ? 2 : 1);
    if (fetch->count) {
        memcpy(at, fetch->topic.at, fetch->topic.size);
        at = put_uvarint(at + fetch->topic.size, (uint32_t)fetch->count + 1);
    }
    for (int i = 0; i < fetch->count; i++) {
        struct piece *piece = pieces[i];
        memcpy(at, piece->head.at, piece->head.size);
        at = put_uvarint(at + piece->head.size, (uint32_t)records[i].size + 1);
        size += records[i].size + piece->tail.size;
        put_bytes(connection, begin, (size_t)(at - begin));
        put(connection, records[i]);
        put_bytes(connection, piece->tail.at, piece->tail.size);
        begin = at;
    }
    for (int tags = fetch->count ? 2 : 1; tags; tags--) *at++ = 0; /* of the topic, and of all */
    put_bytes(connection, begin, (size_t)(at - begin));
    size += (size_t)(at - connection->answer);
    put_i32(connection->answer, (uint32_t)size - 4);
    return 1;
}

/* One request. */

/* The recorded answer to the request that begins so; ``kind`` are its key and version, ``rest`` follows the correlation id. */
static struct answer *recorded(struct connection *connection, struct bytes kind, struct bytes rest) {
    struct answer *alike = NULL;
    for (int i = connection->last ? -1 : 0; i < answer_count; i++) {
        struct answer *answer = i < 0 ? connection->last : &answers[i];
        if (memcmp(answer->key.at, kind.at, kind.size)) continue;
        alike = answer;
        if (same((struct bytes){answer->key.at + kind.size, answer->key.size - kind.size}, rest)) return answer;
    }
    if (!alike) fprintf(stderr, "no request %d of version %d was recorded\n", kind.at[0] << 8 | kind.at[1], kind.at[2] << 8 | kind.at[3]);
    return alike;
}

/* Whether it is answered: a Fetch that finds nothing is not, unless it has to be. */
static int answered(struct connection *connection, struct bytes request, int at_once) {
    static struct fetch fetch;
    struct walk walk = {request.at, request.at + request.size};
    int key = take_i16(&walk), version = take_i16(&walk);
    unsigned char *correlation = take(&walk, 4);
    struct bytes rest = {walk.at, (size_t)(walk.end - walk.at)};
    if (key == PRODUCE || key == FETCH) {
        int16_t client_id = take_i16(&walk);
        take(&walk, client_id > 0 ? (size_t)client_id : 0);
        skip_tags(&walk);
    }
    if (key == FETCH) {
        read_fetch(&walk, version, &fetch);
        if (answer_fetch(connection, correlation, &fetch, at_once)) return 1;
        connection->held_until_ns = now_ns() + (uint64_t)fetch.wait_ms * 1000000u;
        return 0;
    }
    if (key == OFFSET_COMMIT) write_commit(rest);
    if (key == PRODUCE) {
        answer_produce(connection, correlation, &walk, version);
        return 1;
    }
    struct answer *found = recorded(connection, (struct bytes){request.at, 4}, rest);
    if (!found) {
        connection->closed = 1;
        return 1;
    }
    connection->last = found;
    struct bytes answer = found->answer;
    memcpy(room_for_answer(connection, answer.size), answer.at, answer.size);
    memcpy(connection->answer + 4, correlation, 4);
    put_bytes(connection, connection->answer, answer.size);
    return 1;
}

/* Connections. */

static void let_go(struct connection *connection) {
    struct connection **at = &held;
    while (*at && *at != connection) at = &(*at)->next_held;
    if (*at) *at = connection->next_held;
    connection->held_until_ns = 0;
}

static void leave(struct connection *connection) {
    let_go(connection);
    close(connection->fd);
    free(connection->requests);
    free(connection->answer);
    free(connection->parts);
    free(connection);
}

/* Answers what is received, until an answer cannot be sent yet or a Fetch waits. */
static void serve(struct connection *connection, int at_once) {
    size_t done = 0, size = 0;
    while (!connection->closed && !connection->held_until_ns && sent(connection) && connection->got - done >= 4) {
        uint32_t prefix;
        memcpy(&prefix, connection->requests + done, 4);
        if ((size = 4 + (size_t)be32toh(prefix)) > MOST_REQUEST) fail("a request of %zu bytes", size);
        if (connection->got - done < size) break;
        if (answered(connection, (struct bytes){connection->requests + done + 4, size - 4}, at_once)) done += size;
        else { connection->next_held = held; held = connection; }
        at_once = 0;
        size = 0;
    }
    if (done) memmove(connection->requests, connection->requests + done, connection->got -= done);
    if (size > connection->room) connection->requests = realloc(connection->requests, connection->room = size);
    listen_for(connection, connection->part_count > 0);
}

static void receive(struct connection *connection) {
    if (connection->got == connection->room) connection->requests = realloc(connection->requests, connection->room *= 2);
    ssize_t n = recv(connection->fd, connection->requests + connection->got, connection->room - connection->got, 0);
    if (n == 0 || (n < 0 && errno != EAGAIN)) connection->closed = 1;
    if (n > 0) connection->got += (size_t)n;
}

/* Fetches that wait are answered when something was written, or their time is over. */
static void serve_held(void) {
    uint64_t now = now_ns();
    for (struct connection *connection = held, *next; connection; connection = next) {
        next = connection->next_held;
        int is_over = now >= connection->held_until_ns;
        if (!has_written && !is_over) continue;
        uint64_t until_ns = connection->held_until_ns;
        let_go(connection);
        serve(connection, is_over);
        if (connection->held_until_ns) connection->held_until_ns = until_ns;
    }
    has_written = 0;
}

static int listening(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, (struct sockaddr *)&address, sizeof address) || listen(fd, 4096)) fail("port %d: %s", port, strerror(errno));
    return fd;
}

static void welcome(int listener) {
    int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK), on = 1;
    if (fd < 0) return;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    struct connection *connection = calloc(1, sizeof *connection);
    connection->fd = fd;
    connection->requests = malloc(connection->room = FIRST_ROOM);
    connection->parts = malloc(MOST_PARTS * sizeof *connection->parts);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};
    epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event);
}

int main(int argc, char **argv) {
    if (argc != 4) fail("usage: ceiling PORT ANSWERS DIRECTORY");
    read_answers(argv[2]);
    directory = argv[3];
    struct epoll_event events[EVENTS], event = {.events = EPOLLIN, .data.ptr = NULL};
    int listener = listening(atoi(argv[1]));
    poller = epoll_create1(0);
    epoll_ctl(poller, EPOLL_CTL_ADD, listener, &event);
    for (;;) {
        int n = epoll_wait(poller, events, EVENTS, held ? HELD_LOOK_MS : -1);
        for (int i = 0; i < n; i++) {
            struct connection *connection = events[i].data.ptr;
            if (!connection) { welcome(listener); continue; }
            if (!connection->writing) receive(connection);
            if (!connection->closed) serve(connection, 0);
            if (connection->closed) leave(connection);
        }
        if (held) serve_held();
    }
}
