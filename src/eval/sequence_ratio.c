/* SPDX-License-Identifier: MIT */
/*
 * Ratcliff and Obershelp's similarity: the longest matching block, then the same on both sides of it.
 * As Python's difflib.SequenceMatcher has it, with no junk and its heuristic on: see its
 * documentation, and J. W. Ratcliff and D. Metzener, "Pattern Matching: The Gestalt Approach", 1988.
 */
#include "eval/text_metrics.h"

#include <stdlib.h>

/* Elements of b from this many on are popular when more than 1 % + 1 are equal. */
enum { POPULAR_FROM = 200 };

struct element {
    int32_t c;
    size_t at;
};

/* A part of a and the part of b to be compared with it: [begin, end). */
struct range {
    size_t a_begin, a_end, b_begin, b_end;
};

struct block {
    size_t a, b, n;
};

struct matcher {
    struct wn_codepoints a, b;
    struct element *sorted; /* [n_sorted]: b by character and place, without what is popular */
    size_t n_sorted;
    size_t *length, *next_length; /* [b.n + 1]: of the match that ends before each place of b */
    struct range *stack;          /* [a.n + 2]: parts to be compared */
};

static int compare_elements(const void *a, const void *b) {
    const struct element *left = a, *right = b;
    if (left->c != right->c) {
        return left->c < right->c ? -1 : 1;
    }
    return (left->at > right->at) - (left->at < right->at);
}

/* Sorts b's elements and drops the popular ones. */
static void index_b(struct matcher *m) {
    const size_t n = m->b.n, n_most = n >= POPULAR_FROM ? n / 100 + 1 : n;
    for (size_t i = 0; i < n; i++) {
        m->sorted[i] = (struct element){m->b.at[i], i};
    }
    qsort(m->sorted, n, sizeof *m->sorted, compare_elements);
    for (size_t begin = 0; begin < n;) {
        size_t end = begin;
        while (end < n && m->sorted[end].c == m->sorted[begin].c) {
            end++;
        }
        for (size_t i = begin; end - begin <= n_most && i < end; i++) {
            m->sorted[m->n_sorted++] = m->sorted[i];
        }
        begin = end;
    }
}

/* The first of the sorted elements that is not before (c, at). */
static size_t find(const struct matcher *m, int32_t c, size_t at) {
    const struct element wanted = {c, at};
    size_t low = 0, high = m->n_sorted;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (compare_elements(&m->sorted[middle], &wanted) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Equal elements beside the block join it, popular ones too. */
static struct block extended(const struct matcher *m, struct range range, struct block block) {
    while (block.a > range.a_begin && block.b > range.b_begin &&
           m->a.at[block.a - 1] == m->b.at[block.b - 1]) {
        block = (struct block){block.a - 1, block.b - 1, block.n + 1};
    }
    while (block.a + block.n < range.a_end && block.b + block.n < range.b_end &&
           m->a.at[block.a + block.n] == m->b.at[block.b + block.n]) {
        block.n++;
    }
    return block;
}

/* The longest block, of those the first in a, then in b; before it is extended. */
static struct block longest_block(struct matcher *m, struct range range) {
    struct block best = {range.a_begin, range.b_begin, 0};
    for (size_t j = range.b_begin; j <= range.b_end; j++) {
        m->length[j] = 0;
        m->next_length[j] = 0;
    }
    for (size_t i = range.a_begin; i < range.a_end; i++) {
        const int32_t c = m->a.at[i];
        const size_t first = find(m, c, range.b_begin);
        size_t e = first;
        for (; e < m->n_sorted && m->sorted[e].c == c && m->sorted[e].at < range.b_end; e++) {
            const size_t j = m->sorted[e].at, n = m->length[j] + 1;
            m->next_length[j + 1] = n;
            if (n > best.n) {
                best = (struct block){i + 1 - n, j + 1 - n, n};
            }
        }
        size_t *length = m->length;
        m->length = m->next_length;
        m->next_length = length;
        /* The row before is to be all zero again: it has entries for the character before. */
        if (i > range.a_begin) {
            const int32_t before = m->a.at[i - 1];
            for (e = find(m, before, range.b_begin);
                 e < m->n_sorted && m->sorted[e].c == before && m->sorted[e].at < range.b_end;
                 e++) {
                m->next_length[m->sorted[e].at + 1] = 0;
            }
        }
    }
    return best;
}

static size_t count_matches(struct matcher *m) {
    size_t n = 0, n_stack = 1;
    m->stack[0] = (struct range){0, m->a.n, 0, m->b.n};
    while (n_stack > 0) {
        const struct range range = m->stack[--n_stack];
        const struct block block = extended(m, range, longest_block(m, range));
        if (block.n == 0) {
            continue;
        }
        n += block.n;
        if (block.a > range.a_begin && block.b > range.b_begin) {
            m->stack[n_stack++] = (struct range){range.a_begin, block.a, range.b_begin, block.b};
        }
        if (block.a + block.n < range.a_end && block.b + block.n < range.b_end) {
            m->stack[n_stack++] =
                (struct range){block.a + block.n, range.a_end, block.b + block.n, range.b_end};
        }
    }
    return n;
}

wn_status wn_metric_sequence_ratio(struct wn_codepoints a, struct wn_codepoints b, double *ratio,
                                   struct wn_error *err) {
    struct matcher m = {.a = a, .b = b};
    m.sorted = calloc(b.n + 1, sizeof *m.sorted);
    m.length = calloc(b.n + 1, sizeof *m.length);
    m.next_length = calloc(b.n + 1, sizeof *m.next_length);
    /* Ranges on the stack have no element of a in common, and none is empty. */
    m.stack = calloc(a.n + 2, sizeof *m.stack);
    const bool ok =
        m.sorted != NULL && m.length != NULL && m.next_length != NULL && m.stack != NULL;
    if (ok) {
        index_b(&m);
        const size_t n = a.n + b.n;
        *ratio = n > 0 ? 2.0 * (double)count_matches(&m) / (double)n : 1.0;
    }
    free(m.sorted);
    free(m.length);
    free(m.next_length);
    free(m.stack);
    return ok ? WN_OK : wn_error_set(err, WN_E_MEMORY, "out of memory while comparing texts");
}
