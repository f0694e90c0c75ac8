/*
 * The launcher: runs outside, as the caller, and becomes bubblewrap. When it prints `ready` on its stdout, the socket
 * listens, the owner record is written, and the sandbox no longer depends on the caller: it has its own session and
 * stdio.
 *
 *   supervisor launch DIR FIRST_UID UID_COUNT UID_DIR OOM_FILE CPU_FILE NETWORK CGROUP_PROCS... -- (PLACE FILES)... -- BWRAP ARG...
 *
 * DIR is the sandbox's state directory. FIRST_UID 0 keeps the caller's user. OOM_FILE, CPU_FILE and UID_DIR may be `-`.
 * NETWORK is the network namespace that the sandbox joins (/proc/PID/ns/net), or `-`.
 * Each PLACE is a writable folder of the sandbox, which may hold that many FILES (see places.c).
 */
#define _GNU_SOURCE
#include "supervisor.h"

#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

void exit_saying(const char *what) {
  perror(what);
  exit(1);
}

void put_at(int fd, int wanted) {
  if (fd < 0) return;
  if (fd == wanted) return;
  if (dup2(fd, wanted) < 0) exit_saying("dup2");
  close(fd);
}

int open_high(const char *path, int flags, mode_t mode) {
  int fd = open(path, flags, mode);
  if (fd < 0) return -1;
  int high = fcntl(fd, F_DUPFD, 32);
  close(fd);
  return high;
}

static const struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "socket"};

int connected(void) {
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  if (fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof address)) exit_saying("socket");
  return fd;
}

int listening(void) {
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  if (fd < 0 || bind(fd, (const struct sockaddr *)&address, sizeof address) || listen(fd, 64)) exit_saying("socket");
  int high = fcntl(fd, F_DUPFD, 32);
  close(fd);
  return high;
}

static void write_file(const char *path, const char *text) {
  int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text)) exit_saying(path);
  close(fd);
}

/* Writes pid and start time (clock ticks since boot). Together they identify a process; a pid alone does not. */
static void write_owner(void) {
  char stat[1024], record[64];
  int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
  ssize_t n = fd < 0 ? -1 : read(fd, stat, sizeof stat - 1);
  if (n <= 0) exit_saying("/proc/self/stat");
  close(fd);
  stat[n] = 0;
  char *field = strrchr(stat, ')');
  for (int i = 0; field && i < 20; i++) field = strchr(field + 1, ' ');
  if (!field) exit_saying("/proc/self/stat");
  snprintf(record, sizeof record, "%d %llu\n", (int)getpid(), strtoull(field, NULL, 10));
  write_file("owner.partial", record);
  if (rename("owner.partial", "owner")) exit_saying("owner");
}

/* Takes a uid that no live sandbox has. A descriptor that the sandbox keeps holds the lock, so its end frees the uid.
   */
static unsigned take_uid(unsigned first, unsigned count, const char *dir, int *lock) {
  char path[4096];
  mkdir(dir, 0700);
  unsigned start = (unsigned)getpid() % count;
  for (unsigned i = 0; i < count; i++) {
    unsigned uid = first + (start + i) % count;
    snprintf(path, sizeof path, "%s/%u", dir, uid);
    int fd = open_high(path, O_RDWR | O_CREAT, 0600);
    if (fd < 0) exit_saying(path);
    if (!flock(fd, LOCK_EX | LOCK_NB)) {
      *lock = fd;
      return uid;
    }
    close(fd);
  }
  fprintf(stderr, "all %u uids of the pool are in use\n", count);
  exit(1);
}

static void become(unsigned uid) {
  if (setgroups(0, NULL) || setresgid(uid, uid, uid) || setresuid(uid, uid, uid)) exit_saying("setresuid");
}

static void join_network(const char *path) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0 || setns(fd, CLONE_NEWNET)) exit_saying(path);
  close(fd);
}

int launch(int argc, char **argv) {
  if (argc < 10) return 2;
  unsigned first = (unsigned)strtoul(argv[3], NULL, 10), count = (unsigned)strtoul(argv[4], NULL, 10), uid = 0;
  int i = 9, uid_lock = -1;
  umask(022);
  setsid();
  if (chdir(argv[2])) exit_saying(argv[2]);
  int log = open_high("log", O_WRONLY | O_CREAT | O_APPEND, 0600);
  int null = open_high("/dev/null", O_RDWR, 0);
  int journal = open_high("journal", O_RDWR | O_CREAT | O_APPEND, 0600);
  int info = open_high("info", O_WRONLY | O_CREAT | O_TRUNC, 0600);
  int oom = strcmp(argv[6], "-") ? open_high(argv[6], O_RDONLY, 0) : -1;
  int cpu = strcmp(argv[7], "-") ? open_high(argv[7], O_RDONLY, 0) : -1;
  if (log < 0 || null < 0 || journal < 0 || info < 0) exit_saying(argv[2]);
  if (strcmp(argv[8], "-")) join_network(argv[8]);
  if (first) uid = take_uid(first, count, argv[5], &uid_lock);
  char self[32];
  snprintf(self, sizeof self, "%d\n", (int)getpid());
  for (; i < argc && strcmp(argv[i], "--"); i++) write_file(argv[i], self);
  write_owner();
  int socket = listening();
  if (write(1, "ready\n", 6) != 6) exit_saying("stdout");
  put_at(socket, LISTEN_FD);
  put_at(journal, JOURNAL_FD);
  put_at(info, INFO_FD);
  close(OOM_FD);
  close(UID_LOCK_FD);
  close(CPU_FD);
  put_at(oom, OOM_FD);
  put_at(cpu, CPU_FD);
  put_at(uid_lock, UID_LOCK_FD);
  dup2(null, 0);
  dup2(null, 1);
  dup2(log, 2);
  close_from(FIRST_FREE_FD, ~0u);
  if (first) become(uid);
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) exit_saying("no_new_privs");
  char **places = argv + ++i;
  while (i < argc && strcmp(argv[i], "--")) i++;
  if (chdir("/") || ++i >= argc) return 2;
  places_helper(places);
  execv(argv[i], argv + i);
  exit_saying(argv[i]);
  return 1;
}
