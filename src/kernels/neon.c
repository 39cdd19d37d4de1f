/* SPDX-License-Identifier: MIT */
/*
 * The templates for AArch64. Its base instruction set is all they need, so that no target is set.
 */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "kernels/variants.h"

#if WN_KERNELS_NEON
#include <arm_neon.h>

/* The order matters: each file is written in terms of those before it. */
#include "kernels/vec_neon.h"
#include "kernels/vec_math.h"

#include "kernels/rows.tmpl.h"
#include "kernels/dots.tmpl.h"
#include "kernels/tile.tmpl.h"

#include "kernels/attend.tmpl.h"
#include "kernels/observe.tmpl.h"

#define WN_TABLE_FUNCTION wn_kernels_neon
#define WN_TABLE_NAME     "neon"
#include "kernels/table.tmpl.h"
#endif
