/* A disk with so much room, for one folder of one process: put in front of the C library by LD_PRELOAD (../ordered_faults.rs).
 *
 * DICTUM_DISK_FOLDER  files under it are watched
 * DICTUM_DISK         steps "ROOM:REFUSALS:ERRNO", with commas between. ROOM bytes are taken; then that many writes are refused
 *                     with ERRNO, and the next step begins. Behind the last step everything is taken.
 *
 * A write that finds less room than it asks for is short, as on a real disk. What is removed gives no room back. Nothing is
 * synced: the process ends, and the machine does not. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#define FILES_MAX 65536
#define STEPS_MAX 64

struct step {
    long long room;
    long long refusals;
    long error;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char folder[4096];
static struct step steps[STEPS_MAX];
static int steps_count, current;
static char is_watched[FILES_MAX];

__attribute__((constructor)) static void begin(void) {
    const char *name = getenv("DICTUM_DISK_FOLDER"), *text = getenv("DICTUM_DISK");
    if (!name || !text || strlen(name) >= sizeof folder) return;
    strcpy(folder, name);
    while (*text && steps_count < STEPS_MAX) {
        char *end;
        struct step *step = &steps[steps_count++];
        step->room = strtoll(text, &end, 10);
        step->refusals = strtoll(end + 1, &end, 10);
        step->error = strtol(end + 1, &end, 10);
        text = *end == ',' ? end + 1 : end;
    }
}

static void *next(const char *name) { return dlsym(RTLD_NEXT, name); }

static int is_inside(const char *path) {
    size_t length = strlen(folder);
    return length && strncmp(path, folder, length) == 0;
}

static int is_file(int file) { return file >= 0 && file < FILES_MAX && is_watched[file]; }

/* How many of these bytes are taken; -1, and errno: none. What makes a file or a folder asks for none, and needs some room. */
static ssize_t take(size_t bytes) {
    ssize_t taken = (ssize_t)bytes;
    pthread_mutex_lock(&lock);
    if (current < steps_count) {
        struct step *step = &steps[current];
        if (step->room > (long long)bytes) {
            step->room -= (long long)bytes;
        } else if (step->room > 0) {
            taken = (ssize_t)step->room;
            if ((size_t)taken > bytes) taken = (ssize_t)bytes;
            step->room = 0;
        } else {
            taken = -1;
            if (--step->refusals <= 0) current++;
            errno = (int)step->error;
        }
    }
    pthread_mutex_unlock(&lock);
    return taken;
}

static int open_as(const char *real, int at, const char *path, int flags, mode_t mode) {
    int (*open_at)(int, const char *, int, ...) = next(real);
    int inside = is_inside(path);
    struct stat found;
    if (inside && (flags & O_CREAT) && stat(path, &found) != 0 && take(0) < 0) return -1;
    int file = open_at(at, path, flags, mode);
    if (file >= 0 && file < FILES_MAX) is_watched[file] = (char)inside;
    return file;
}

#define MODE(flags) \
    mode_t mode = 0; \
    if ((flags) & O_CREAT) { va_list more; va_start(more, flags); mode = va_arg(more, mode_t); va_end(more); }

int open(const char *path, int flags, ...) { MODE(flags) return open_as("openat", AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE(flags) return open_as("openat64", AT_FDCWD, path, flags, mode); }
int openat(int at, const char *path, int flags, ...) { MODE(flags) return open_as("openat", at, path, flags, mode); }
int openat64(int at, const char *path, int flags, ...) { MODE(flags) return open_as("openat64", at, path, flags, mode); }

int close(int file) {
    int (*real)(int) = next("close");
    if (is_file(file)) is_watched[file] = 0;
    return real(file);
}

int mkdir(const char *path, mode_t mode) {
    int (*real)(const char *, mode_t) = next("mkdir");
    struct stat found;
    if (is_inside(path) && stat(path, &found) != 0 && take(0) < 0) return -1;
    return real(path, mode);
}

ssize_t write(int file, const void *bytes, size_t count) {
    ssize_t (*real)(int, const void *, size_t) = next("write");
    if (!is_file(file)) return real(file, bytes, count);
    ssize_t taken = take(count);
    return taken < 0 ? -1 : real(file, bytes, (size_t)taken);
}

ssize_t pwrite64(int file, const void *bytes, size_t count, off64_t at) {
    ssize_t (*real)(int, const void *, size_t, off64_t) = next("pwrite64");
    if (!is_file(file)) return real(file, bytes, count, at);
    ssize_t taken = take(count);
    return taken < 0 ? -1 : real(file, bytes, (size_t)taken, at);
}

/* The first part alone: the caller has to go on with the rest anyway. */
ssize_t writev(int file, const struct iovec *parts, int count) {
    ssize_t (*real)(int, const struct iovec *, int) = next("writev");
    if (!is_file(file) || count < 1) return real(file, parts, count);
    for (int part = 0; part < count; part++)
        if (parts[part].iov_len) return write(file, parts[part].iov_base, parts[part].iov_len);
    return 0;
}

int fsync(int file) {
    int (*real)(int) = next("fsync");
    return is_file(file) ? 0 : real(file);
}

int fdatasync(int file) {
    int (*real)(int) = next("fdatasync");
    return is_file(file) ? 0 : real(file);
}
