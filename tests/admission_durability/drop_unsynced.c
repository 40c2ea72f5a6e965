/*
 * A disk that forgets what was not synced, for the tests of durability.
 *
 * Preloaded into a process, it keeps a second directory in which a file changes only when the process syncs it: then the
 * ranges written since the last sync are copied there, and the file's length. A file that is removed is removed there when
 * the process syncs the directory. When the process is killed, the second directory is what a power loss would have left.
 * Shared-memory files are not kept: they do not survive one either.
 *
 *   UNSYNCED_FROM  the directory to watch
 *   UNSYNCED_TO    the directory that is the disk
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#define FILES 16
#define DESCRIPTORS 1024
#define NAME 256

struct range { off_t at; size_t len; };
struct file { char name[NAME]; struct range *ranges; size_t count, room; int removed; };

static struct file files[FILES];
static int file_of[DESCRIPTORS]; /* index + 1, zero for what is not watched, DIRECTORY for the directory itself */
#define DIRECTORY (-1)
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static void forget(const char *why) {
    fprintf(stderr, "drop_unsynced: %s\n", why);
    abort(); /* A disk that lost count proves nothing. */
}

static void opened(int fd, const char *path) {
    const char *from = getenv("UNSYNCED_FROM");
    if (fd >= 0 && fd < DESCRIPTORS && from != NULL && strcmp(path, from) == 0) {
        file_of[fd] = DIRECTORY;
        return;
    }
    if (fd < 0 || from == NULL || strncmp(path, from, strlen(from)) != 0 || path[strlen(from)] != '/') return;
    const char *name = path + strlen(from) + 1;
    size_t length = strlen(name);
    if (length > 4 && strcmp(name + length - 4, "-shm") == 0) return;
    if (fd >= DESCRIPTORS || length >= NAME) forget("too many descriptors, or a long name");
    pthread_mutex_lock(&lock);
    int place = 0;
    while (place < FILES && files[place].name[0] != 0 && strcmp(files[place].name, name) != 0) place++;
    if (place == FILES) forget("too many files");
    strcpy(files[place].name, name);
    files[place].removed = 0;
    file_of[fd] = place + 1;
    pthread_mutex_unlock(&lock);
}

static void written(int fd, off_t at, size_t len) {
    if (fd < 0 || fd >= DESCRIPTORS || len == 0) return;
    pthread_mutex_lock(&lock);
    if (file_of[fd] > 0) {
        struct file *file = &files[file_of[fd] - 1];
        if (file->count == file->room) {
            file->room = file->room * 2 + 64;
            file->ranges = realloc(file->ranges, file->room * sizeof(struct range));
            if (file->ranges == NULL) forget("no memory");
        }
        file->ranges[file->count++] = (struct range){at, len};
    }
    pthread_mutex_unlock(&lock);
}

static void synced(int fd) {
    if (fd < 0 || fd >= DESCRIPTORS) return;
    pthread_mutex_lock(&lock);
    char path[4096];
    if (file_of[fd] == DIRECTORY) {
        for (int n = 0; n < FILES; n++) {
            if (!files[n].removed) continue;
            snprintf(path, sizeof path, "%s/%s", getenv("UNSYNCED_TO"), files[n].name);
            REAL(unlink)(path);
            files[n].removed = 0;
            files[n].count = 0;
        }
    } else if (file_of[fd] > 0) {
        struct file *file = &files[file_of[fd] - 1];
        snprintf(path, sizeof path, "%s/%s", getenv("UNSYNCED_TO"), file->name);
        int disk = REAL(open)(path, O_WRONLY | O_CREAT, 0644);
        struct stat state;
        if (disk < 0 || fstat(fd, &state) != 0) forget("the disk can't be written");
        for (size_t n = 0; n < file->count; n++) {
            char *bytes = malloc(file->ranges[n].len);
            ssize_t got = bytes == NULL ? -1 : pread(fd, bytes, file->ranges[n].len, file->ranges[n].at);
            if (got < 0 || REAL(pwrite)(disk, bytes, (size_t)got, file->ranges[n].at) != got) forget("copying failed");
            free(bytes);
        }
        if (REAL(ftruncate)(disk, state.st_size) != 0) forget("the length can't be set");
        REAL(close)(disk);
        file->count = 0;
    }
    pthread_mutex_unlock(&lock);
}

#define OPEN(name)                                        \
    int name(const char *path, int flags, ...) {          \
        va_list more;                                     \
        va_start(more, flags);                            \
        mode_t mode = va_arg(more, mode_t);               \
        va_end(more);                                     \
        int fd = REAL(name)(path, flags, mode);           \
        opened(fd, path);                                 \
        return fd;                                        \
    }
OPEN(open)
OPEN(open64)

ssize_t write(int fd, const void *bytes, size_t len) {
    off_t at = fd >= 0 && fd < DESCRIPTORS && file_of[fd] > 0 ? lseek(fd, 0, SEEK_CUR) : 0;
    ssize_t done = REAL(write)(fd, bytes, len);
    if (done > 0) written(fd, at, (size_t)done);
    return done;
}

ssize_t pwrite(int fd, const void *bytes, size_t len, off_t at) {
    ssize_t done = REAL(pwrite)(fd, bytes, len, at);
    if (done > 0) written(fd, at, (size_t)done);
    return done;
}

ssize_t pwrite64(int fd, const void *bytes, size_t len, off64_t at) {
    ssize_t done = REAL(pwrite64)(fd, bytes, len, at);
    if (done > 0) written(fd, at, (size_t)done);
    return done;
}

int fsync(int fd) {
    int done = REAL(fsync)(fd);
    if (done == 0) synced(fd);
    return done;
}

int fdatasync(int fd) {
    int done = REAL(fdatasync)(fd);
    if (done == 0) synced(fd);
    return done;
}

int unlink(const char *path) {
    const char *from = getenv("UNSYNCED_FROM");
    int done = REAL(unlink)(path);
    if (done == 0 && from != NULL && strncmp(path, from, strlen(from)) == 0 && path[strlen(from)] == '/') {
        pthread_mutex_lock(&lock);
        for (int n = 0; n < FILES; n++) {
            if (strcmp(files[n].name, path + strlen(from) + 1) == 0) files[n].removed = 1;
        }
        pthread_mutex_unlock(&lock);
    }
    return done;
}

int close(int fd) {
    if (fd >= 0 && fd < DESCRIPTORS) file_of[fd] = 0;
    return REAL(close)(fd);
}
