/*
 * The one long-lived bash. It runs each command as a quoted string with `eval`, so that an unclosed quote is an error
 * of that command alone. A line with a one-time number reports the command's end, on a pipe that the command does not
 * inherit.
 */
#define _GNU_SOURCE
#include "supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

enum { STATUS_FD = 200, MAX_EXPORTS = 256 << 10 };

struct shell shell = {.script = -1, .status = -1, .output = -1};
static int output_end = -1;
static struct buf pending; /* not yet written to the script pipe */
static bool ended;         /* the first half of the report arrived: `ended_code` is valid, exports follow */
static int ended_code;
static bool too_much;       /* part of the exports was dropped, so none are kept */

static void nonblocking(int fd) { fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK); }

static void reset_signals(void) {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  signal(SIGPIPE, SIG_DFL);
}

/* In the child: these three become 0, 1, 2, `status` (or -1) becomes STATUS_FD, and nothing else stays open. */
static void only(int in, int out, int status) {
  int high_in = fcntl(in, F_DUPFD, STATUS_FD + 1), high_out = fcntl(out, F_DUPFD, STATUS_FD + 1);
  int high_status = status < 0 ? -1 : fcntl(status, F_DUPFD, STATUS_FD + 1);
  if (dup2(high_in, 0) < 0 || dup2(high_out, 1) < 0 || dup2(high_out, 2) < 0) _exit(126);
  if (status >= 0 && dup2(high_status, STATUS_FD) < 0) _exit(126);
  close_from(3, status < 0 ? STATUS_FD : STATUS_FD - 1);
  close_from(STATUS_FD + 1, ~0u);
}

static pid_t spawn(char *const argv[], const char *cwd, int in, int out, int status) {
  pid_t pid = fork();
  if (pid) return pid;
  setsid();
  only(in, out, status);
  reset_signals();
  if (chdir(cwd) && chdir(spec.workdir) && chdir("/")) _exit(126);
  confine_child();
  execve("/bin/bash", argv, spec.env);
  _exit(127);
}

pid_t spawn_fresh(const char *command, int *output) {
  int out[2], null = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (null < 0) return -1;
  if (pipe2(out, O_CLOEXEC)) {
    close(null);
    return -1;
  }
  char *argv[] = {"bash", "--norc", "--noprofile", "-c", (char *)command, NULL};
  pid_t pid = spawn(argv, spec.workdir, null, out[1], -1);
  close(null);
  close(out[1]);
  nonblocking(out[0]);
  *output = out[0];
  return pid;
}

static void quote(struct buf *b, const char *text) {
  buf_add(b, "'", 1);
  for (const char *s = text; *s; s++) {
    if (*s == '\'') buf_add(b, "'\\''", 4);
    else buf_add(b, s, 1);
  }
  buf_add(b, "'", 1);
}

static void text(struct buf *b, const char *s) { buf_add(b, s, strlen(s)); }

static void push(void) {
  while (pending.len) {
    ssize_t n = write(shell.script, pending.p, pending.len);
    if (n <= 0) return;
    memmove(pending.p, pending.p + n, pending.len - (size_t)n);
    pending.len -= (size_t)n;
  }
}

static void restore_state(void) {
  if (!shell.exports.len) return;
  char *exports = strndup((char *)shell.exports.p, shell.exports.len);
  if (!exports) _exit(70);
  text(&pending, "{ builtin cd -- ");
  quote(&pending, shell.cwd ? shell.cwd : spec.workdir);
  /* After it, since it sets OLDPWD, and PWD to a path without links. */
  text(&pending, "; builtin unset OLDPWD; builtin eval ");
  quote(&pending, exports);
  text(&pending, "; } </dev/null >/dev/null 2>&1 200>&-\n");
  free(exports);
}

/* The pipe for the shells' output. It outlives each shell. */
static bool open_output(void) {
  int output[2];
  if (shell.output >= 0) return true;
  if (pipe2(output, O_CLOEXEC)) return false;
  shell.output = output[0];
  output_end = output[1];
  nonblocking(shell.output);
  return true;
}

bool shell_start(void) {
  int script[2], status[2];
  if (!open_output() || pipe2(script, O_CLOEXEC)) return false;
  if (pipe2(status, O_CLOEXEC)) {
    close(script[0]);
    close(script[1]);
    return false;
  }
  char *argv[] = {"bash", "--norc", "--noprofile", "-s", NULL};
  shell.pid = spawn(argv, shell.cwd ? shell.cwd : spec.workdir, script[0], output_end, status[1]);
  close(script[0]);
  close(status[1]);
  shell.script = script[1];
  shell.status = status[0];
  nonblocking(shell.script);
  nonblocking(shell.status);
  if (shell.pid < 0) {
    shell_forget();
    return false;
  }
  pending.len = 0;
  restore_state();
  push();
  return true;
}

void shell_forget(void) {
  if (shell.script >= 0) close(shell.script);
  if (shell.status >= 0) close(shell.status);
  shell.script = shell.status = -1;
  shell.pid = 0;
  shell.said.len = 0;
  pending.len = 0;
  ended = false;
}

void shell_resume(const char *cwd, const uint8_t *exports, size_t len) {
  if (shell.pid > 0) kill_agents(-shell.pid);
  shell_forget();
  free(shell.cwd);
  shell.cwd = *cwd ? strdup(cwd) : NULL;
  shell.exports.len = 0;
  buf_add(&shell.exports, exports, len);
}

bool shell_feed(const char *command) {
  uint8_t random[16];
  if (getrandom(random, sizeof random, 0) != sizeof random) return false;
  for (size_t i = 0; i < sizeof random; i++) sprintf(shell.nonce + 2 * i, "%02x", random[i]);
  shell.said.len = 0;
  ended = too_much = false;
  text(&pending, "builtin eval ");
  quote(&pending, command);
  /* The empty line: after a syntax error in the command, bash would not see the brace as the start of a group. */
  text(&pending, " </dev/null 200>&-\n\n{ builtin printf '\\n%s %d\\n' ");
  text(&pending, shell.nonce);
  text(&pending, " \"$?\"; builtin set +evx +o posix; builtin declare -px; builtin printf '\\n%s end\\n' ");
  text(&pending, shell.nonce);
  text(&pending, "; } >&200 2>/dev/null\n");
  push();
  return true;
}

/* Finds the line that starts with the nonce. Returns its argument, or NULL; `before` is the number of bytes before it.
   */
static char *after_nonce(size_t *before) {
  static char argument[16];
  size_t len = strlen(shell.nonce);
  uint8_t *at = shell.said.len ? memmem(shell.said.p, shell.said.len, shell.nonce, len) : NULL;
  if (!at) return NULL;
  uint8_t *end = memchr(at, '\n', shell.said.len - (size_t)(at - shell.said.p));
  /* The policy may have written the line, so its length is checked: there must be a space, and the argument must fit.
     */
  if (!end || (size_t)(end - at) <= len || (size_t)(end - at) > len + sizeof argument) return NULL;
  *before = (size_t)(at - shell.said.p);
  size_t size = (size_t)(end - at) - len - 1;
  memcpy(argument, at + len + 1, size);
  argument[size] = 0;
  return argument;
}

static void drop_said(size_t n) {
  memmove(shell.said.p, shell.said.p + n, shell.said.len - n);
  shell.said.len -= n;
}

static void listen_to_shell(void) {
  uint8_t chunk[16384];
  ssize_t n;
  while (shell.status >= 0 && (n = read(shell.status, chunk, sizeof chunk)) != -1) {
    if (n == 0) {
      /* The shell replaced itself or closed the pipe. The next event is its end. */
      close(shell.status);
      shell.status = -1;
      return;
    }
    buf_add(&shell.said, chunk, (size_t)n);
    if (shell.said.len > MAX_EXPORTS + sizeof chunk) {
      drop_said(shell.said.len - MAX_EXPORTS);
      too_much = true;
    }
  }
}

bool shell_report(int *code) {
  push();
  listen_to_shell();
  size_t before = 0;
  char *argument;
  if (!ended && (argument = after_nonce(&before))) {
    ended = true;
    ended_code = atoi(argument);
    drop_said(before + strlen(shell.nonce) + strlen(argument) + 2);
  }
  if (!ended || !(argument = after_nonce(&before))) return false;
  shell.exports.len = 0;
  if (!too_much) buf_add(&shell.exports, shell.said.p, before);
  shell.said.len = 0;
  shell_note_directory();
  *code = ended_code;
  return true;
}

void shell_note_directory(void) {
  char link[64], target[4096];
  snprintf(link, sizeof link, "/proc/%d/cwd", (int)shell.pid);
  ssize_t n = shell.pid > 0 ? readlink(link, target, sizeof target - 1) : -1;
  if (n <= 0) return;
  free(shell.cwd);
  shell.cwd = strndup(target, (size_t)n);
}

bool shell_wants_to_write(void) { return shell.script >= 0 && pending.len > 0; }
