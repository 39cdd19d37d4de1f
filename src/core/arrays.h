/* SPDX-License-Identifier: MIT */
/* Arrays of arrays, and arrays that grow. */
#ifndef WN_ARRAYS_H
#define WN_ARRAYS_H

#include <stdint.h>
#include <stdlib.h>

/* Frees n arrays that an array of pointers names, and that array; NULL where there are none. */
static inline void wn_free_arrays(void *arrays, int n) {
    void **array = arrays;
    for (int i = 0; array != NULL && i < n; i++) {
        free(array[i]);
    }
    free(array);
}

/* The array with room for n elements: itself where *room is enough, else a larger one, with room for more.
 * NULL without memory, and it stays as it was. A NULL array has room 0. */
static inline void *wn_grown(void *array, int64_t n, int64_t *room, size_t element_bytes) {
    enum { FEWEST = 16 };
    if (n <= *room && array != NULL) {
        return array;
    }
    const int64_t wanted = 2 * *room > n ? 2 * *room : n + FEWEST;
    void *larger = realloc(array, (size_t)wanted * element_bytes);
    if (larger != NULL) {
        *room = wanted;
    }
    return larger;
}

#endif
