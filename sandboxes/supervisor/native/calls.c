/*
 * The queue of calls: one runs at a time, each is recorded in the journal before it starts, and every request with the
 * same id gets the same result. If a call reaches its time limit or uses up its processor time, every process of the
 * sandbox is ended.
 */
#define _GNU_SOURCE
#include "supervisor.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KILL_AGAIN_MS = 20, GIVE_UP_KILLING_MS = 5000, MAX_STARTS = 20, MAX_FORKS = 10, ALONE_WITHIN_MS = 2000, COUNT_EVERY_MS = 100 };

struct call {
  char *id, *command;
  bool fresh, alone, ended, killing, reported, spent;
  uint32_t timeout, limit, budget; /* processor time in ms; 0: not counted */
  int code, status, output;
  pid_t pid;
  uint64_t started, deadline, give_up, oom_before, processor_before, count_next, total;
  struct buf head, tail;
  struct waiter *waiters;
  struct call *next;
};

static struct call *current, *queue;
static bool restarted_between; /* the shell ended while no call ran: the next call reports it */
static int starts;             /* starts of the shell since the last call */

static uint64_t oom_kills(void) {
  char text[4096];
  ssize_t n = pread(OOM_FD, text, sizeof text - 1, 0);
  if (n <= 0) return 0;
  text[n] = 0;
  char *line = strstr(text, "oom_kill ");
  return line ? strtoull(line + 9, NULL, 10) : 0;
}

/* Keeps the first and the last half of the limit. The tail buffer may hold twice its half, so that it is rarely moved.
   */
static void keep(struct call *c, const uint8_t *data, size_t len) {
  size_t half = c->limit / 2;
  c->total += len;
  size_t room = half - c->head.len, first = len < room ? len : room;
  buf_add(&c->head, data, first);
  buf_add(&c->tail, data + first, len - first);
  if (c->tail.len > 2 * half + 65536) {
    memmove(c->tail.p, c->tail.p + c->tail.len - half, half);
    c->tail.len = half;
  }
}

/* Reads at most `budget` available bytes, into the call or (NULL) to drop them. */
static void drain(int fd, size_t budget, struct call *into) {
  uint8_t chunk[65536];
  while (budget && fd >= 0) {
    ssize_t n = read(fd, chunk, budget < sizeof chunk ? budget : sizeof chunk);
    if (n <= 0) return;
    budget -= (size_t)n;
    if (into) keep(into, chunk, (size_t)n);
  }
}

static size_t waiting_in(int fd) {
  int n = 0;
  return fd >= 0 && !ioctl(fd, FIONREAD, &n) && n > 0 ? (size_t)n : 0;
}

/* Reaps ended processes. True if no process of the policy remains. */
static bool reap_all(void) {
  int status;
  pid_t pid;
  while ((pid = waitpid(-1, &status, WNOHANG)) > 0) calls_reaped(pid, status);
  return pid < 0 && errno == ECHILD;
}

/* False if no shell can be made even after all processes of the policy were ended. */
static bool ensure_shell(void) {
  if (shell.pid > 0) return true;
  starts++;
  for (int tries = 0; tries < MAX_FORKS; tries++) {
    if (shell_start()) return true;
    /* The policy's remaining processes use up the limit on processes or memory. */
    kill_agents(-1);
    usleep(20000);
    while (waitpid(-1, NULL, WNOHANG) > 0) {}
  }
  return false;
}

/* Restarts the shell between calls. If something ends every new shell, all processes of the policy are ended; if that
   does not help, the next call retries. */
static void keep_shell(void) {
  if (!spec.workdir || shell.pid > 0 || starts > MAX_STARTS) return;
  if (starts == MAX_STARTS) kill_agents(-1);
  ensure_shell();
}

void clear_agents(void) {
  kill_agents(-1);
  for (uint64_t until = now_ms() + ALONE_WITHIN_MS; !reap_all() && now_ms() < until;) usleep(1000);
}

static void free_call(struct call *c) {
  while (c->waiters) {
    struct waiter *w = c->waiters;
    c->waiters = w->next;
    free(w);
  }
  buf_free(&c->head);
  buf_free(&c->tail);
  free(c->id);
  free(c->command);
  free(c);
}

static uint32_t processor_used(const struct call *c) {
  uint64_t now = c->budget ? processor_ms() : 0;
  return now > c->processor_before ? (uint32_t)(now - c->processor_before) : 0;
}

static void result_body(struct call *c, struct buf *body) {
  size_t half = c->limit / 2;
  size_t kept = c->tail.len < half ? c->tail.len : half;
  uint64_t dropped = c->total - c->head.len - kept;
  bool lost_shell = !c->fresh && (shell.pid <= 0 || restarted_between);
  bool by_signal = c->ended && WIFSIGNALED(c->status);
  uint8_t flags = (uint8_t)((c->killing && !c->spent ? TIMED_OUT : 0) | (lost_shell ? SHELL_RESTARTED : 0));
  if (oom_kills() > c->oom_before) flags |= OUT_OF_MEMORY;
  int code = c->reported ? c->code : c->ended && WIFEXITED(c->status) ? WEXITSTATUS(c->status) : -1;
  buf_u8(body, flags);
  buf_u32(body, (uint32_t)(c->killing ? -1 : code));
  buf_u32(body, (uint32_t)(c->spent ? SIGXCPU : c->killing ? SIGKILL : by_signal ? WTERMSIG(c->status) : 0));
  buf_u64(body, dropped);
  buf_u32(body, (uint32_t)(now_ms() - c->started));
  buf_bytes(body, c->head.p, c->head.len);
  buf_bytes(body, c->tail.p + (c->tail.len - kept), kept);
  buf_u32(body, processor_used(c));
}

static void finish(struct call *c) {
  int from = c->fresh ? c->output : shell.output;
  drain(from, waiting_in(from), c);
  if (c->pid > 0) kill_agents(-c->pid); /* processes that it left in its own group; their output would be lost */
  if (c->output >= 0) close(c->output);
  sockets_sweep();
  struct buf body = {0};
  result_body(c, &body);
  if (!c->fresh) restarted_between = false;
  if (!journal_finished(c->id, RECORD_EXEC, &body)) _exit(74);
  for (struct waiter *w = c->waiters; w; w = w->next) reply(w->client, w->tag, OP_EXEC, &body);
  buf_free(&body);
  current = NULL;
  free_call(c);
  keep_shell();
}

static void start(struct call *c) {
  current = c;
  starts = 0;
  c->oom_before = oom_kills();
  if (c->limit > journal_room()) c->limit = (uint32_t)journal_room();
  if (!journal_started(c->id)) _exit(74);
  if (c->alone) clear_agents();
  bool room = c->alone || ensure_shell();
  drain(shell.output, waiting_in(shell.output), NULL); /* output of background processes between calls */
  c->processor_before = c->budget ? processor_ms() : 0;
  c->started = now_ms();
  c->deadline = c->started + c->timeout;
  if (!c->fresh && room && shell_feed(c->command)) return;
  if (c->fresh) c->pid = spawn_fresh(c->command, &c->output);
  if (c->pid < 0 || !c->fresh) {
    c->pid = 0;
    c->deadline = c->started; /* no room for a process: end all processes, and report a timeout */
  }
}

static void kill_everything(struct call *c) {
  if (!c->killing) {
    shell_note_directory();
    c->killing = true;
    c->give_up = now_ms() + GIVE_UP_KILLING_MS;
  }
  kill_agents(-1);
}

void calls_none_left(void) {
  if (!current || !current->killing) return;
  shell_forget();
  finish(current);
}

void calls_reaped(pid_t pid, int status) {
  bool was_shell = pid == shell.pid;
  if (was_shell) {
    shell_forget();
    if (!current || current->fresh) restarted_between = true;
  }
  if (current && !current->killing && (current->fresh ? pid == current->pid : was_shell)) {
    current->ended = true;
    current->status = status;
  }
}

/* Checks at most every 100 ms, so a call can exceed its budget by at most 100 ms on each of its processors. */
static bool has_spent(struct call *c) {
  uint64_t now = now_ms();
  if (!c->budget || c->killing || now < c->count_next) return false;
  c->count_next = now + COUNT_EVERY_MS;
  c->spent = processor_used(c) >= c->budget;
  return c->spent;
}

void calls_step(void) {
  if (!current && queue) {
    struct call *c = queue;
    queue = c->next;
    start(c);
  }
  struct call *c = current;
  drain(shell.output, 256 << 10, c && !c->fresh ? c : NULL);
  if (!c) {
    keep_shell();
    return;
  }
  if (c->fresh) drain(c->output, 256 << 10, c);
  if (!c->killing && !c->ended && !c->fresh) c->reported = c->ended = shell_report(&c->code);
  if (c->ended) finish(c);
  else if (c->killing && now_ms() >= c->give_up) {
    shell_forget();
    finish(c);
  } else if (now_ms() >= c->deadline || has_spent(c)) kill_everything(c);
}

int64_t calls_wait(void) {
  if (!current) return queue ? 0 : -1;
  if (current->killing) return KILL_AGAIN_MS;
  uint64_t now = now_ms(), next = current->deadline;
  if (current->budget && current->count_next < next) next = current->count_next;
  return next > now ? (int64_t)(next - now) : 0;
}

int calls_fds(int *fds) {
  int n = 0;
  if (shell.output >= 0) fds[n++] = shell.output;
  if (shell.status >= 0) fds[n++] = shell.status;
  if (current && current->fresh && current->output >= 0) fds[n++] = current->output;
  return n;
}

static struct call *find_call(const char *id) {
  if (current && !strcmp(current->id, id)) return current;
  struct call *c = queue;
  while (c && strcmp(c->id, id)) c = c->next;
  return c;
}

static void enqueue(struct call *c) {
  struct call **end = &queue;
  while (*end) end = &(*end)->next;
  *end = c;
}

static struct call *new_call(struct cursor *c) {
  struct call *call = need(sizeof *call);
  *call = (struct call){.output = -1};
  call->id = take_str(c);
  uint8_t where = take_u8(c);
  call->fresh = where != 0;
  call->alone = where == 2;
  call->timeout = take_u32(c);
  call->limit = take_u32(c);
  call->command = take_str(c);
  call->budget = take_u32(c);
  if (call->limit > MAX_OUTPUT) call->limit = MAX_OUTPUT;
  return call;
}

void call_request(uint64_t client, uint32_t tag, struct cursor *c) {
  struct call *call = new_call(c);
  struct buf body = {0};
  enum record kind = RECORD_STARTED;
  struct call *known = c->bad ? NULL : find_call(call->id);
  enum call_state state = c->bad || known ? CALL_UNKNOWN : journal_find(call->id, &kind, &body);
  if (c->bad) reply_error(client, tag, "malformed call");
  else if (!spec.workdir) reply_error(client, tag, "the sandbox has no spec yet");
  else if (state == CALL_FINISHED && kind == RECORD_EXEC) reply(client, tag, OP_EXEC, &body);
  else if (state != CALL_UNKNOWN) reply_error(client, tag, "the call id belongs to another kind of call");
  else {
    struct waiter *w = need(sizeof *w);
    struct call *target = known ? known : call;
    *w = (struct waiter){.client = client, .tag = tag, .next = target->waiters};
    target->waiters = w;
    if (!known) {
      enqueue(call);
      call = NULL;
    }
  }
  buf_free(&body);
  if (call) free_call(call);
}

bool calls_idle(void) { return !current && !queue; }

void calls_client_gone(uint64_t client) {
  for (struct call *c = current ? current : queue; c; c = c == current ? queue : c->next)
    for (struct waiter **w = &c->waiters; *w;) {
      struct waiter *gone = *w;
      if (gone->client != client) w = &gone->next;
      else {
        *w = gone->next;
        free(gone);
      }
    }
}
