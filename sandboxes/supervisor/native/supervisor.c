/*
 * The supervisor of one sandbox: its pid 1, one thread, one poll loop. It holds the shell and the journal of calls,
 * so that a call with a known id never runs twice. It never blocks on a single client, command or process.
 *
 * PROTOCOL, on the UNIX socket that the launcher opened. A frame, in both directions:
 *     u32 length of the rest · u32 tag, chosen by the client and repeated in the answer · u8 operation · body
 * Integers are little-endian; bytes and strings (UTF-8, no NUL) are a u32 length and that many bytes.
 *
 *   operation   request body                                           answer body
 *   1 HELLO     (empty)                                                u8 phase (0 no spec yet, 1 has one)
 *   2 INIT      see init(); the first one counts                       u8 1 if this one was the first
 *   3 EXEC      str id, u8 fresh, u32 timeout ms, u32 output limit,    u8 flags (1 timed out, 2 out of memory, 4 shell
 *               str command, u32 ms of processor time (0: it is not    restarted), i32 exit code or -1, u32 signal or 0
 *               counted). fresh: 1 a new bash in the workspace in      (SIGXCPU: it had spent its processor time), u64
 *               place of the long-lived one; 2 the same, when          bytes dropped, u32 ms, bytes head, bytes tail, u32
 *               everything of the policy that still ran has ended      ms of processor time
 *   4 READ      str path, u64 limit in bytes                           u8 kind, then 0 file: bytes; 1 directory: u32 n,
 *                                                                      n str; 2 missing; 3 denied: str; 4 too large: u64
 *   5 WRITE     str id, str path, str note, bytes                      str note, str error (empty if none)
 *   6 WRITTEN   str id                                                 u8 1 and the body of WRITE, or u8 0
 *   7 RENEW     u64 time to live in ms                                 (empty)
 *   9 STATE     (empty)                                                str directory of the shell, bytes its exports
 *  10 RESUME    str directory, bytes exports: the shell restarts       (empty); an error while a call runs or waits
 *  11 DOOR_OPEN  u32 port wanted                                     u32 port
 *  12 DOOR_WAIT  u64 largest connection seen, u32 n, n x (u64        u32 n, n x (u64 connection, u8 flags, u64 from,
 *               connection, u64 bytes and u8 flags that are known);  bytes). flags: 1 it sends no more, 2 it is over, 4
 *               answered when there is more, or after 20 s           it may send no more
 *  13 DOOR_ANSWER u64 connection, bytes; then it is closed           u8 1 if this was its first answer
 *   8 END       (empty)                                                none: the sandbox ends, the connection closes
 *   127 ERROR   never a request                                        str message
 *
 * Calls run one at a time in the order of arrival. A request that breaks the frame format closes its connection.
 */
#define _GNU_SOURCE
#include "supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SPEC_WITHIN_MS = 60000, MAX_UNREAD = 32 << 20 };

struct client { int fd; uint64_t number; struct buf in, out; };

struct spec spec;
static struct client clients[MAX_CLIENTS];
static int client_count;
static uint64_t last_number, ends_at;

int clients_now(void) { return client_count; }

uint64_t now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void flush(struct client *c) {
  size_t done = 0;
  while (c->fd >= 0 && done < c->out.len) {
    ssize_t n = send(c->fd, c->out.p + done, c->out.len - done, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n <= 0) break;
    done += (size_t)n;
  }
  if (done) memmove(c->out.p, c->out.p + done, c->out.len - done);
  c->out.len -= done;
  if (!c->out.len) buf_free(&c->out);
}

void reply(uint64_t number, uint32_t tag, uint8_t op, const struct buf *body) {
  for (int i = 0; i < client_count; i++) {
    struct client *c = &clients[i];
    if (c->number != number) continue;
    size_t len = body ? body->len : 0;
    if (c->out.len > MAX_UNREAD) {
      /* It sends requests and never reads. Its connection is closed; it may connect again. */
      shutdown(c->fd, SHUT_RDWR);
      continue;
    }
    buf_reserve(&c->out, len + 9);
    buf_u32(&c->out, (uint32_t)(len + 5));
    buf_u32(&c->out, tag);
    buf_u8(&c->out, op);
    if (len) buf_add(&c->out, body->p, len);
    flush(c);
  }
}

void reply_error(uint64_t number, uint32_t tag, const char *message) {
  struct buf body = {0};
  buf_str(&body, message);
  reply(number, tag, OP_ERROR, &body);
  buf_free(&body);
}

/* str workdir, u64 ttl ms, u64 open files, u64 file bytes, u64 processes, u64 address bytes,
   u32 n, n x str KEY=VALUE, u32 n, n x (str path, u32 mode, bytes) */
static const char *init(struct cursor *c) {
  static char message[4096];
  spec.workdir = take_str(c);
  ends_at = now_ms() + take_u64(c);
  spec.open_files = take_u64(c);
  spec.file_bytes = take_u64(c);
  spec.processes = take_u64(c);
  spec.address_bytes = take_u64(c);
  uint32_t variables = take_u32(c);
  if (variables > 4096) return "too many variables";
  spec.env = need((variables + 1) * sizeof *spec.env);
  for (uint32_t i = 0; i < variables; i++) spec.env[i] = take_str(c);
  spec.env[variables] = NULL;
  for (uint32_t i = 0; i < variables; i++)
    if (!strncmp(spec.env[i], "HOME=/", 6)) mkdir(spec.env[i] + 5, 0755);
  for (uint32_t files = take_u32(c); files && !c->bad; files--) {
    char *path = take_str(c);
    uint32_t mode = take_u32(c);
    size_t len;
    const uint8_t *content = take_bytes(c, &len);
    const char *error = c->bad ? "malformed" : file_write(path, mode, content, len);
    if (error) {
      strncpy(message, path, sizeof message - 200);
      strcat(strcat(message, ": "), error);
    }
    free(path);
    if (error) return message;
  }
  return c->bad ? "malformed spec" : NULL;
}

static void on_init(uint64_t client, uint32_t tag, struct cursor *c) {
  struct buf body = {0};
  bool first = !spec.workdir;
  buf_u8(&body, first);
  const char *error = first ? init(c) : NULL;
  if (error) {
    reply_error(client, tag, error);
    free(spec.workdir);
    spec.workdir = NULL;
  } else reply(client, tag, OP_INIT, &body);
  buf_free(&body);
}

static void on_read(uint64_t client, uint32_t tag, struct cursor *c) {
  char *path = take_str(c);
  uint64_t max = take_u64(c);
  struct buf body = {0};
  if (c->bad) reply_error(client, tag, "malformed read");
  else {
    file_read(path, max < MAX_READ ? max : MAX_READ, &body);
    reply(client, tag, OP_READ, &body);
  }
  buf_free(&body);
  free(path);
}

static void on_write(uint64_t client, uint32_t tag, struct cursor *c) {
  char *id = take_str(c), *path = take_str(c), *note = take_str(c);
  size_t len;
  const uint8_t *content = take_bytes(c, &len);
  struct buf body = {0};
  enum record kind = RECORD_STARTED;
  if (c->bad) reply_error(client, tag, "malformed write");
  else if (journal_find(id, &kind, &body) == CALL_UNKNOWN) {
    const char *error = file_write(path, 0, content, len);
    buf_str(&body, note);
    buf_str(&body, error ? error : "");
    if (!journal_finished(id, RECORD_WRITE, &body)) _exit(74);
    reply(client, tag, OP_WRITE, &body);
  } else if (kind != RECORD_WRITE) reply_error(client, tag, "the call id belongs to another kind of call");
  else reply(client, tag, OP_WRITE, &body);
  buf_free(&body);
  free(id);
  free(path);
  free(note);
}

static void on_written(uint64_t client, uint32_t tag, struct cursor *c) {
  char *id = take_str(c);
  struct buf body = {0}, answer = {0};
  enum record kind = RECORD_STARTED;
  bool known = !c->bad && journal_find(id, &kind, &body) == CALL_FINISHED && kind == RECORD_WRITE;
  buf_u8(&answer, known);
  if (known) buf_add(&answer, body.p, body.len);
  reply(client, tag, OP_WRITTEN, &answer);
  buf_free(&body);
  buf_free(&answer);
  free(id);
}

static void on_state(uint64_t client, uint32_t tag) {
  struct buf body = {0};
  if (shell.pid > 0) shell_note_directory();
  buf_str(&body, shell.cwd ? shell.cwd : "");
  buf_bytes(&body, shell.exports.p, shell.exports.len);
  reply(client, tag, OP_STATE, &body);
  buf_free(&body);
}

static void on_resume(uint64_t client, uint32_t tag, struct cursor *c) {
  char *cwd = take_str(c);
  size_t len;
  const uint8_t *exports = take_bytes(c, &len);
  if (c->bad) reply_error(client, tag, "malformed state");
  else if (!spec.workdir || !calls_idle()) reply_error(client, tag, "a call runs");
  else {
    shell_resume(cwd, exports, len);
    reply(client, tag, OP_RESUME, NULL);
  }
  free(cwd);
}

static void on_request(uint64_t client, uint32_t tag, uint8_t op, struct cursor *c) {
  struct buf body = {0};
  switch (op) {
    case OP_HELLO:
      buf_u8(&body, spec.workdir ? PHASE_READY : PHASE_NEW);
      reply(client, tag, OP_HELLO, &body);
      buf_free(&body);
      return;
    case OP_INIT: on_init(client, tag, c); return;
    case OP_EXEC: call_request(client, tag, c); return;
    case OP_READ: on_read(client, tag, c); return;
    case OP_WRITE: on_write(client, tag, c); return;
    case OP_WRITTEN: on_written(client, tag, c); return;
    case OP_RENEW: {
      /* The warm pool's renewal may arrive after that of the sandbox's new owner: it must not shorten the time. */
      uint64_t until = now_ms() + take_u64(c);
      if (!spec.workdir || until > ends_at) ends_at = until;
      reply(client, tag, OP_RENEW, NULL);
      return;
    }
    case OP_STATE: on_state(client, tag); return;
    case OP_RESUME: on_resume(client, tag, c); return;
    case OP_END: _exit(0); /* pid 1: the kernel ends everything else before this process is gone */
    default:
      if (!door_request(client, tag, op, c)) reply_error(client, tag, "unknown operation");
  }
}

static void drop_client(struct client *c) {
  close(c->fd);
  calls_client_gone(c->number);
  door_client_gone(c->number);
  buf_free(&c->in);
  buf_free(&c->out);
  *c = clients[--client_count];
}

/* False if the client is gone. */
static bool receive(struct client *c) {
  uint8_t chunk[65536];
  ssize_t n = recv(c->fd, chunk, sizeof chunk, MSG_DONTWAIT);
  if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) return false;
  if (n > 0) buf_add(&c->in, chunk, (size_t)n);
  size_t done = 0;
  while (c->in.len - done >= 4) {
    struct cursor head = {.p = c->in.p + done, .left = 4};
    size_t len = take_u32(&head);
    if (len < 5 || len > MAX_FRAME) return false;
    if (c->in.len - done - 4 < len) break;
    struct cursor frame = {.p = c->in.p + done + 4, .left = len};
    uint32_t tag = take_u32(&frame);
    uint8_t op = take_u8(&frame);
    on_request(c->number, tag, op, &frame);
    done += 4 + len;
  }
  if (done) memmove(c->in.p, c->in.p + done, c->in.len - done);
  c->in.len -= done;
  if (!c->in.len) buf_free(&c->in);
  return true;
}

static void accept_client(void) {
  int fd = accept4(LISTEN_FD, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd < 0) return;
  if (client_count == MAX_CLIENTS) close(fd);
  else clients[client_count++] = (struct client){.fd = fd, .number = ++last_number};
}

/* True if any process has ended. */
static bool reap(void) {
  int status;
  bool any = false;
  pid_t pid;
  for (; (pid = waitpid(-1, &status, WNOHANG)) > 0; any = true) calls_reaped(pid, status);
  if (pid < 0 && errno == ECHILD) calls_none_left();
  return any;
}

static int until_next(void) {
  uint64_t now = now_ms();
  int64_t wait = ends_at > now ? (int64_t)(ends_at - now) : 0, calls = calls_wait(), room = room_wait(), door = door_wait_ms();
  if (calls >= 0 && calls < wait) wait = calls;
  if (room >= 0 && room < wait) wait = room;
  if (door >= 0 && door < wait) wait = door;
  return wait > 60000 ? 60000 : (int)wait;
}

static void turn(int signals) {
  enum { OWN = 8 };
  struct pollfd fds[OWN + MAX_CLIENTS + MAX_GUESTS + 1];
  int work[4], n = 0, count = client_count;
  fds[n++] = (struct pollfd){.fd = LISTEN_FD, .events = POLLIN};
  fds[n++] = (struct pollfd){.fd = signals, .events = POLLIN};
  int works = calls_fds(work);
  for (int i = 0; i < works; i++) fds[n++] = (struct pollfd){.fd = work[i], .events = POLLIN};
  if (shell_wants_to_write()) fds[n++] = (struct pollfd){.fd = shell.script, .events = POLLOUT};
  for (int i = 0; i < count; i++)
    fds[n + i] = (struct pollfd){
      .fd = clients[i].fd, .events = (short)(POLLIN | (clients[i].out.len ? POLLOUT : 0))};
  struct pollfd *door = fds + n + count;
  int doors = door_fds(door);
  poll(fds, (nfds_t)(n + count + doors), until_next());
  if (now_ms() >= ends_at) _exit(0);
  if (fds[1].revents) {
    struct signalfd_siginfo info;
    while (read(signals, &info, sizeof info) > 0) {}
  }
  bool sweep = reap();
  for (int i = 0; i < count; i++) sweep |= (fds[n + i].revents & POLLIN) != 0;
  if (sweep) sockets_sweep();
  for (int i = count - 1; i >= 0; i--) {
    if (fds[n + i].revents & POLLOUT) flush(&clients[i]);
    if (fds[n + i].revents & (POLLIN | POLLHUP | POLLERR) && !receive(&clients[i])) drop_client(&clients[i]);
  }
  if (fds[0].revents) accept_client();
  calls_step();
  door_step(door, doors);
  room_keep();
}

int main(int argc, char **argv) {
  if (argc > 1 && !strcmp(argv[1], "launch")) return launch(argc, argv);
  if (argc == 3 && !strcmp(argv[1], "attach")) return attach(argv[2]);
  if (argc == 7 && !strcmp(argv[1], "contain")) contain(argv + 2);
  else if (argc != 2 || strcmp(argv[1], "supervise")) return 2;
  else places_await();
  prctl(PR_SET_DUMPABLE, 0);
  for (int fd = LISTEN_FD; fd < FIRST_FREE_FD; fd++) fcntl(fd, F_SETFD, FD_CLOEXEC);
  fcntl(LISTEN_FD, F_SETFL, O_NONBLOCK);
  if (argc == 2) close(INFO_FD);
  signal(SIGPIPE, SIG_IGN);
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  sigprocmask(SIG_BLOCK, &child, NULL);
  int signals = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
  if (signals < 0) return 71;
  /* Sockets per client in this network namespace: outside a container none; of an attached connection both ends. */
  sockets_watch(argc == 2 ? 0 : strcmp(argv[6], "0") ? 2 : 1);
  ends_at = now_ms() + SPEC_WITHIN_MS;
  for (;;) turn(signals);
}
