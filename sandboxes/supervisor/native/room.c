/*
 * Keeps room for processes that attach from outside: the same limit counts them and the policy's processes. If the
 * policy's background processes leave too little room at two checks in a row, all of them are ended.
 */
#define _GNU_SOURCE
#include "supervisor.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

/* A new connection takes extra room for less than the time between two checks. */
enum { LOOK_EVERY_MS = 500, LOOK_AGAIN_MS = 150 };

static int current_fd = -1;
static unsigned long limit; /* more processes than this leave too little room */
static bool was_full;
static uint64_t next_look;

static unsigned long number_in(int fd) {
  char text[32];
  ssize_t n = pread(fd, text, sizeof text - 1, 0);
  text[n > 0 ? n : 0] = 0;
  return strtoul(text, NULL, 10); /* `max` (no limit) becomes 0 */
}

static int open_either(const char *v1, const char *v2) {
  int fd = open(v1, O_RDONLY | O_CLOEXEC);
  return fd < 0 ? open(v2, O_RDONLY | O_CLOEXEC) : fd;
}

void room_watch(unsigned reserve) {
  int max = reserve ? open_either("/sys/fs/cgroup/pids/pids.max", "/sys/fs/cgroup/pids.max") : -1;
  if (max < 0) return;
  unsigned long all = number_in(max);
  close(max);
  if (all <= reserve) return;
  limit = all - reserve;
  current_fd = open_either("/sys/fs/cgroup/pids/pids.current", "/sys/fs/cgroup/pids.current");
}

int64_t room_wait(void) {
  uint64_t now = now_ms();
  return current_fd < 0 ? -1 : next_look > now ? (int64_t)(next_look - now) : 0;
}

void room_keep(void) {
  if (current_fd < 0 || now_ms() < next_look) return;
  /* Only between calls: a running call has a time limit, which ends all processes. */
  bool full = calls_idle() && number_in(current_fd) > limit;
  if (full && was_full) kill_agents(-1);
  was_full = full;
  next_look = now_ms() + (full ? LOOK_AGAIN_MS : LOOK_EVERY_MS);
}
