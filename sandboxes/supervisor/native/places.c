/*
 * Limits the number of files in each writable place of the sandbox, and the number of pseudo-terminals. Bubblewrap
 * limits only sizes. The kernel's memory for names and empty files stays in use after every process of the policy has
 * ended; with enough of it, the supervisor would be the only victim left for the out-of-memory killer. A helper
 * outside, which runs as the owner of the sandbox's namespaces, sets the limits. Until then the supervisor serves no
 * requests.
 */
#define _GNU_SOURCE
#include "supervisor.h"

#include <fcntl.h>
#include <linux/nsfs.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

union control { char bytes[CMSG_SPACE(sizeof(int))]; struct cmsghdr aligned; };

static bool pass(int socket, int fd) {
  union control control = {0};
  struct iovec byte = {.iov_base = "", .iov_len = 1};
  struct msghdr message = {.msg_iov = &byte, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
  struct cmsghdr *head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(sizeof fd);
  memcpy(CMSG_DATA(head), &fd, sizeof fd);
  return sendmsg(socket, &message, MSG_NOSIGNAL) == 1;
}

/* Receives a descriptor from the other side; -1 if that ended first. */
static int passed(int socket) {
  union control control = {0};
  char room;
  struct iovec byte = {.iov_base = &room, .iov_len = 1};
  struct msghdr message = {.msg_iov = &byte, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
  struct cmsghdr *head = recvmsg(socket, &message, MSG_CMSG_CLOEXEC) == 1 ? CMSG_FIRSTHDR(&message) : NULL;
  int fd = -1;
  if (head && head->cmsg_type == SCM_RIGHTS) memcpy(&fd, CMSG_DATA(head), sizeof fd);
  return fd;
}

/* `places` are pairs of a path and a number, up to `--`. */
static void bound(int socket, char **places) {
  int mounts = passed(socket);
  if (mounts < 0) _exit(1);
  int user = ioctl(mounts, NS_GET_USERNS);
  if (user < 0 || setns(user, CLONE_NEWUSER) || setns(mounts, CLONE_NEWNS)) exit_saying("the sandbox's namespaces");
  for (; strcmp(places[0], "--"); places += 2) {
    char number[64];
    bool terminals = !strcmp(places[0], "/dev/pts");
    /* For terminals all options are given: a remount resets the others to their defaults. */
    snprintf(number, sizeof number, terminals ? "ptmxmode=0666,mode=620,max=%s" : "nr_inodes=%s", places[1]);
    unsigned long flags = MS_REMOUNT | MS_NOSUID | (terminals ? MS_NOEXEC : MS_NODEV);
    if (mount(NULL, places[0], NULL, flags, number)) exit_saying(places[0]);
  }
  _exit(write(socket, "", 1) == 1 ? 0 : 1);
}

void places_helper(char **places) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends)) exit_saying("socketpair");
  pid_t child = fork();
  if (child < 0) exit_saying("fork");
  if (!child) {
    /* Forks twice, so that bubblewrap does not inherit a child. */
    pid_t helper = fork();
    if (helper) _exit(helper < 0);
    dup2(ends[0], LISTEN_FD);
    close_from(LISTEN_FD + 1, ~0u);
    bound(LISTEN_FD, places);
  }
  int status;
  if (waitpid(child, &status, 0) != child || status) exit_saying("fork");
  close(ends[0]);
  dup2(ends[1], PLACES_FD);
  close(ends[1]);
}

void places_await(void) {
  int mounts = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
  char done;
  if (mounts < 0 || !pass(PLACES_FD, mounts) || read(PLACES_FD, &done, 1) != 1) exit_saying("the sandbox's places");
  close(mounts);
  close(PLACES_FD);
}
