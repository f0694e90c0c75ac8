/*
 * The door: a port on the sandbox's loopback interface, from which bytes go to a worker and nowhere else. The supervisor
 * reads nothing in them. Each connection has a number, carries one request and gets one answer; what it sent is kept
 * until it is answered, so that another worker can read all of it again. The first answer counts. Answers that nobody
 * reads are bounded together: the oldest is cut.
 */
#define _GNU_SOURCE
#include "supervisor.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
  MAX_REQUEST = 2 << 20, MAX_HELD = 8 << 20, MAX_UNREAD = 4 << 20, MAX_TOLD = 1 << 20, MAX_WAITS = 16,
  MAX_KNOWN = 256, BACKLOG = 16, WAIT_MS = 20000, LINGER_MS = 2000, READ_WITHIN_MS = 60000,
};
enum door_flag { DOOR_ENDED = 1, DOOR_GONE = 2, DOOR_FULL = 4 };

struct guest { int fd; uint64_t number, closes_at; struct buf in, out; bool ended, answered; };
/* What a worker knows of a connection. */
struct known { uint64_t number, bytes; uint8_t flags; };
struct door_wait { uint64_t client, seen, until; uint32_t tag, count; struct known *known; };

static int listener = -1;
static uint32_t port;
static uint64_t last_number;
static struct guest guests[MAX_GUESTS];
static int guest_count;
static size_t held;
static struct door_wait waits[MAX_WAITS];
static int wait_count;

int door_sockets(void) { return (listener >= 0) + 2 * guest_count; }

/* Port 0, or one that is in use: the kernel chooses. */
static bool listen_at(uint32_t wanted) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)wanted), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t len = sizeof at;
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return false;
  if ((bind(fd, (struct sockaddr *)&at, len) && (at.sin_port = 0, bind(fd, (struct sockaddr *)&at, len))) ||
      listen(fd, BACKLOG) || getsockname(fd, (struct sockaddr *)&at, &len)) {
    close(fd);
    return false;
  }
  listener = fd;
  port = ntohs(at.sin_port);
  return true;
}

static void drop_guest(struct guest *g) {
  close(g->fd);
  held -= g->in.len;
  buf_free(&g->in);
  buf_free(&g->out);
  *g = guests[--guest_count];
}

static struct guest *guest_of(uint64_t number) {
  for (int i = 0; i < guest_count; i++)
    if (guests[i].number == number) return &guests[i];
  return NULL;
}

static uint8_t flags_of(const struct guest *g) {
  return (uint8_t)((g->ended ? DOOR_ENDED : 0) | (g->in.len >= MAX_REQUEST ? DOOR_FULL : 0));
}

static const struct known *known_of(const struct door_wait *w, uint64_t number) {
  for (uint32_t i = 0; i < w->count; i++)
    if (w->known[i].number == number) return &w->known[i];
  return NULL;
}

static void tell(struct buf *body, uint64_t number, uint8_t flags, size_t from, const uint8_t *bytes, size_t len) {
  buf_u64(body, number);
  buf_u8(body, flags);
  buf_u64(body, from);
  buf_bytes(body, bytes, len);
}

/* What is new to the waiting worker: the number of connections told. */
static uint32_t news_for(const struct door_wait *w, struct buf *body) {
  uint32_t count = 0;
  for (int i = 0; i < guest_count; i++) {
    const struct guest *g = &guests[i];
    const struct known *k = known_of(w, g->number);
    if (g->answered || (!k && g->number <= w->seen)) continue;
    size_t from = k && k->bytes < g->in.len ? (size_t)k->bytes : k ? g->in.len : 0, len = g->in.len - from;
    if (k && !len && k->flags == flags_of(g)) continue;
    if (body->len >= MAX_TOLD) continue;
    if (len > MAX_TOLD - body->len) len = MAX_TOLD - body->len;
    /* The end is told with the last byte: before it, the request would seem cut. */
    tell(body, g->number, from + len < g->in.len ? 0 : flags_of(g), from, g->in.p + from, len);
    count++;
  }
  for (uint32_t i = 0; i < w->count; i++) {
    const struct guest *g = guest_of(w->known[i].number);
    if (g && !g->answered) continue;
    tell(body, w->known[i].number, DOOR_GONE, 0, NULL, 0);
    count++;
  }
  return count;
}

/* True if the wait has ended. */
static bool tell_news(const struct door_wait *w, uint64_t now) {
  struct buf news = {0}, body = {0};
  uint32_t count = news_for(w, &news);
  bool over = count || now >= w->until;
  if (over) {
    buf_u32(&body, count);
    buf_add(&body, news.p, news.len);
    reply(w->client, w->tag, OP_DOOR_WAIT, &body);
  }
  buf_free(&news);
  buf_free(&body);
  return over;
}

static void end_wait(int i) {
  free(waits[i].known);
  waits[i] = waits[--wait_count];
}

void door_client_gone(uint64_t client) {
  for (int i = wait_count - 1; i >= 0; i--)
    if (waits[i].client == client) end_wait(i);
}

/* u32 port wanted -> u32 port */
static void on_open(uint64_t client, uint32_t tag, struct cursor *c) {
  uint32_t wanted = take_u32(c);
  struct buf body = {0};
  if (c->bad || wanted > 65535) reply_error(client, tag, "malformed door");
  else if (!spec.workdir) reply_error(client, tag, "the sandbox has no spec yet");
  else if (listener < 0 && !listen_at(wanted)) reply_error(client, tag, "no port can be opened");
  else {
    buf_u32(&body, port);
    reply(client, tag, OP_DOOR_OPEN, &body);
  }
  buf_free(&body);
}

/* u64 largest number seen, u32 n, n x (u64 number, u64 bytes, u8 flags) -> u32 n, n x (u64 number, u8 flags, u64 from, bytes) */
static void on_wait(uint64_t client, uint32_t tag, struct cursor *c) {
  struct door_wait w = {.client = client, .tag = tag, .until = now_ms() + WAIT_MS, .seen = take_u64(c)};
  w.count = take_u32(c);
  if (c->bad || w.count > MAX_KNOWN || wait_count == MAX_WAITS) {
    reply_error(client, tag, "malformed wait, or too many");
    return;
  }
  w.known = need(w.count * sizeof *w.known);
  for (uint32_t i = 0; i < w.count; i++) {
    w.known[i].number = take_u64(c);
    w.known[i].bytes = take_u64(c);
    w.known[i].flags = take_u8(c);
  }
  waits[wait_count++] = w;
  if (c->bad) reply_error(client, tag, "malformed wait");
  if (c->bad || tell_news(&w, now_ms())) end_wait(wait_count - 1);
}

static void flush_guest(struct guest *g) {
  size_t done = 0;
  while (done < g->out.len) {
    ssize_t n = send(g->fd, g->out.p + done, g->out.len - done, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n <= 0) break;
    done += (size_t)n;
  }
  if (done) memmove(g->out.p, g->out.p + done, g->out.len - done);
  g->out.len -= done;
  if (g->out.len) return;
  buf_free(&g->out);
  /* Closed at once, unread bytes would reset the connection, and the answer with it. */
  shutdown(g->fd, SHUT_WR);
  g->closes_at = now_ms() + LINGER_MS;
}

/* Connections that are cut are reset in the next door_step, which has events for each place in `guests` until then. */
static void cut_unread(void) {
  const struct linger none = {.l_onoff = 1};
  for (;;) {
    size_t unread = 0;
    struct guest *oldest = NULL;
    for (int i = 0; i < guest_count; i++) {
      struct guest *g = &guests[i];
      unread += g->out.len;
      if (g->out.len && (!oldest || g->closes_at < oldest->closes_at)) oldest = g;
    }
    if (unread <= MAX_UNREAD) return;
    buf_free(&oldest->out);
    setsockopt(oldest->fd, SOL_SOCKET, SO_LINGER, &none, sizeof none);
    oldest->closes_at = now_ms();
  }
}

/* u64 number, bytes -> u8 1 if this was the first answer */
static void on_answer(uint64_t client, uint32_t tag, struct cursor *c) {
  uint64_t number = take_u64(c);
  size_t len;
  const uint8_t *bytes = take_bytes(c, &len);
  struct guest *g = c->bad ? NULL : guest_of(number);
  struct buf body = {0};
  bool first = g && !g->answered;
  if (first) {
    g->answered = true;
    held -= g->in.len;
    buf_free(&g->in);
    buf_add(&g->out, bytes, len);
    g->closes_at = now_ms() + READ_WITHIN_MS;
    flush_guest(g);
    cut_unread();
  }
  buf_u8(&body, first);
  reply(client, tag, OP_DOOR_ANSWER, &body);
  buf_free(&body);
}

bool door_request(uint64_t client, uint32_t tag, uint8_t op, struct cursor *c) {
  switch (op) {
    case OP_DOOR_OPEN: on_open(client, tag, c); return true;
    case OP_DOOR_WAIT: on_wait(client, tag, c); return true;
    case OP_DOOR_ANSWER: on_answer(client, tag, c); return true;
    default: return false;
  }
}

/* False: the kernel keeps the bytes, and the sender waits. */
static bool may_read(const struct guest *g) {
  return !g->ended && (g->answered || (g->in.len < MAX_REQUEST && held < MAX_HELD));
}

/* False if the connection is over. */
static bool read_guest(struct guest *g) {
  uint8_t chunk[65536];
  ssize_t n = recv(g->fd, chunk, sizeof chunk, MSG_DONTWAIT);
  if (n < 0) return errno == EAGAIN || errno == EINTR;
  if (n == 0) g->ended = true;
  if (n == 0) return !g->answered || g->out.len > 0;
  if (!g->answered) {
    buf_add(&g->in, chunk, (size_t)n);
    held += (size_t)n;
  }
  return true;
}

int door_fds(struct pollfd *fds) {
  int n = 0;
  if (listener < 0) return 0;
  fds[n++] = (struct pollfd){.fd = listener, .events = guest_count < MAX_GUESTS ? POLLIN : 0};
  for (int i = 0; i < guest_count; i++)
    fds[n++] = (struct pollfd){.fd = guests[i].fd,
      .events = (short)((may_read(&guests[i]) ? POLLIN : 0) | (guests[i].out.len ? POLLOUT : 0))};
  return n;
}

/* `fds`: what door_fds gave, after poll. */
void door_step(const struct pollfd *fds, int count) {
  uint64_t now = now_ms();
  for (int i = count - 2; i >= 0; i--) {
    struct guest *g = &guests[i];
    short events = fds[i + 1].revents;
    if (events & POLLOUT && g->out.len) flush_guest(g);
    bool over = (events & POLLERR) || (g->answered && now >= g->closes_at);
    if (events & POLLIN && !over) over = !read_guest(g);
    else if (events & POLLHUP) over = true;
    if (over) drop_guest(g);
  }
  if (count && fds[0].revents & POLLIN && guest_count < MAX_GUESTS) {
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) guests[guest_count++] = (struct guest){.fd = fd, .number = ++last_number};
  }
  for (int i = wait_count - 1; i >= 0; i--)
    if (tell_news(&waits[i], now)) end_wait(i);
}

int64_t door_wait_ms(void) {
  uint64_t now = now_ms(), next = 0;
  for (int i = 0; i < wait_count; i++)
    if (!next || waits[i].until < next) next = waits[i].until;
  for (int i = 0; i < guest_count; i++)
    if (guests[i].closes_at && (!next || guests[i].closes_at < next)) next = guests[i].closes_at;
  return !next ? -1 : next > now ? (int64_t)(next - now) : 0;
}
