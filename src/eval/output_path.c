/* SPDX-License-Identifier: MIT */
#include "eval/output_path.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool wn_output_folder_is_writable(const char *path) {
    char folder[WN_OUTPUT_PATH_MAX];
    snprintf(folder, sizeof folder, "%s", path);
    char *slash = strrchr(folder, '/');
    if (slash == NULL) {
        return access(".", W_OK | X_OK) == 0;
    }
    slash[slash == folder] = '\0';
    return access(folder, W_OK | X_OK) == 0;
}

wn_status wn_output_check(const char *path, struct wn_error *err) {
    struct stat info;
    if (strlen(path) >= WN_OUTPUT_PATH_MAX) {
        return wn_error_set(err, WN_E_IO, "cannot write %.80s... (the name is too long)", path);
    }
    if (!wn_output_folder_is_writable(path)) {
        return wn_error_set(err, WN_E_IO,
                            "cannot write %.300s (%s; name a file in a folder that can be written)",
                            path, strerror(errno));
    }
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode)) {
        return wn_error_set(err, WN_E_IO,
                            "cannot write %.300s (it is not a file; give another name)", path);
    }
    return WN_OK;
}
