/*
 * A second protection of the kernel's own files: processes of the policy cannot write below /proc and /sys, so that
 * none can make the out-of-memory killer prefer the supervisor. It is skipped on kernels without Landlock, or with its
 * first version, which forbids all renames between folders.
 */
#define _GNU_SOURCE
#include "supervisor.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* https://docs.kernel.org/userspace-api/landlock.html; the C library's headers may be older than the kernel. */
enum { CREATE_RULESET = 444, ADD_RULE = 445, RESTRICT_SELF = 446, VERSION = 1, PATH_BENEATH = 1, WITH_REFER = 2 };
enum { WRITE_FILE = 1 << 1, REFER = 1 << 13 };

struct path_beneath { uint64_t allowed; int32_t parent; } __attribute__((packed));

static void allow(int rules, const char *path) {
  int fd = open(path, O_PATH | O_CLOEXEC);
  struct stat st;
  if (fd < 0) return;
  uint64_t allowed = !fstat(fd, &st) && S_ISDIR(st.st_mode) ? WRITE_FILE | REFER : WRITE_FILE;
  struct path_beneath rule = {.allowed = allowed, .parent = fd};
  syscall(ADD_RULE, rules, PATH_BENEATH, &rule, 0);
  close(fd);
}

void refuse_kernel_files(void) {
  if (syscall(CREATE_RULESET, NULL, 0, VERSION) < WITH_REFER) return;
  uint64_t handled = WRITE_FILE | REFER;
  int rules = (int)syscall(CREATE_RULESET, &handled, sizeof handled, 0);
  DIR *root = opendir("/");
  char path[sizeof((struct dirent *)0)->d_name + 1] = "/";
  if (rules < 0 || !root) _exit(126);
  for (struct dirent *e; (e = readdir(root));) {
    if (e->d_name[0] == '.' || !strcmp(e->d_name, "proc") || !strcmp(e->d_name, "sys")) continue;
    strcpy(path + 1, e->d_name);
    allow(rules, path);
  }
  closedir(root);
  if (syscall(RESTRICT_SELF, rules, 0)) _exit(126);
  close(rules);
}
