/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "kernels/variants.h"

#if WN_KERNELS_X86
#include <cpuid.h>

/* Bits of XCR0: the register states that the operating system saves on a context switch. */
enum {
    XCR0_AVX = 0x06,    /* xmm and the upper halves of ymm */
    XCR0_AVX512 = 0xe6, /* those, the mask registers, the upper halves of zmm, and zmm16 to zmm31 */
};

static bool has_bits(unsigned value, unsigned bits) {
    return (value & bits) == bits;
}

/* The saved register states; 0 when the operating system does not use XSAVE. */
static unsigned saved_states(unsigned leaf1_ecx) {
    if (!has_bits(leaf1_ecx, bit_OSXSAVE)) {
        return 0;
    }
    unsigned low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    (void)high;
    return low;
}

static bool cpu_has_avx2(void) {
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d)) {
        return false;
    }
    if (!has_bits(c, bit_AVX | bit_FMA | bit_F16C) || !has_bits(saved_states(c), XCR0_AVX)) {
        return false;
    }
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && has_bits(b, bit_AVX2);
}

static bool cpu_has_avx512(void) {
    unsigned a, b, c, d;
    if (!cpu_has_avx2() || !__get_cpuid(1, &a, &b, &c, &d) ||
        !has_bits(saved_states(c), XCR0_AVX512)) {
        return false;
    }
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) &&
           has_bits(b, bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL);
}

#if WN_KERNELS_VNNI
static bool cpu_has_avx512_vnni(void) {
    unsigned a, b, c, d;
    return cpu_has_avx512() && __get_cpuid_count(7, 0, &a, &b, &c, &d) &&
           has_bits(c, bit_AVX512VNNI);
}
#endif
#endif

static bool always(void) {
    return true;
}

static const struct variant {
    const char *name;
    const struct wn_kernels *(*table)(void);
    bool (*is_supported)(void);
} variants[] = {
#if WN_KERNELS_X86
/* Two tables of one name, which give the same bits. */
#if WN_KERNELS_VNNI
    {"avx512", wn_kernels_avx512_vnni, cpu_has_avx512_vnni},
#endif
    {"avx512", wn_kernels_avx512, cpu_has_avx512},
    {"avx2", wn_kernels_avx2, cpu_has_avx2},
#endif
#if WN_KERNELS_NEON
    {"neon", wn_kernels_neon, always},
#endif
    {"reference", wn_kernels_reference, always},
};

enum { N_VARIANTS = sizeof variants / sizeof variants[0] };

const struct wn_kernels *wn_kernels_choose(const char *name) {
    const bool any = !name || strcmp(name, "auto") == 0;
    for (int i = 0; i < N_VARIANTS; i++) {
        if ((any || strcmp(name, variants[i].name) == 0) && variants[i].is_supported()) {
            return variants[i].table();
        }
    }
    return NULL;
}

const char *const *wn_kernels_names(void) {
#if WN_KERNELS_X86
    static const char *const names[] = {"avx512", "avx2", "reference", NULL};
#elif WN_KERNELS_NEON
    static const char *const names[] = {"neon", "reference", NULL};
#else
    static const char *const names[] = {"reference", NULL};
#endif
    return names;
}
