/*
 * Processor time of all processes of the policy, from their control group. Without one: of ended processes, the sum
 * that the kernel keeps for the process that reaped them; of live ones, the value in /proc. A child whose parent
 * ignores SIGCHLD is in neither after its end, so only the time that was seen while it lived is counted. Unlike a
 * clock, this does not depend on other load on the machine.
 */
#define _GNU_SOURCE
#include "supervisor.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static uint64_t ms_of(struct timeval t) { return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_usec / 1000; }

/* Processor time in clock ticks, with the children that the process has reaped. */
static uint64_t ticks_of(const char *pid) {
  char path[64], text[1024];
  snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
  if (fd >= 0) close(fd);
  text[n > 0 ? n : 0] = 0;
  /* The name before the last `)` may contain any character. */
  char *field = strrchr(text, ')');
  uint64_t ticks = 0;
  for (int i = 3; field && i <= 17 && (field = strchr(field + 1, ' ')); i++)
    if (i >= 14) ticks += strtoull(field, NULL, 10);
  return ticks;
}

/* Time of live processes, and of reaped ones. */
static uint64_t seen_ms(void) {
  struct rusage ended;
  uint64_t ticks = 0, ms = getrusage(RUSAGE_CHILDREN, &ended) ? 0 : ms_of(ended.ru_utime) + ms_of(ended.ru_stime);
  DIR *proc = opendir("/proc");
  for (struct dirent *e; proc && (e = readdir(proc));)
    if (e->d_name[0] >= '1' && e->d_name[0] <= '9' && strcmp(e->d_name, "1")) ticks += ticks_of(e->d_name);
  if (proc) closedir(proc);
  return ms + ticks * 1000 / (uint64_t)sysconf(_SC_CLK_TCK);
}

/* A process that vanishes without being reaped lowers the sum by the time that it had at the last check; that time is
   added again. A child that is reaped during the walk is missing from one sum only, so the walk is repeated. */
static uint64_t watched_ms(void) {
  enum { LOOKS = 4 };
  static uint64_t last, unwaited;
  uint64_t seen = seen_ms();
  for (int looks = 1; seen < last && looks < LOOKS; looks++) {
    uint64_t again = seen_ms();
    if (again > seen) seen = again;
  }
  if (seen < last) unwaited += last - seen;
  last = seen;
  return seen + unwaited;
}

/* From the control group, which counts everything that ever ran in it. False if there is none. */
static bool group_ms(uint64_t *ms) {
  static const char v2[] = "usage_usec ";
  char text[64];
  ssize_t n = pread(CPU_FD, text, sizeof text - 1, 0);
  if (n <= 0) return false;
  text[n] = 0;
  bool is_v2 = !strncmp(text, v2, sizeof v2 - 1);
  if (!is_v2 && (text[0] < '0' || text[0] > '9')) return false;
  uint64_t all = is_v2 ? strtoull(text + sizeof v2 - 1, NULL, 10) / 1000 : strtoull(text, NULL, 10) / 1000000;
  struct rusage own;
  uint64_t mine = getrusage(RUSAGE_SELF, &own) ? 0 : ms_of(own.ru_utime) + ms_of(own.ru_stime);
  *ms = all > mine ? all - mine : 0;
  return true;
}

uint64_t processor_ms(void) {
  uint64_t ms;
  return group_ms(&ms) ? ms : watched_ms();
}
