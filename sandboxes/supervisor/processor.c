/*
 * Processor time of everything of the policy: of what has ended, as the kernel adds it up for whoever reaped it, and of
 * what lives, as /proc says. What else runs on the machine adds nothing to it, which is what a clock cannot say.
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

/* In clock ticks, with the children that it has reaped. */
static uint64_t ticks_of(const char *pid) {
  char path[64], text[1024];
  snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
  if (fd >= 0) close(fd);
  text[n > 0 ? n : 0] = 0;
  /* The name before it may hold anything. */
  char *field = strrchr(text, ')');
  uint64_t ticks = 0;
  for (int i = 3; field && i <= 17 && (field = strchr(field + 1, ' ')); i++)
    if (i >= 14) ticks += strtoull(field, NULL, 10);
  return ticks;
}

uint64_t processor_ms(void) {
  struct rusage ended;
  uint64_t ticks = 0, ms = getrusage(RUSAGE_CHILDREN, &ended) ? 0 : ms_of(ended.ru_utime) + ms_of(ended.ru_stime);
  DIR *proc = opendir("/proc");
  for (struct dirent *e; proc && (e = readdir(proc));)
    if (e->d_name[0] >= '1' && e->d_name[0] <= '9' && strcmp(e->d_name, "1")) ticks += ticks_of(e->d_name);
  if (proc) closedir(proc);
  return ms + ticks * 1000 / (uint64_t)sysconf(_SC_CLK_TCK);
}
