/*
 * Memory in sockets that outlives processes. A process can send a socket through another socket and die: then no
 * process holds it, and the kernel searches for such sockets only when some socket is closed. If they hold full memory
 * files, the supervisor would remain as the only victim of the out-of-memory killer. So if there are more sockets than
 * the supervisor knows, it makes the kernel search, and then a child process that may be killed tests whether memory is
 * available.
 */
#define _GNU_SOURCE
#include "supervisor.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KERNEL_LOOKS_US = 20000, ROOM = 8 << 20 };

static int counter = -1, spare = -1;
static unsigned each;
static long known;

/* Sockets in use in this network namespace. */
static long used(void) {
  char text[64];
  ssize_t n = pread(counter, text, sizeof text - 1, 0);
  text[n > 0 ? n : 0] = 0;
  char *number = strstr(text, "used ");
  return number ? strtol(number + 5, NULL, 10) : 0;
}

void sockets_watch(unsigned per_client) {
  each = per_client;
  spare = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  counter = open("/proc/net/sockstat", O_RDONLY | O_CLOEXEC);
  known = used();
}

static void let_kernel_look(void) {
  close(spare);
  usleep(KERNEL_LOOKS_US);
  spare = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

/* True if a process with the policy's priority for the out-of-memory killer gets as much memory as an answer may need.
   */
static bool has_room(void) {
  int status;
  pid_t pid = fork();
  if (!pid) {
    close_from(0, ~0u);
    become_agent();
    die_first();
    prctl(PR_SET_DUMPABLE, 0);
    _exit(mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0) == MAP_FAILED);
  }
  return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && !WEXITSTATUS(status);
}

void sockets_sweep(void) {
  if (used() <= known + (long)each * clients_now() + door_sockets()) return;
  let_kernel_look();
  if (has_room()) return;
  /* Live processes may still hold sockets. After their end the kernel finds these too. */
  clear_agents();
  let_kernel_look();
}
