/*
 * The restrictions on a process of the policy, set between fork and exec: it keeps no descriptor of the supervisor, has
 * resource limits, is the first victim of the out-of-memory killer, and cannot reach the supervisor by system calls.
 */
#define _GNU_SOURCE
#include "supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define NATIVE_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE_ARCH AUDIT_ARCH_AARCH64
#else
#error "only x86-64 and arm64 have a filter of system calls"
#endif

/* Always refused: parts of the kernel that programs under test do not need. */
static const int refused[] = {
  SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, SYS_keyctl, SYS_add_key, SYS_request_key, SYS_bpf,
  SYS_perf_event_open, SYS_userfaultfd, SYS_mount, SYS_umount2, SYS_pivot_root, SYS_move_mount, SYS_open_tree,
  SYS_fsopen, SYS_fsmount, SYS_fsconfig, SYS_fspick, SYS_setns, SYS_unshare, SYS_open_by_handle_at,
  SYS_kexec_load, SYS_init_module, SYS_finit_module, SYS_delete_module, SYS_swapon, SYS_swapoff, SYS_reboot, SYS_acct,
  SYS_quotactl, SYS_io_uring_setup,
#ifdef SYS_pidfd_getfd
  SYS_pidfd_getfd,
#endif
#ifdef SYS_mount_setattr
  SYS_mount_setattr,
#endif
};

/* Uses a limit that the whole machine shares (fs.aio-max-nr). Libraries work without it. */
static const int machine_wide[] = {SYS_io_setup};

/* Also limits timers: each reserves a signal. */
enum { PENDING_SIGNALS = 1024 };

/* The kinds of sockets that programs under test need. Others reach the machine's host (AF_VSOCK) or rarely used code.
   */
static const int families[] = {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK};

/* Memory that outlives its processes. Refused unless the container has its own limit on it. */
static const int outlasting[] = {SYS_shmget, SYS_msgget, SYS_semget};

/* Allowed for the caller only: the supervisor has the same uid, so these calls could affect it. */
static const int own_only[] = {
  SYS_prlimit64, SYS_sched_setscheduler, SYS_sched_setparam, SYS_sched_setattr, SYS_sched_setaffinity,
};

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define RETURN(what) BPF_STMT(BPF_RET | BPF_K, what)
#define UNLESS(value, skip) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, skip)
#define REFUSE(error) RETURN(SECCOMP_RET_ERRNO | (error))

static void filter_system_calls(void) {
  struct sock_filter f[256];
  unsigned short n = 0;
#define EMIT(...) do { struct sock_filter s_ = __VA_ARGS__; f[n++] = s_; } while (0)
  EMIT(LOAD(arch));
  EMIT(UNLESS(NATIVE_ARCH, 1));
  EMIT(BPF_JUMP(BPF_JMP | BPF_JA, 1, 0, 0));
  EMIT(REFUSE(ENOSYS));
  EMIT(LOAD(nr));
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    EMIT(UNLESS((uint32_t)refused[i], 1));
    EMIT(REFUSE(EPERM));
  }
  for (size_t i = 0; i < sizeof machine_wide / sizeof *machine_wide; i++) {
    EMIT(UNLESS((uint32_t)machine_wide[i], 1));
    EMIT(REFUSE(ENOSYS));
  }
  for (size_t i = 0; !agent.uid && i < sizeof outlasting / sizeof *outlasting; i++) {
    EMIT(UNLESS((uint32_t)outlasting[i], 1));
    EMIT(REFUSE(ENOSYS));
  }
  enum { FAMILIES = sizeof families / sizeof *families };
  EMIT(UNLESS(SYS_socket, FAMILIES + 3));
  EMIT(LOAD(args[0]));
  for (int i = 0; i < FAMILIES; i++) EMIT(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)families[i], (uint8_t)(FAMILIES - i), 0));
  EMIT(REFUSE(EAFNOSUPPORT));
  EMIT(RETURN(SECCOMP_RET_ALLOW));
  for (size_t i = 0; i < sizeof own_only / sizeof *own_only; i++) {
    EMIT(UNLESS((uint32_t)own_only[i], 4));
    EMIT(LOAD(args[0]));
    EMIT(UNLESS(0, 1));
    EMIT(RETURN(SECCOMP_RET_ALLOW));
    EMIT(REFUSE(EPERM));
  }
  /* Priorities: only the caller's own (PRIO_PROCESS is 0, and pid 0 means the caller). */
  EMIT(UNLESS(SYS_setpriority, 6));
  EMIT(LOAD(args[0]));
  EMIT(UNLESS(0, 3));
  EMIT(LOAD(args[1]));
  EMIT(UNLESS(0, 1));
  EMIT(RETURN(SECCOMP_RET_ALLOW));
  EMIT(REFUSE(EPERM));
  /* No new user namespace by clone. A filter cannot see the flags of clone3, and libraries work without it. */
  EMIT(UNLESS(SYS_clone3, 1));
  EMIT(REFUSE(ENOSYS));
  EMIT(UNLESS(SYS_clone, 4));
  EMIT(LOAD(args[0]));
  EMIT(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_NEWUSER, 0, 1));
  EMIT(REFUSE(EPERM));
  EMIT(RETURN(SECCOMP_RET_ALLOW));
  EMIT(UNLESS(SYS_ioprio_set, 1));
  EMIT(REFUSE(EPERM));
#if defined(__x86_64__)
  /* The x32 system calls have other numbers, and would bypass the list above. */
  EMIT(BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1));
  EMIT(REFUSE(ENOSYS));
#endif
  EMIT(RETURN(SECCOMP_RET_ALLOW));
#undef EMIT
  struct sock_fprog program = {.len = n, .filter = f};
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) _exit(126);
}

static void limit(int which, uint64_t value) {
  if (!value) return;
  struct rlimit now, want = {.rlim_cur = value, .rlim_max = value};
  if (!getrlimit(which, &now) && now.rlim_max != RLIM_INFINITY && now.rlim_max < value)
    want.rlim_cur = want.rlim_max = now.rlim_max;
  if (setrlimit(which, &want)) _exit(126);
}

void die_first(void) {
  /* While a process is not dumpable, its /proc/self belongs to root. The caller has closed its secret descriptors. */
  prctl(PR_SET_DUMPABLE, 1);
  int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;
  ssize_t ignored = write(fd, "1000", 4);
  (void)ignored;
  close(fd);
}

void close_from(unsigned first, unsigned last) {
#ifdef SYS_close_range
  if (!syscall(SYS_close_range, first, last, 0u)) return;
#endif
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit)) _exit(126);
  for (unsigned fd = first; fd <= last && fd < limit.rlim_cur; fd++) close((int)fd);
}

void confine_child(void) {
  struct rlimit none = {0, 0};
  setrlimit(RLIMIT_CORE, &none);
  limit(RLIMIT_NOFILE, spec.open_files);
  limit(RLIMIT_FSIZE, spec.file_bytes);
  limit(RLIMIT_NPROC, spec.processes);
  limit(RLIMIT_AS, spec.address_bytes);
  limit(RLIMIT_SIGPENDING, PENDING_SIGNALS);
  become_agent();
  die_first();
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) _exit(126);
  refuse_kernel_files();
  filter_system_calls();
}
