/* Declarations that the parts of the supervisor share. The protocol is described at the top of supervisor.c. */
#ifndef LONGHAUL_SUPERVISOR_H
#define LONGHAUL_SUPERVISOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Descriptors that the launcher opens outside the sandbox. All are closed in the policy's processes. */
enum { LISTEN_FD = 3, JOURNAL_FD = 4, OOM_FD = 5, INFO_FD = 6, UID_LOCK_FD = 7, PLACES_FD = 8, CPU_FD = 9, FIRST_FREE_FD = 10 };

enum { MAX_FRAME = 64 << 20, MAX_OUTPUT = 8 << 20, MAX_READ = 16 << 20, MAX_CLIENTS = 64, MAX_GUESTS = 32 };

enum op {
  OP_HELLO = 1, OP_INIT, OP_EXEC, OP_READ, OP_WRITE, OP_WRITTEN, OP_RENEW, OP_END, OP_STATE, OP_RESUME,
  OP_DOOR_OPEN, OP_DOOR_WAIT, OP_DOOR_ANSWER,
  OP_ERROR = 127,
};
enum read_kind { READ_FILE, READ_DIRECTORY, READ_MISSING, READ_DENIED, READ_TOO_LARGE };
enum result_flag { TIMED_OUT = 1, OUT_OF_MEMORY = 2, SHELL_RESTARTED = 4 };
enum phase { PHASE_NEW, PHASE_READY };

/* A growing byte string. If memory runs out, the supervisor ends, and the sandbox counts as lost. */
struct buf { uint8_t *p; size_t len, cap; };
void buf_add(struct buf *b, const void *data, size_t len);
/* Reserves room for `len` more bytes; for a large `len` exactly that many. */
void buf_reserve(struct buf *b, size_t len);
void buf_u8(struct buf *b, uint8_t v);
void buf_u32(struct buf *b, uint32_t v);
void buf_u64(struct buf *b, uint64_t v);
void buf_bytes(struct buf *b, const void *data, size_t len);
void buf_str(struct buf *b, const char *s);
void buf_free(struct buf *b);
void *need(size_t bytes);

/* Reads the fields of a frame. After the first field that does not fit, `bad` stays true and every field is empty. */
struct cursor { const uint8_t *p; size_t left; bool bad; };
uint8_t take_u8(struct cursor *c);
uint32_t take_u32(struct cursor *c);
uint64_t take_u64(struct cursor *c);
const uint8_t *take_bytes(struct cursor *c, size_t *len);
/* Returns a copy that ends with NUL; the caller frees it. A string with a NUL inside is bad. */
char *take_str(struct cursor *c);

/* A client that waits for an answer. It may be gone when the answer comes; client numbers are never reused. */
struct waiter { uint64_t client; uint32_t tag; struct waiter *next; };
void reply(uint64_t client, uint32_t tag, uint8_t op, const struct buf *body);
void reply_error(uint64_t client, uint32_t tag, const char *message);

uint64_t now_ms(void);
int clients_now(void);

/* The spec of this sandbox; OP_INIT sets it once. */
struct spec {
  char *workdir;
  char **env; /* KEY=VALUE, ends with NULL */
  uint64_t open_files, file_bytes, processes, address_bytes; /* 0 is no limit */
};
extern struct spec spec;

/* confine.c */
void confine_child(void);
/* Makes the caller the first victim of the out-of-memory killer. */
void die_first(void);
void close_from(unsigned first, unsigned last);

/* landlock.c: forbids the caller and its children to write below /proc and /sys. */
void refuse_kernel_files(void);

/* processor.c: milliseconds of processor time that all other processes have used so far. Call it often (see there). */
uint64_t processor_ms(void);

/* room.c: keeps room for processes that attach from outside, where one limit counts them and the policy's. */
void room_watch(unsigned reserve);
void room_keep(void);
/* Milliseconds until room_keep checks again; -1 for never. */
int64_t room_wait(void);

/* journal.c: call id -> state and answer of the call. */
enum call_state { CALL_UNKNOWN, CALL_RUNNING, CALL_FINISHED };
enum record { RECORD_STARTED = 1, RECORD_EXEC = 2, RECORD_WRITE = 3 };
/* Largest answer of a call in bytes, such that no number of calls can fill the journal. */
size_t journal_room(void);
bool journal_started(const char *id);
bool journal_finished(const char *id, enum record kind, const struct buf *body);
enum call_state journal_find(const char *id, enum record *kind, struct buf *body);

/* files.c */
const char *file_write(const char *path, uint32_t mode, const uint8_t *content, size_t len);
void file_read(const char *path, uint64_t max, struct buf *body);
bool make_directories(const char *path);

/* shell.c: the one long-lived bash. */
struct shell { pid_t pid; int script, status, output; char nonce[33]; struct buf said, exports; char *cwd; };
extern struct shell shell;
/* False if there is no room for a process or its pipes. */
bool shell_start(void);
bool shell_feed(const char *command);
/* True if the last command has ended; `code` is then its exit code. */
bool shell_report(int *code);
/* True if part of the command still waits for room in the pipe to the shell. */
bool shell_wants_to_write(void);
void shell_note_directory(void);
void shell_forget(void);
/* The next shell starts with this directory and these exports (as `declare -px` prints them). */
void shell_resume(const char *cwd, const uint8_t *exports, size_t len);
/* Returns -1 if there is no room for a process or its pipe; `output` is then unchanged, or the caller must close it. */
pid_t spawn_fresh(const char *command, int *output);

/* calls.c: the queue of calls, one at a time. */
bool calls_idle(void);
/* Ends all processes of the policy, and waits for their end. */
void clear_agents(void);
void call_request(uint64_t client, uint32_t tag, struct cursor *c);
void calls_step(void);
void calls_reaped(pid_t pid, int status);
void calls_none_left(void);
void calls_client_gone(uint64_t client);
int calls_fds(int *fds);
/* Milliseconds until the next deadline of calls_step; -1 for never. */
int64_t calls_wait(void);

/* door.c: the port on loopback whose bytes go to a worker. */
struct pollfd;
/* False if the operation is none of the door's. */
bool door_request(uint64_t client, uint32_t tag, uint8_t op, struct cursor *c);
void door_client_gone(uint64_t client);
int door_fds(struct pollfd *fds);
void door_step(const struct pollfd *fds, int count);
/* Milliseconds until door_step has something to do without an event; -1 for never. */
int64_t door_wait_ms(void);
/* Sockets in this network namespace that belong to the door: of each connection both ends. */
int door_sockets(void);

/* launch.c */
int launch(int argc, char **argv);
void exit_saying(const char *what) __attribute__((noreturn));
/* Duplicates a descriptor to the wanted number and closes the original. */
void put_at(int fd, int wanted);
/* Opens a file at a descriptor above the fixed ones (LISTEN_FD to CPU_FD). */
int open_high(const char *path, int flags, mode_t mode);
/* listening: makes a socket named `socket` in the current folder. connected: connects to it. */
int listening(void);
int connected(void);

/* sockets.c: frees memory in sockets that no process holds any more. A client has `per_client` sockets here. */
void sockets_watch(unsigned per_client);
void sockets_sweep(void);

/* places.c: the helper that the launcher leaves behind, and the supervisor's wait for its work. */
void places_helper(char **places);
void places_await(void);

/* contain.c: the policy's user. uid 0: the policy has the supervisor's user. */
struct agent { uid_t uid; gid_t gid; };
extern struct agent agent;
void become_agent(void);
void kill_agents(pid_t who);
void contain(char **argv);
int attach(const char *folder);

#endif
