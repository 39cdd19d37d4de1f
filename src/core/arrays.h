/* SPDX-License-Identifier: MIT */
/* Arrays of arrays. */
#ifndef WN_ARRAYS_H
#define WN_ARRAYS_H

#include <stdlib.h>

/* Frees n arrays that an array of pointers names, and that array; NULL where there are none. */
static inline void wn_free_arrays(void *arrays, int n) {
    void **array = arrays;
    for (int i = 0; array != NULL && i < n; i++) {
        free(array[i]);
    }
    free(array);
}

#endif
