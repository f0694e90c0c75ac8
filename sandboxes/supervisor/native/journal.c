/*
 * The journal of calls: append-only records on the descriptor that the launcher opened, and an index in memory.
 * A call is recorded as started before anything of it runs, and its result is recorded before any client gets it.
 *
 * Record: u32 length of the rest, u8 kind, u64 milliseconds since the epoch, call id, then (if finished) the body of
 * the answer.
 */
#include "supervisor.h"

#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

/* Limit on the whole journal, even if its disk has more room. An answer gets at most a share of the remaining room, so
   some room always remains. */
enum { MAX_JOURNAL = 256 << 20, SHARES = 16 };

struct entry { char *id; enum record kind; off_t body; size_t len; bool finished; };

static struct entry *table;
static size_t slots, used;
static off_t end_of_journal;

static uint64_t hash(const char *s) {
  uint64_t h = 14695981039346656037u; /* FNV-1a */
  for (; *s; s++) h = (h ^ (uint8_t)*s) * 1099511628211u;
  return h;
}

static struct entry *slot_of(struct entry *in, size_t size, const char *id) {
  size_t i = hash(id) & (size - 1);
  while (in[i].id && strcmp(in[i].id, id)) i = (i + 1) & (size - 1);
  return &in[i];
}

static void grow(void) {
  size_t size = slots ? slots * 2 : 256;
  struct entry *bigger = need(size * sizeof *bigger);
  memset(bigger, 0, size * sizeof *bigger);
  for (size_t i = 0; i < slots; i++)
    if (table[i].id) *slot_of(bigger, size, table[i].id) = table[i];
  free(table);
  table = bigger;
  slots = size;
}

static bool append(const struct buf *b) {
  size_t done = 0;
  while (done < b->len) {
    ssize_t n = write(JOURNAL_FD, b->p + done, b->len - done);
    if (n > 0) done += (size_t)n;
    else {
      /* A partial record would be read as the head of the next one. */
      if (ftruncate(JOURNAL_FD, end_of_journal)) _exit(74);
      return false;
    }
  }
  end_of_journal += (off_t)b->len;
  return true;
}

static bool record(const char *id, enum record kind, const struct buf *body) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  struct buf b = {0};
  buf_u32(&b, 0);
  buf_u8(&b, (uint8_t)kind);
  buf_u64(&b, (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000);
  buf_str(&b, id);
  if (body) buf_add(&b, body->p, body->len);
  uint32_t len = (uint32_t)(b.len - 4);
  for (int i = 0; i < 4; i++) b.p[i] = (uint8_t)(len >> (8 * i));
  bool ok = append(&b);
  buf_free(&b);
  if (!ok) return false;
  if (used * 2 >= slots) grow();
  struct entry *e = slot_of(table, slots, id);
  if (!e->id) {
    e->id = strdup(id);
    if (!e->id) _exit(70);
    used++;
  }
  e->kind = kind;
  e->finished = body != NULL;
  e->len = body ? body->len : 0;
  e->body = end_of_journal - (off_t)e->len;
  return true;
}

size_t journal_room(void) {
  uint64_t left = end_of_journal < MAX_JOURNAL ? (uint64_t)(MAX_JOURNAL - end_of_journal) : 0;
  struct statvfs fs;
  /* Some file systems report no size. */
  if (!fstatvfs(JOURNAL_FD, &fs) && fs.f_blocks && (uint64_t)fs.f_bavail * fs.f_frsize < left) left = (uint64_t)fs.f_bavail * fs.f_frsize;
  return left / SHARES;
}

bool journal_started(const char *id) { return record(id, RECORD_STARTED, NULL); }

bool journal_finished(const char *id, enum record kind, const struct buf *body) { return record(id, kind, body); }

enum call_state journal_find(const char *id, enum record *kind, struct buf *body) {
  if (!slots) return CALL_UNKNOWN;
  struct entry *e = slot_of(table, slots, id);
  if (!e->id) return CALL_UNKNOWN;
  *kind = e->kind;
  if (!e->finished) return CALL_RUNNING;
  uint8_t *bytes = need(e->len);
  for (size_t done = 0; done < e->len;) {
    ssize_t n = pread(JOURNAL_FD, bytes + done, e->len - done, e->body + (off_t)done);
    if (n <= 0) _exit(74);
    done += (size_t)n;
  }
  buf_add(body, bytes, e->len);
  free(bytes);
  return CALL_FINISHED;
}
