/* A small runtime in the style of xbrtime: nodes, symmetric memory, transfers, atomics, collectives,
 * and what a C program needs without an operating system. */
#ifndef XBRT_H
#define XBRT_H

#include <stddef.h>
#include "xbgas.h"

/* The number of this node, and how many there are. */
int xbrt_my_pe(void);
int xbrt_num_pes(void);

/* Room at the same address on every node. Every node asks for the same in the same order; NULL if
   there is no more. */
void *xbrt_malloc(size_t n_bytes);
/* Gives back everything from `room` on; every node does. */
void xbrt_free(void *room);

/* Copies to and from another node. A get is complete on return, a put after the next barrier or
   `fence`: a core may have several remote operations under way. */
void xbrt_put(void *target, const void *source, size_t n_bytes, int pe);
void xbrt_get(void *target, const void *source, size_t n_bytes, int pe);

/* Every node calls these, in the same order. */
void xbrt_barrier(void);
void xbrt_broadcast(void *symmetric, size_t n_bytes, int root);
typedef enum { XBRT_SUM, XBRT_MIN, XBRT_MAX, XBRT_AND, XBRT_OR, XBRT_XOR } xbrt_op;
/* The value of all nodes combined, on every node. */
long xbrt_reduce(long value, xbrt_op op);

/* The own memory. */
void *malloc(size_t n_bytes);
void free(void *room);

void exit(int code) __attribute__((noreturn));
/* %c %s %d %u %x %p and %%, with l. Gives nothing back. */
void xbrt_printf(const char *format, ...) __attribute__((format(printf, 1, 2)));

void *memcpy(void *target, const void *source, size_t n_bytes);
void *memset(void *target, int value, size_t n_bytes);
int memcmp(const void *a, const void *b, size_t n_bytes);
size_t strlen(const char *text);

#endif
