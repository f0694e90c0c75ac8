/* Byte strings and frame fields: little-endian integers, and bytes after their 32-bit length. */
#include "supervisor.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void *need(size_t bytes) {
  void *p = malloc(bytes ? bytes : 1);
  if (!p) _exit(70);
  return p;
}

void buf_reserve(struct buf *b, size_t len) {
  if (b->len + len <= b->cap) return;
  size_t cap = b->cap ? b->cap : 256;
  while (cap < b->len + len) cap *= 2;
  if (len > 1 << 20) cap = b->len + len;
  b->p = realloc(b->p, cap);
  if (!b->p) _exit(70);
  b->cap = cap;
}

void buf_add(struct buf *b, const void *data, size_t len) {
  buf_reserve(b, len);
  if (len) memcpy(b->p + b->len, data, len);
  b->len += len;
}

void buf_u8(struct buf *b, uint8_t v) { buf_add(b, &v, 1); }

void buf_u32(struct buf *b, uint32_t v) {
  uint8_t bytes[4];
  for (int i = 0; i < 4; i++) bytes[i] = (uint8_t)(v >> (8 * i));
  buf_add(b, bytes, 4);
}

void buf_u64(struct buf *b, uint64_t v) {
  buf_u32(b, (uint32_t)v);
  buf_u32(b, (uint32_t)(v >> 32));
}

void buf_bytes(struct buf *b, const void *data, size_t len) {
  buf_u32(b, (uint32_t)len);
  buf_add(b, data, len);
}

void buf_str(struct buf *b, const char *s) { buf_bytes(b, s, strlen(s)); }

void buf_free(struct buf *b) {
  free(b->p);
  *b = (struct buf){0};
}

static const uint8_t *take(struct cursor *c, size_t len) {
  if (c->bad || c->left < len) {
    c->bad = true;
    return NULL;
  }
  const uint8_t *p = c->p;
  c->p += len;
  c->left -= len;
  return p;
}

uint8_t take_u8(struct cursor *c) {
  const uint8_t *p = take(c, 1);
  return p ? *p : 0;
}

uint32_t take_u32(struct cursor *c) {
  const uint8_t *p = take(c, 4);
  return p ? (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24 : 0;
}

uint64_t take_u64(struct cursor *c) {
  uint64_t low = take_u32(c);
  return low | (uint64_t)take_u32(c) << 32;
}

const uint8_t *take_bytes(struct cursor *c, size_t *len) {
  *len = take_u32(c);
  const uint8_t *p = take(c, *len);
  if (!p) *len = 0;
  return p;
}

char *take_str(struct cursor *c) {
  size_t len;
  const uint8_t *p = take_bytes(c, &len);
  if (p && memchr(p, 0, len)) {
    c->bad = true;
    len = 0;
  }
  char *s = need(len + 1);
  if (p && len) memcpy(s, p, len);
  s[len] = 0;
  return s;
}
