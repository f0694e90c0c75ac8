/*
 * Reads and writes files with the rights and in the mount namespace of the policy: only regular files, never through a
 * symbolic link at the end of a path nor through the magic links of /proc. A write goes to a new file, which is
 * renamed.
 */
#define _GNU_SOURCE
#include "supervisor.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

static int open_plain(const char *path, int flags, mode_t mode) {
  struct open_how how = {
    .flags = (uint64_t)(flags | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY),
    .mode = mode,
    .resolve = RESOLVE_NO_MAGICLINKS,
  };
  long fd = syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);
  if (fd < 0 && errno == ENOSYS) fd = open(path, (int)how.flags, mode);
  struct statfs fs;
  if (fd >= 0 && (fstatfs((int)fd, &fs) || fs.f_type == PROC_SUPER_MAGIC)) {
    close((int)fd);
    errno = EACCES;
    return -1;
  }
  return (int)fd;
}

static const char *reason(int error) {
  switch (error) {
    case ELOOP: return "is a symbolic link";
    case ENOSPC: case EDQUOT: return "no space left";
    case EISDIR: return "is a directory";
    case ENOTDIR: return "a part of the path is not a directory";
    case ENAMETOOLONG: return "the path is too long";
    case EROFS: return "is read-only";
    case ENXIO: return "is not a regular file";
    case EACCES: case EPERM: return "permission denied";
    default: return strerror(error);
  }
}

/* Makes a path absolute; relative paths start at the workspace. */
static char *absolute(const char *path) {
  char *full;
  if (path[0] == '/') full = strdup(path);
  else if (asprintf(&full, "%s/%s", spec.workdir ? spec.workdir : "", path) < 0) full = NULL;
  if (!full) _exit(70);
  return full;
}

bool make_directories(const char *path) {
  char *copy = strdup(path);
  if (!copy) _exit(70);
  for (char *s = copy + 1; *s; s++) {
    if (*s != '/') continue;
    *s = 0;
    if (mkdir(copy, 0755) && errno != EEXIST && errno != EROFS && errno != EACCES) {
      free(copy);
      return false;
    }
    *s = '/';
  }
  free(copy);
  return true;
}

/* Tests by opening the file, since access() checks the rights of another user than the one for file access. */
static bool may_write(const char *path) {
  int fd = open_plain(path, O_WRONLY, 0);
  if (fd >= 0) close(fd);
  return fd >= 0 || errno == ETXTBSY;
}

static const char *write_aside(const char *path, const char *aside, uint32_t mode, const uint8_t *content, size_t len) {
  int fd = open_plain(aside, O_WRONLY | O_CREAT | O_EXCL, 0600);
  if (fd < 0) return reason(errno);
  int error = 0;
  for (size_t done = 0; done < len && !error;) {
    ssize_t n = write(fd, content + done, len - done);
    if (n < 0) error = errno;
    else done += (size_t)n;
  }
  if (!error && fchmod(fd, mode)) error = errno;
  close(fd);
  if (!error && rename(aside, path)) error = errno;
  if (error) unlink(aside);
  return error ? reason(error) : NULL;
}

const char *file_write(const char *path, uint32_t mode, const uint8_t *content, size_t len) {
  static uint64_t counter;
  char *full = absolute(path), *aside = NULL;
  const char *error = NULL;
  struct stat st;
  bool exists = false;
  if (!make_directories(full)) error = reason(errno);
  else if ((exists = !lstat(full, &st)) && !S_ISREG(st.st_mode))
    error = S_ISDIR(st.st_mode) ? reason(EISDIR) : S_ISLNK(st.st_mode) ? reason(ELOOP) : reason(ENXIO);
  else if (exists && !may_write(full)) error = reason(errno);
  if (!error) {
    uint32_t bits = mode ? mode & 07777 : exists ? st.st_mode & 07777 : 0644;
    if (asprintf(&aside, "%.*s/.longhaul-%llu", (int)(strrchr(full, '/') - full), full, (unsigned long long)++counter) < 0)
      _exit(70);
    error = write_aside(full, aside, bits, content, len);
  }
  free(aside);
  free(full);
  return error;
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* Entries in byte order; directories end with a slash. */
static void list_directory(int fd, struct buf *body) {
  enum { MAX_ENTRIES = 20000 };
  DIR *dir = fdopendir(fd);
  char **names = need(MAX_ENTRIES * sizeof *names);
  size_t count = 0;
  struct dirent *e;
  while (dir && count < MAX_ENTRIES && (e = readdir(dir))) {
    if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
    if (asprintf(&names[count], "%s%s", e->d_name, e->d_type == DT_DIR ? "/" : "") < 0) _exit(70);
    count++;
  }
  qsort(names, count, sizeof *names, by_name);
  buf_u8(body, READ_DIRECTORY);
  buf_u32(body, (uint32_t)count);
  for (size_t i = 0; i < count; i++) {
    buf_str(body, names[i]);
    free(names[i]);
  }
  free(names);
  if (dir) closedir(dir);
  else close(fd);
}

static void denied(struct buf *body, const char *why) {
  buf_u8(body, READ_DENIED);
  buf_str(body, why);
}

/* Reads `size` bytes, the length of the file when it was opened, so that a growing file cannot be read for ever. */
static void read_regular(int fd, uint64_t size, struct buf *body) {
  buf_reserve(body, size + 16);
  buf_u8(body, READ_FILE);
  size_t head = body->len;
  buf_u32(body, 0);
  uint64_t got = 0;
  ssize_t n = 1;
  while (got < size && (n = read(fd, body->p + body->len, size - got)) > 0) {
    got += (uint64_t)n;
    body->len += (size_t)n;
  }
  if (n < 0) {
    body->len = 0;
    denied(body, reason(errno));
    return;
  }
  for (int i = 0; i < 4; i++) body->p[head + (size_t)i] = (uint8_t)(got >> (8 * i));
}

void file_read(const char *path, uint64_t max, struct buf *body) {
  char *full = absolute(path);
  int fd = open_plain(full, O_RDONLY, 0);
  int error = errno;
  free(full);
  struct stat st;
  if (fd < 0 && error == ENOENT) buf_u8(body, READ_MISSING);
  else if (fd < 0) denied(body, reason(error));
  else if (fstat(fd, &st)) denied(body, reason(errno));
  else if (S_ISDIR(st.st_mode)) {
    list_directory(fd, body);
    return;
  } else if (!S_ISREG(st.st_mode)) denied(body, reason(ENXIO));
  else if ((uint64_t)st.st_size > max) {
    buf_u8(body, READ_TOO_LARGE);
    buf_u64(body, (uint64_t)st.st_size);
  } else read_regular(fd, (uint64_t)st.st_size, body);
  if (fd >= 0) close(fd);
}
