/*
 * The supervisor inside a container, where it opens its descriptors itself. It stays root, but keeps only the
 * capabilities to start processes of the policy's user. It accesses files only with the rights of that user.
 *
 *   supervisor contain DIR UID GID OWNED RESERVE
 *                                            pid 1 of the container; DIR (owned by root, closed to others) gets
 *                                            socket, journal and log; OWNED and everything below it is given to the
 *                                            user; RESERVE is the number of processes kept free for attaching
 *   supervisor attach DIR                    stdin and stdout become one connection to the socket in DIR
 */
#define _GNU_SOURCE
#include "supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <grp.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Not root, which the policy's user might become by a mistake in an image, and not the policy's user. */
enum { ATTACH_USER = 65533 };

struct agent agent;

void become_agent(void) {
  if (!agent.uid) return;
  if (setresuid(0, 0, 0) || setgroups(0, NULL) || setresgid(agent.gid, agent.gid, agent.gid) || setresuid(agent.uid, agent.uid, agent.uid)) _exit(126);
}

/* Sets the user for file access (fsuid) only. If the kernel has none (gVisor), sets the effective user, reversibly. */
static void files_as_agent(void) {
  setfsgid(agent.gid);
  setfsuid(agent.uid);
  if ((uid_t)setfsuid((uid_t)-1) == agent.uid) return;
  if (setresgid(0, agent.gid, 0) || setresuid(0, agent.uid, 0)) _exit(71);
}

/* Signals with the rights of the policy's user, so that connections attached from outside, which have another user,
   live. */
void kill_agents(pid_t who) {
  if (!agent.uid) {
    kill(who, SIGKILL);
    return;
  }
  if (setresuid(agent.uid, agent.uid, 0)) _exit(71);
  kill(who, SIGKILL);
  if (setresuid(0, 0, 0)) _exit(71);
  files_as_agent();
}

static void only_capabilities(uint32_t kept) {
  for (int cap = 0; cap <= 63; cap++)
    if (prctl(PR_CAPBSET_READ, cap, 0, 0, 0) == 1 && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0)) exit_saying("PR_CAPBSET_DROP");
  struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
  struct __user_cap_data_struct data[2] = {{.effective = kept, .permitted = kept}};
  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  if (syscall(SYS_capset, &head, data)) exit_saying("capset");
}

static int give(const char *path, const struct stat *st, int type, struct FTW *at) {
  (void)type, (void)at;
  return st->st_uid == agent.uid ? 0 : lchown(path, agent.uid, agent.gid);
}

/* Without CAP_DAC_OVERRIDE root needs write permission too, and the root folder of some images has mode 0555. */
static bool make_folder(const char *folder) {
  if (!mkdir(folder, 0755) || errno == EEXIST) return true;
  return errno == EACCES && !chmod("/", 0755) && !mkdir(folder, 0755);
}

static void give_away(const char *folder) {
  if (!make_folder(folder)) exit_saying(folder);
  if (nftw(folder, give, 32, FTW_PHYS | FTW_MOUNT)) exit_saying(folder);
}

static int open_oom_counter(void) {
  static const char *const files[] = {"/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"};
  int fd = -1;
  for (size_t i = 0; fd < 0 && i < sizeof files / sizeof *files; i++) fd = open_high(files[i], O_RDONLY, 0);
  return fd;
}

/* Only of the container's own group. If the machine's root group is visible instead, it counts everything. */
static int open_cpu_counter(void) {
  if (!access("/sys/fs/cgroup/cgroup.events", F_OK)) return open_high("/sys/fs/cgroup/cpu.stat", O_RDONLY, 0);
  if (!access("/sys/fs/cgroup/cpuacct/release_agent", F_OK)) return -1;
  return open_high("/sys/fs/cgroup/cpuacct/cpuacct.usage", O_RDONLY, 0);
}

void contain(char **argv) {
  agent = (struct agent){.uid = (uid_t)strtoul(argv[1], NULL, 10), .gid = (gid_t)strtoul(argv[2], NULL, 10)};
  umask(022);
  if (chdir(argv[0])) exit_saying(argv[0]);
  int null = open_high("/dev/null", O_RDWR, 0), log = open_high("log", O_WRONLY | O_CREAT | O_APPEND, 0600);
  if (null < 0 || log < 0) exit_saying("log");
  dup2(log, 2);
  give_away(argv[3]);
  int journal = open_high("journal", O_RDWR | O_CREAT | O_APPEND, 0600), oom = open_oom_counter(), cpu = open_cpu_counter(), socket = listening();
  if (journal < 0) exit_saying("journal");
  dup2(null, 0);
  dup2(null, 1);
  put_at(socket, LISTEN_FD);
  put_at(journal, JOURNAL_FD);
  close(OOM_FD);
  put_at(oom, OOM_FD);
  close_from(INFO_FD, CPU_FD);
  put_at(cpu, CPU_FD);
  close_from(FIRST_FREE_FD, ~0u);
  room_watch((unsigned)strtoul(argv[4], NULL, 10));
  if (setgroups(0, NULL) || chdir("/")) exit_saying("setgroups");
  only_capabilities(1u << CAP_SETUID | 1u << CAP_SETGID);
  files_as_agent();
}

/* Copies available bytes from one side to the other. False if either side has ended. */
static bool pump(int from, int to) {
  uint8_t chunk[65536];
  ssize_t n = read(from, chunk, sizeof chunk);
  if (n <= 0) return n < 0 && errno == EINTR;
  for (ssize_t done = 0; done < n;) {
    ssize_t m = write(to, chunk + done, (size_t)(n - done));
    if (m < 0 && errno != EINTR) return false;
    if (m > 0) done += m;
  }
  return true;
}

/* Uses two processes, one for each direction: a side that does not read never blocks the other direction. */
int attach(const char *folder) {
  if (chdir(folder)) exit_saying(folder);
  int fd = connected();
  if (setgroups(0, NULL) || setresgid(ATTACH_USER, ATTACH_USER, ATTACH_USER) || setresuid(ATTACH_USER, ATTACH_USER, ATTACH_USER))
    exit_saying("setresuid");
  prctl(PR_SET_DUMPABLE, 0);
  pid_t writer = fork();
  if (writer < 0) exit_saying("fork");
  if (!writer) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (pump(0, fd)) {}
    shutdown(fd, SHUT_RDWR);
    return 0;
  }
  while (pump(fd, 1)) {}
  kill(writer, SIGKILL);
  return 0;
}
