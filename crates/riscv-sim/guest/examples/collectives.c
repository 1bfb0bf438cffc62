/* Every part of the runtime, checked on any number of nodes. The code of a failure is the line
   where it is. */
#include "xbrt.h"

#define CHECK(claim)                                                                               \
    do                                                                                             \
        if (!(claim))                                                                              \
            exit(__LINE__);                                                                        \
    while (0)

int main(void)
{
    long me = xbrt_my_pe(), n = xbrt_num_pes();
    long *table = xbrt_malloc(n * sizeof *table);
    char *text = xbrt_malloc(32);
    CHECK(table && text && xbrt_malloc(1ul << 30) == NULL);
    for (long pe = 0; pe < n; pe++)
        table[pe] = -1;
    xbrt_barrier();

    /* Everybody tells everybody. */
    long mine = 100 + me;
    for (long pe = 0; pe < n; pe++)
        xbrt_put(&table[me], &mine, sizeof mine, pe);
    xbrt_barrier();
    for (long pe = 0; pe < n; pe++)
        CHECK(table[pe] == 100 + pe);
    long theirs = 0;
    xbrt_get(&theirs, &table[(me + 1) % n], sizeof theirs, (me + 1) % n);
    CHECK(theirs == 100 + (me + 1) % n);

    CHECK(xbrt_reduce(me + 1, XBRT_SUM) == n * (n + 1) / 2);
    CHECK(xbrt_reduce(-me, XBRT_MIN) == 1 - n);
    CHECK(xbrt_reduce(me, XBRT_MAX) == n - 1);
    CHECK(xbrt_reduce(me & 1, XBRT_OR) == (n > 1));

    for (int root = 0; root < n; root += 1 + n / 3) {
        memset(text, 0, 32);
        if (me == root)
            memcpy(text, "root says so", 13);
        xbrt_broadcast(text, 13, root);
        CHECK(memcmp(text, "root says so", 13) == 0 && strlen(text) == 12);
    }

    /* A counter on the last node, and the smallest of what everybody offers on node 0. */
    table[0] = 0;
    xbrt_barrier();
    for (int k = 0; k < 10; k++)
        CHECK(xb_fetch_add(n - 1, &table[0], 1) < 10 * n);
    xbrt_barrier();
    CHECK((long)xb_load_u64(n - 1, &table[0]) == 10 * n);
    xbrt_barrier();
    xb_fetch_min(0, &table[0], -me);
    xbrt_barrier();
    CHECK((long)xb_load_u64(0, &table[0]) == (n > 1 ? 1 - n : 0));

    /* The own heap joins what is given back. */
    char *first = malloc(1 << 20), *second = malloc(1 << 20);
    CHECK(first && second && first != second);
    free(first);
    free(second);
    CHECK(malloc(4 << 20) == first);

    double root = 1;
    for (int k = 0; k < 20; k++)
        root = (root + 2 / root) / 2;
    CHECK(root * root > 1.999999 && root * root < 2.000001);
    CHECK(xb_instructions() > 0);

    if (me == 0)
        xbrt_printf("%d nodes, %s, %lx, %c%%\n", (int)n, "all well", 0xabcdefl, '!');
    return 0;
}
