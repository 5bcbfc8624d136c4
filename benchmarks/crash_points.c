/* Preloaded by crash_points.py: numbers every call that changes a file below one folder, and kills the process at one of them.
 *
 * crash_arm(folder, at, torn, log): from now on calls are counted from 1. Call `at` is not made: the process gets SIGKILL instead. With
 * `torn` it is made in part, if it is a write: half of the bytes are written. A letter for every call goes to the file descriptor `log`. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static char folder[PATH_MAX];
static size_t length;
static long count, at;
static int armed, torn, reported = -1;

void crash_arm(const char *below, long number, int half, int log) {
    snprintf(folder, sizeof folder, "%s", below);
    length = strlen(folder);
    count = 0, at = number, torn = half, reported = log, armed = 1;
}

static int path_below(const char *path) {
    char whole[2 * PATH_MAX], here[PATH_MAX];
    if (!armed || path == NULL) return 0;
    if (path[0] == '/') snprintf(whole, sizeof whole, "%s", path);
    else if (getcwd(here, sizeof here) == NULL) return 0;
    else snprintf(whole, sizeof whole, "%s/%s", here, path);
    return strncmp(whole, folder, length) == 0;
}

static int file_below(int file) {
    char link[64], path[PATH_MAX];
    if (!armed || file == reported) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size < 0) return 0;
    path[size] = 0;
    return strncmp(path, folder, length) == 0;
}

/* 1: this call is to be made in part. */
static int counted(char kind) {
    count++;
    if (reported >= 0) NEXT(write)(reported, &kind, 1);
    if (count != at) return 0;
    if (torn && kind == 'w') return 1;
    kill(getpid(), SIGKILL);
    pause();
    return 0;
}

static void die(void) {
    kill(getpid(), SIGKILL);
    pause();
}

#define CHANGES (O_CREAT | O_TRUNC)
#define OPEN(name)                                                                        \
    int name(const char *path, int flags, ...) {                                          \
        va_list list;                                                                     \
        va_start(list, flags);                                                            \
        mode_t mode = va_arg(list, mode_t);                                               \
        va_end(list);                                                                     \
        if ((flags & CHANGES) && path_below(path)) counted('o');                          \
        return NEXT(name)(path, flags, mode);                                             \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                                      \
    int name(int where, const char *path, int flags, ...) {                               \
        va_list list;                                                                     \
        va_start(list, flags);                                                            \
        mode_t mode = va_arg(list, mode_t);                                               \
        va_end(list);                                                                     \
        if ((flags & CHANGES) && path_below(path)) counted('o');                          \
        return NEXT(name)(where, path, flags, mode);                                      \
    }
OPENAT(openat)
OPENAT(openat64)

#define FOPEN(name)                                                                       \
    FILE *name(const char *path, const char *mode) {                                      \
        if (strpbrk(mode, "wa+") && path_below(path)) counted('o');                       \
        return NEXT(name)(path, mode);                                                    \
    }
FOPEN(fopen)
FOPEN(fopen64)

ssize_t write(int file, const void *data, size_t size) {
    if (file_below(file) && counted('w')) {
        NEXT(write)(file, data, size / 2);
        die();
    }
    return NEXT(write)(file, data, size);
}

ssize_t pwrite(int file, const void *data, size_t size, off_t place) {
    if (file_below(file) && counted('w')) {
        NEXT(pwrite)(file, data, size / 2, place);
        die();
    }
    return NEXT(pwrite)(file, data, size, place);
}

ssize_t pwrite64(int file, const void *data, size_t size, off64_t place) {
    if (file_below(file) && counted('w')) {
        NEXT(pwrite64)(file, data, size / 2, place);
        die();
    }
    return NEXT(pwrite64)(file, data, size, place);
}

ssize_t writev(int file, const struct iovec *parts, int number) {
    if (file_below(file) && counted('w')) {
        NEXT(writev)(file, parts, number / 2);
        die();
    }
    return NEXT(writev)(file, parts, number);
}

#define ON_FILE(name, kind)                                                               \
    int name(int file) {                                                                  \
        if (file_below(file)) counted(kind);                                              \
        return NEXT(name)(file);                                                          \
    }
ON_FILE(fsync, 's')
ON_FILE(fdatasync, 's')

#define TRUNCATE(name, type)                                                              \
    int name(int file, type size) {                                                       \
        if (file_below(file)) counted('t');                                               \
        return NEXT(name)(file, size);                                                    \
    }
TRUNCATE(ftruncate, off_t)
TRUNCATE(ftruncate64, off64_t)

int rename(const char *from, const char *to) {
    if (path_below(from) || path_below(to)) counted('r');
    return NEXT(rename)(from, to);
}

int renameat(int a, const char *from, int b, const char *to) {
    if (path_below(from) || path_below(to)) counted('r');
    return NEXT(renameat)(a, from, b, to);
}

int link(const char *from, const char *to) {
    if (path_below(to)) counted('r');
    return NEXT(link)(from, to);
}

int unlink(const char *path) {
    if (path_below(path)) counted('u');
    return NEXT(unlink)(path);
}

int unlinkat(int where, const char *path, int flags) {
    if (where == AT_FDCWD ? path_below(path) : file_below(where)) counted('u');
    return NEXT(unlinkat)(where, path, flags);
}

int mkdir(const char *path, mode_t mode) {
    if (path_below(path)) counted('m');
    return NEXT(mkdir)(path, mode);
}

int rmdir(const char *path) {
    if (path_below(path)) counted('u');
    return NEXT(rmdir)(path);
}
