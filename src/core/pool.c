/* SPDX-License-Identifier: MIT */
#include "core/pool.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* Large enough that mapping costs little per page, small enough that whole slabs become free. */
#define SLAB_TARGET_BYTES ((size_t)1 << 20)
#define PAYLOAD_ALIGN     ((size_t)64)
#define WORD_BITS         64

struct size_class;

struct wn_slab {
    struct wn_slab *prev, *next;
    struct size_class *size_class;
    uint64_t order;  /* rises along the list */
    uint8_t *memory; /* slab_bytes of the size class */
    int n_free;
    bool has_stale_memory; /* a page was freed since its memory was last discarded */
    uint64_t *free_words;  /* bit set: the slot is free */
    struct wn_page page[]; /* one per slot */
};

/* All pages of one size. Slabs stand in the order they were made; pages are taken from the first
 * that has a free slot, so that the later slabs run empty. */
struct size_class {
    struct size_class *next;
    size_t page_bytes, stride_bytes, slab_bytes;
    int n_slots;
    struct wn_slab *first, *last;
    struct wn_slab *first_open; /* no slab before it has a free slot; NULL: none has */
    uint64_t next_order;
    int n_empty_slabs;
};

struct mapped_page {
    struct wn_page page; /* first, so that a page of a mapping is found in it */
    struct wn_mapping *mapping;
    size_t page_bytes;
};

struct wn_mapping {
    struct wn_pool *pool;
    void *memory;
    size_t memory_bytes;
    int64_t n_holds; /* the maker's and one for each page that lives */
    int64_t n_pages, max_pages;
    struct mapped_page page[];
};

struct wn_pool {
    pthread_mutex_t lock;
    int64_t limit_bytes;
    int64_t in_use_bytes, mapped_bytes;
    size_t system_page_bytes;
    struct size_class *classes;
};

wn_status wn_pool_create(int64_t limit_bytes, struct wn_pool **out) {
    if (limit_bytes < 0 || out == NULL) {
        return WN_E_ARG;
    }
    struct wn_pool *pool = calloc(1, sizeof(*pool));
    if (pool == NULL) {
        return WN_E_MEMORY;
    }
    if (pthread_mutex_init(&pool->lock, NULL) != 0) {
        free(pool);
        return WN_E_MEMORY;
    }
    long system_page = sysconf(_SC_PAGESIZE);
    pool->system_page_bytes = system_page > 0 ? (size_t)system_page : 4096;
    pool->limit_bytes = limit_bytes;
    *out = pool;
    return WN_OK;
}

/* ---- slabs; the caller holds the lock ---- */

static size_t n_words(int n_slots) {
    return ((size_t)n_slots + WORD_BITS - 1) / WORD_BITS;
}

static bool slot_is_free(const struct wn_slab *slab, int slot) {
    return (slab->free_words[slot / WORD_BITS] >> (slot % WORD_BITS) & 1) != 0;
}

static struct wn_slab *slab_new(struct wn_pool *pool, struct size_class *cls) {
    size_t n_slots = (size_t)cls->n_slots;
    struct wn_slab *slab = malloc(sizeof(*slab) + n_slots * sizeof(slab->page[0]));
    uint64_t *words = calloc(n_words(cls->n_slots), sizeof(*words));
    void *memory = MAP_FAILED;
    if (slab != NULL && words != NULL) {
        memory =
            mmap(NULL, cls->slab_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
    if (memory == MAP_FAILED) {
        free(words);
        free(slab);
        return NULL;
    }
    for (size_t i = 0; i < n_slots; i++) {
        words[i / WORD_BITS] |= (uint64_t)1 << (i % WORD_BITS);
        slab->page[i].data = (uint8_t *)memory + i * cls->stride_bytes;
        slab->page[i].slab = slab;
        atomic_init(&slab->page[i].n_refs, 0);
    }
    slab->size_class = cls;
    slab->order = cls->next_order++;
    slab->memory = memory;
    slab->n_free = cls->n_slots;
    slab->has_stale_memory = false;
    slab->free_words = words;
    slab->prev = cls->last;
    slab->next = NULL;
    if (cls->last != NULL) {
        cls->last->next = slab;
    } else {
        cls->first = slab;
    }
    cls->last = slab;
    if (cls->first_open == NULL) {
        cls->first_open = slab;
    }
    cls->n_empty_slabs++;
    pool->mapped_bytes += (int64_t)cls->slab_bytes;
    return slab;
}

static void slab_free(struct wn_pool *pool, struct wn_slab *slab) {
    struct size_class *cls = slab->size_class;
    assert(slab->n_free == cls->n_slots);
    if (cls->first_open == slab) {
        cls->first_open = slab->next;
    }
    if (slab->prev != NULL) {
        slab->prev->next = slab->next;
    } else {
        cls->first = slab->next;
    }
    if (slab->next != NULL) {
        slab->next->prev = slab->prev;
    } else {
        cls->last = slab->prev;
    }
    cls->n_empty_slabs--;
    pool->mapped_bytes -= (int64_t)cls->slab_bytes;
    munmap(slab->memory, cls->slab_bytes);
    free(slab->free_words);
    free(slab);
}

/* Discards the system pages that lie wholly inside slots [first, last). */
static void discard_slots(const struct wn_pool *pool, struct wn_slab *slab, int first, int last) {
    const struct size_class *cls = slab->size_class;
    size_t unit = pool->system_page_bytes;
    size_t begin = (size_t)first * cls->stride_bytes;
    size_t end = last == cls->n_slots ? cls->slab_bytes : (size_t)last * cls->stride_bytes;
    begin = (begin + unit - 1) / unit * unit;
    end = end / unit * unit;
    if (begin < end) {
        /* Advice only: when it is refused the memory stays resident and nothing else changes. */
        (void)madvise(slab->memory + begin, end - begin, MADV_DONTNEED);
    }
}

static void slab_discard_free_runs(const struct wn_pool *pool, struct wn_slab *slab) {
    int n_slots = slab->size_class->n_slots;
    int slot = 0;
    while (slot < n_slots) {
        int first = slot;
        while (slot < n_slots && slot_is_free(slab, slot)) {
            slot++;
        }
        if (slot > first) {
            discard_slots(pool, slab, first, slot);
        }
        slot++;
    }
    slab->has_stale_memory = false;
}

static struct size_class *class_of(struct wn_pool *pool, size_t page_bytes) {
    for (struct size_class *cls = pool->classes; cls != NULL; cls = cls->next) {
        if (cls->page_bytes == page_bytes) {
            return cls;
        }
    }
    if (page_bytes > SIZE_MAX / 2) {
        return NULL;
    }
    struct size_class *cls = calloc(1, sizeof(*cls));
    if (cls == NULL) {
        return NULL;
    }
    size_t stride = (page_bytes + PAYLOAD_ALIGN - 1) / PAYLOAD_ALIGN * PAYLOAD_ALIGN;
    size_t n_slots = stride < SLAB_TARGET_BYTES ? SLAB_TARGET_BYTES / stride : 1;
    size_t unit = pool->system_page_bytes;
    cls->page_bytes = page_bytes;
    cls->stride_bytes = stride;
    cls->n_slots = (int)n_slots;
    cls->slab_bytes = (n_slots * stride + unit - 1) / unit * unit;
    cls->next = pool->classes;
    pool->classes = cls;
    return cls;
}

static int take_first_free_slot(struct wn_slab *slab) {
    size_t word = 0;
    while (slab->free_words[word] == 0) {
        word++;
    }
    int bit = __builtin_ctzll(slab->free_words[word]);
    slab->free_words[word] &= slab->free_words[word] - 1;
    if (slab->n_free == slab->size_class->n_slots) {
        slab->size_class->n_empty_slabs--;
    }
    slab->n_free--;
    return (int)word * WORD_BITS + bit;
}

static struct wn_page *page_take(struct wn_pool *pool, size_t page_bytes) {
    struct size_class *cls = class_of(pool, page_bytes);
    if (cls == NULL) {
        return NULL;
    }
    while (cls->first_open != NULL && cls->first_open->n_free == 0) {
        cls->first_open = cls->first_open->next;
    }
    struct wn_slab *slab = cls->first_open != NULL ? cls->first_open : slab_new(pool, cls);
    if (slab == NULL) {
        return NULL;
    }
    struct wn_page *page = &slab->page[take_first_free_slot(slab)];
    atomic_store_explicit(&page->n_refs, 1, memory_order_relaxed);
    pool->in_use_bytes += (int64_t)page_bytes;
    return page;
}

/* The caller holds the lock. */
static void mapping_drop(struct wn_mapping *mapping) {
    mapping->n_holds--;
    if (mapping->n_holds == 0) {
        munmap(mapping->memory, mapping->memory_bytes);
        free(mapping);
    }
}

static void page_give_back(struct wn_pool *pool, struct wn_page *page) {
    struct wn_slab *slab = page->slab;
    if (slab == NULL) {
        struct mapped_page *mapped = (struct mapped_page *)(void *)page;
        pool->in_use_bytes -= (int64_t)mapped->page_bytes;
        mapping_drop(mapped->mapping);
        return;
    }
    struct size_class *cls = slab->size_class;
    ptrdiff_t slot = page - slab->page;
    slab->free_words[slot / WORD_BITS] |= (uint64_t)1 << (slot % WORD_BITS);
    slab->n_free++;
    slab->has_stale_memory = true;
    pool->in_use_bytes -= (int64_t)cls->page_bytes;
    if (cls->first_open == NULL || slab->order < cls->first_open->order) {
        cls->first_open = slab;
    }
    if (slab->n_free == cls->n_slots) {
        cls->n_empty_slabs++;
        /* One empty slab stays, so that a page taken and given back in turn does not map and unmap
         * each time. */
        if (cls->n_empty_slabs > 1) {
            slab_free(pool, slab);
        }
    }
}

/* ---- interface ---- */

void wn_pool_free(struct wn_pool *pool) {
    if (pool == NULL) {
        return;
    }
    assert(pool->in_use_bytes == 0);
    struct size_class *cls = pool->classes;
    while (cls != NULL) {
        struct size_class *next = cls->next;
        while (cls->first != NULL) {
            slab_free(pool, cls->first);
        }
        free(cls);
        cls = next;
    }
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}

void wn_pool_usage(const struct wn_pool *pool, struct wn_pool_usage *out) {
    /* Locking does not change what the pool holds. */
    struct wn_pool *p = (struct wn_pool *)pool;
    pthread_mutex_lock(&p->lock);
    out->in_use_bytes = p->in_use_bytes;
    out->mapped_bytes = p->mapped_bytes;
    pthread_mutex_unlock(&p->lock);
}

void wn_pool_trim(struct wn_pool *pool) {
    pthread_mutex_lock(&pool->lock);
    for (struct size_class *cls = pool->classes; cls != NULL; cls = cls->next) {
        struct wn_slab *slab = cls->first;
        while (slab != NULL) {
            struct wn_slab *next = slab->next;
            if (slab->n_free == cls->n_slots) {
                slab_free(pool, slab);
            } else if (slab->has_stale_memory) {
                slab_discard_free_runs(pool, slab);
            }
            slab = next;
        }
    }
    pthread_mutex_unlock(&pool->lock);
}

/* Whether the limit lets another page be handed out; the caller holds the lock. */
static bool page_fits(const struct wn_pool *pool, size_t page_bytes) {
    if (page_bytes > INT64_MAX / 2) {
        return false;
    }
    return pool->limit_bytes == 0 || (int64_t)page_bytes <= pool->limit_bytes - pool->in_use_bytes;
}

struct wn_page *wn_pool_page_new(struct wn_pool *pool, size_t page_bytes) {
    assert(page_bytes >= 1);
    struct wn_page *page = NULL;
    pthread_mutex_lock(&pool->lock);
    if (page_fits(pool, page_bytes)) {
        page = page_take(pool, page_bytes);
    }
    pthread_mutex_unlock(&pool->lock);
    return page;
}

void wn_page_ref(struct wn_page *page) {
    atomic_fetch_add_explicit(&page->n_refs, 1, memory_order_relaxed);
}

void wn_page_unref(struct wn_pool *pool, struct wn_page *page) {
    /* Release: this owner's reads and writes end before the page can be reused or written by
     * another owner. */
    if (atomic_fetch_sub_explicit(&page->n_refs, 1, memory_order_acq_rel) == 1) {
        pthread_mutex_lock(&pool->lock);
        page_give_back(pool, page);
        pthread_mutex_unlock(&pool->lock);
    }
}

bool wn_page_is_exclusive(struct wn_page *page) {
    return page->slab != NULL && atomic_load_explicit(&page->n_refs, memory_order_acquire) == 1;
}

/* ---- adopted mappings ---- */

struct wn_mapping *wn_pool_adopt(struct wn_pool *pool, void *memory, size_t memory_bytes,
                                 int64_t max_pages) {
    assert(memory != NULL && memory_bytes >= 1 && max_pages >= 0);
    struct wn_mapping *mapping = NULL;
    if ((uint64_t)max_pages > (SIZE_MAX - sizeof(*mapping)) / sizeof(mapping->page[0])) {
        return NULL;
    }
    mapping = malloc(sizeof(*mapping) + (size_t)max_pages * sizeof(mapping->page[0]));
    if (mapping == NULL) {
        return NULL;
    }
    mapping->pool = pool;
    mapping->memory = memory;
    mapping->memory_bytes = memory_bytes;
    mapping->n_holds = 1;
    mapping->n_pages = 0;
    mapping->max_pages = max_pages;
    return mapping;
}

struct wn_page *wn_mapping_page_new(struct wn_mapping *mapping, size_t offset, size_t page_bytes) {
    struct wn_pool *pool = mapping->pool;
    assert(offset <= mapping->memory_bytes && page_bytes <= mapping->memory_bytes - offset);
    assert(mapping->n_pages < mapping->max_pages);
    struct mapped_page *mapped = &mapping->page[mapping->n_pages];
    pthread_mutex_lock(&pool->lock);
    bool fits = page_fits(pool, page_bytes);
    if (fits) {
        pool->in_use_bytes += (int64_t)page_bytes;
        mapping->n_holds++;
        mapping->n_pages++;
    }
    pthread_mutex_unlock(&pool->lock);
    if (!fits) {
        return NULL;
    }
    mapped->page.data = (uint8_t *)mapping->memory + offset;
    mapped->page.slab = NULL;
    atomic_init(&mapped->page.n_refs, 1);
    mapped->mapping = mapping;
    mapped->page_bytes = page_bytes;
    return &mapped->page;
}

void wn_mapping_release(struct wn_mapping *mapping) {
    struct wn_pool *pool = mapping->pool;
    pthread_mutex_lock(&pool->lock);
    mapping_drop(mapping);
    pthread_mutex_unlock(&pool->lock);
}
