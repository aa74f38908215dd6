/* Loaded into a node by LD_PRELOAD: writes down in which order the node writes, syncs, names and answers (see ../synced.rs).
 *
 * One line for each call, in the file DICTUM_TEST_CALLS, about what lies below the folder DICTUM_TEST_FOLDER:
 *   wrote PATH durable|cached MARKS    after a write; MARKS are the texts <…> of up to 30 characters in what was written
 *   synced PATH                        after fsync or fdatasync of a file or folder
 *   created PATH | renamed OLD NEW | removed PATH
 *   answered TEXT                      before something is sent; its first characters
 * What others must be able to rely on is written down after the call, and answers before it: so a line that stands above an answer was true
 * when the answer left. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static int calls = -1;
static const char *folder;

#define REAL(name) \
    static __typeof__(name) *real; \
    if (!real) real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("DICTUM_TEST_CALLS");
    folder = getenv("DICTUM_TEST_FOLDER");
    if (path && folder) calls = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

/* One line, whole: a file that is appended to keeps lines of several threads apart. */
static void note(const char *format, ...) {
    char line[9000];
    va_list values;
    va_start(values, format);
    int length = vsnprintf(line, sizeof line - 1, format, values);
    va_end(values);
    if (length < 0 || calls < 0) return;
    if (length > (int)sizeof line - 2) length = sizeof line - 2;
    for (int i = 0; i < length; i++)
        if (line[i] == '\n' || line[i] == '\r') line[i] = ' ';
    line[length++] = '\n';
    syscall(SYS_write, calls, line, (size_t)length);
}

static int is_ours(const char *path) { return calls >= 0 && path && strncmp(path, folder, strlen(folder)) == 0; }

/* The path of an open file, if it lies below the folder. */
static int path_of(int file, char *path, size_t room) {
    char link[64];
    if (calls < 0) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, room - 1);
    if (length <= 0) return 0;
    path[length] = 0;
    return is_ours(path);
}

/* Appends the marks in these bytes, each with a space before it. */
static void find_marks(const char *bytes, size_t length, char *marks, size_t room) {
    const char *end = bytes + length, *at = bytes;
    while (at < end && (at = memchr(at, '<', (size_t)(end - at)))) {
        const char *close = memchr(at, '>', (size_t)(end - at < 32 ? end - at : 32));
        size_t have = strlen(marks), size = close ? (size_t)(close - at) + 1 : 0;
        int is_text = size > 2;
        for (const char *c = at; is_text && c < close; c++) is_text = *c > ' ' && *c < 127;
        if (is_text && have + size + 2 < room) {
            marks[have] = ' ';
            memcpy(marks + have + 1, at, size);
            marks[have + 1 + size] = 0;
        }
        at++;
    }
}

/* What stands at the beginning of an answer. */
static void note_answer(const char *bytes, size_t length) {
    char text[64];
    size_t size = length < sizeof text - 1 ? length : sizeof text - 1;
    memcpy(text, bytes, size);
    text[size] = 0;
    note("answered %s", text);
}

static int is_socket(int file) {
    int type;
    socklen_t size = sizeof type;
    return calls >= 0 && getsockopt(file, SOL_SOCKET, SO_TYPE, &type, &size) == 0;
}

static void note_write(int file, const struct iovec *parts, int count) {
    char path[4096], marks[4096] = "";
    if (!path_of(file, path, sizeof path)) return;
    for (int i = 0; i < count; i++) find_marks(parts[i].iov_base, parts[i].iov_len, marks, sizeof marks);
    int durable = fcntl(file, F_GETFL) & O_DSYNC;
    note("wrote %s %s%s", path, durable ? "durable" : "cached", marks);
}

static ssize_t noted(ssize_t result, int file, const struct iovec *parts, int count) {
    if (result > 0) note_write(file, parts, count);
    return result;
}

ssize_t write(int file, const void *bytes, size_t length) {
    REAL(write);
    struct iovec part = {(void *)bytes, length};
    if (is_socket(file)) note_answer(bytes, length);
    return noted(real(file, bytes, length), file, &part, 1);
}

ssize_t writev(int file, const struct iovec *parts, int count) {
    REAL(writev);
    if (count > 0 && is_socket(file)) note_answer(parts[0].iov_base, parts[0].iov_len);
    return noted(real(file, parts, count), file, parts, count);
}

ssize_t send(int file, const void *bytes, size_t length, int flags) {
    REAL(send);
    if (calls >= 0) note_answer(bytes, length);
    return real(file, bytes, length, flags);
}

ssize_t pwrite(int file, const void *bytes, size_t length, off_t at) {
    REAL(pwrite);
    struct iovec part = {(void *)bytes, length};
    return noted(real(file, bytes, length, at), file, &part, 1);
}

ssize_t pwrite64(int file, const void *bytes, size_t length, off64_t at) {
    REAL(pwrite64);
    struct iovec part = {(void *)bytes, length};
    return noted(real(file, bytes, length, at), file, &part, 1);
}

static void note_sync(int file) {
    char path[4096];
    if (path_of(file, path, sizeof path)) note("synced %s", path);
}

int fsync(int file) {
    REAL(fsync);
    int result = real(file);
    if (result == 0) note_sync(file);
    return result;
}

int fdatasync(int file) {
    REAL(fdatasync);
    int result = real(file);
    if (result == 0) note_sync(file);
    return result;
}

static int opened(int (*real)(const char *, int, ...), const char *path, int flags, int mode) {
    int is_new = (flags & O_CREAT) && is_ours(path) && access(path, F_OK) != 0;
    int file = real(path, flags, mode);
    if (file >= 0 && is_new) note("created %s", path);
    return file;
}

#define MODE(flags, mode) \
    int mode = 0; \
    if ((flags) & (O_CREAT | O_TMPFILE)) { \
        va_list values; \
        va_start(values, flags); \
        mode = va_arg(values, int); \
        va_end(values); \
    }

int open(const char *path, int flags, ...) {
    REAL(open);
    MODE(flags, mode);
    return opened(real, path, flags, mode);
}

int open64(const char *path, int flags, ...) {
    REAL(open64);
    MODE(flags, mode);
    return opened(real, path, flags, mode);
}

int rename(const char *old, const char *new) {
    REAL(rename);
    int result = real(old, new);
    if (result == 0 && is_ours(new)) note("renamed %s %s", old, new);
    return result;
}

int unlink(const char *path) {
    REAL(unlink);
    int result = real(path);
    if (result == 0 && is_ours(path)) note("removed %s", path);
    return result;
}
