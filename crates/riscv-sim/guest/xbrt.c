#include <stdarg.h>
#include "xbrt.h"

#define MAX_ROUNDS 10 /* 1,024 nodes */

extern char __heap_start[], __heap_end[], __shared_start[], __shared_end[];
extern volatile xb_u64 tohost, fromhost;

static long my_pe, num_pes;
static char *shared_next;

/* How many barriers a node of each distance has begun; others add to it, maybe before this node
   zeroes its .bss. */
static volatile long arrived[MAX_ROUNDS] __attribute__((section(".data")));
static long n_barriers;

/* Where a node puts its value for the node that combines it. */
static volatile long offered;

/* Nobody enters main before every node has zeroed its memory. */
void xbrt_start(long pe, long n_pes)
{
    my_pe = pe;
    num_pes = n_pes;
    shared_next = __shared_start;
    xbrt_barrier();
}

int xbrt_my_pe(void) { return my_pe; }
int xbrt_num_pes(void) { return num_pes; }

void *xbrt_malloc(size_t n_bytes)
{
    size_t rounded = (n_bytes + 63) & ~(size_t)63;
    if (rounded < n_bytes || rounded > (size_t)(__shared_end - shared_next))
        return NULL;
    void *room = shared_next;
    shared_next += rounded;
    return room;
}

void xbrt_free(void *room)
{
    if (room)
        shared_next = room;
}

/* Words where both addresses allow it, bytes otherwise. */
void xbrt_put(void *target, const void *source, size_t n_bytes, int pe)
{
    char *to = target;
    const char *from = source;
    if ((((size_t)to | (size_t)from) & 7) == 0)
        for (; n_bytes >= 8; n_bytes -= 8, to += 8, from += 8)
            xb_store_u64(pe, to, *(const xb_u64 *)from);
    for (; n_bytes; n_bytes--)
        xb_store_u8(pe, to++, *from++);
}

void xbrt_get(void *target, const void *source, size_t n_bytes, int pe)
{
    char *to = target;
    const char *from = source;
    if ((((size_t)to | (size_t)from) & 7) == 0)
        for (; n_bytes >= 8; n_bytes -= 8, to += 8, from += 8)
            *(xb_u64 *)to = xb_load_u64(pe, from);
    for (; n_bytes; n_bytes--)
        *to++ = xb_load_u8(pe, from++);
}

/* Dissemination: in round r everybody tells the node 2^r further, and waits for the node 2^r before.
 * What was put or added before it is there behind it: the fence waits for what is still under way. */
void xbrt_barrier(void)
{
    __asm__ volatile("fence" ::: "memory");
    n_barriers++;
    for (long round = 0, distance = 1; distance < num_pes; round++, distance *= 2) {
        xb_fetch_add((my_pe + distance) % num_pes, &arrived[round], 1);
        while (arrived[round] < n_barriers)
            ;
    }
}

/* A binomial tree: the nodes that have it double in each round. */
void xbrt_broadcast(void *symmetric, size_t n_bytes, int root)
{
    long relative = (my_pe - root + num_pes) % num_pes;
    xbrt_barrier();
    for (long distance = 1; distance < num_pes; distance *= 2) {
        if (relative < distance && relative + distance < num_pes)
            xbrt_put(symmetric, symmetric, n_bytes, (my_pe + distance) % num_pes);
        xbrt_barrier();
    }
}

static long combine(long a, long b, xbrt_op op)
{
    switch (op) {
    case XBRT_SUM: return a + b;
    case XBRT_MIN: return a < b ? a : b;
    case XBRT_MAX: return a > b ? a : b;
    case XBRT_AND: return a & b;
    case XBRT_OR: return a | b;
    default: return a ^ b;
    }
}

/* Up a binomial tree to node 0, then everybody reads what it has. */
long xbrt_reduce(long value, xbrt_op op)
{
    offered = value;
    xbrt_barrier();
    for (long distance = 1; distance < num_pes; distance *= 2) {
        if (my_pe % (2 * distance) == 0 && my_pe + distance < num_pes)
            offered = combine(offered, xb_load_u64(my_pe + distance, &offered), op);
        xbrt_barrier();
    }
    value = xb_load_u64(0, &offered);
    xbrt_barrier();
    return value;
}

/* The own heap: a list of free blocks in the order of their addresses, first fit, neighbours
   joined. */
struct block {
    size_t n_bytes;
    struct block *next;
};

static struct block *free_blocks;
static int has_heap;

void *malloc(size_t n_bytes)
{
    if (!has_heap) {
        free_blocks = (struct block *)__heap_start;
        free_blocks->n_bytes = __heap_end - __heap_start;
        free_blocks->next = NULL;
        has_heap = 1;
    }
    if (n_bytes > (size_t)(__heap_end - __heap_start))
        return NULL;
    size_t need = (n_bytes + sizeof(struct block) + 15) & ~(size_t)15;
    for (struct block **place = &free_blocks; *place; place = &(*place)->next) {
        struct block *block = *place;
        if (block->n_bytes < need)
            continue;
        if (block->n_bytes - need >= 2 * sizeof(struct block)) {
            struct block *rest = (struct block *)((char *)block + need);
            rest->n_bytes = block->n_bytes - need;
            rest->next = block->next;
            block->n_bytes = need;
            *place = rest;
        } else {
            *place = block->next;
        }
        return block + 1;
    }
    return NULL;
}

void free(void *room)
{
    if (!room)
        return;
    struct block *block = (struct block *)room - 1;
    struct block **place = &free_blocks, *before = NULL;
    while (*place && *place < block) {
        before = *place;
        place = &(*place)->next;
    }
    block->next = *place;
    *place = block;
    if (block->next && (char *)block + block->n_bytes == (char *)block->next) {
        block->n_bytes += block->next->n_bytes;
        block->next = block->next->next;
    }
    if (before && (char *)before + before->n_bytes == (char *)block) {
        before->n_bytes += block->n_bytes;
        before->next = block->next;
    }
}

/* A system call as the host of riscv-tests takes it: the address of a block, whose first word is
   the number and then the result. */
static void host_write(const char *text, size_t n_bytes)
{
    volatile xb_u64 request[8] __attribute__((aligned(64))) = {64, 1, (xb_u64)text, n_bytes};
    __asm__ volatile("fence" ::: "memory");
    tohost = (xb_u64)request;
    while (fromhost == 0)
        ;
    fromhost = 0;
}

void exit(int code)
{
    for (;;)
        tohost = ((xb_u64)(unsigned)code << 1) | 1;
}

struct line {
    size_t n_bytes;
    char text[256];
};

static void put_char(struct line *line, char letter)
{
    if (line->n_bytes == sizeof line->text) {
        host_write(line->text, line->n_bytes);
        line->n_bytes = 0;
    }
    line->text[line->n_bytes++] = letter;
}

static void put_number(struct line *line, xb_u64 value, unsigned base)
{
    char digits[20];
    int n_digits = 0;
    do
        digits[n_digits++] = "0123456789abcdef"[value % base];
    while (value /= base);
    while (n_digits)
        put_char(line, digits[--n_digits]);
}

static void put_argument(struct line *line, char kind, int is_long, va_list *arguments)
{
    long value;
    switch (kind) {
    case 'c': put_char(line, va_arg(*arguments, int)); break;
    case 's':
        for (const char *text = va_arg(*arguments, const char *); *text; text++)
            put_char(line, *text);
        break;
    case 'd':
        value = is_long ? va_arg(*arguments, long) : va_arg(*arguments, int);
        if (value < 0)
            put_char(line, '-');
        put_number(line, value < 0 ? -(xb_u64)value : (xb_u64)value, 10);
        break;
    case 'p':
        put_char(line, '0');
        put_char(line, 'x');
        put_number(line, va_arg(*arguments, xb_u64), 16);
        break;
    case 'u':
    case 'x':
        put_number(line, is_long ? va_arg(*arguments, xb_u64) : va_arg(*arguments, unsigned), kind == 'u' ? 10 : 16);
        break;
    default: put_char(line, kind);
    }
}

void xbrt_printf(const char *format, ...)
{
    struct line line;
    line.n_bytes = 0;
    va_list arguments;
    va_start(arguments, format);
    for (; *format; format++) {
        if (*format != '%') {
            put_char(&line, *format);
            continue;
        }
        int is_long = 0;
        while (*++format == 'l')
            is_long = 1;
        if (!*format)
            break;
        put_argument(&line, *format, is_long, &arguments);
    }
    va_end(arguments);
    if (line.n_bytes)
        host_write(line.text, line.n_bytes);
}

void *memcpy(void *target, const void *source, size_t n_bytes)
{
    char *to = target;
    const char *from = source;
    while (n_bytes--)
        *to++ = *from++;
    return target;
}

void *memset(void *target, int value, size_t n_bytes)
{
    char *to = target;
    while (n_bytes--)
        *to++ = value;
    return target;
}

int memcmp(const void *a, const void *b, size_t n_bytes)
{
    const unsigned char *x = a, *y = b;
    for (; n_bytes; n_bytes--, x++, y++)
        if (*x != *y)
            return *x - *y;
    return 0;
}

size_t strlen(const char *text)
{
    size_t n_bytes = 0;
    while (text[n_bytes])
        n_bytes++;
    return n_bytes;
}
