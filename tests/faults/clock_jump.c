/* Sets the wall clock of one process on by the seconds that a file says, a binary number; preloaded into it.
 *
 * Only what asks for the time of day is told another one. What counts seconds since the machine
 * started is let be, as it is when somebody sets a clock.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long jump_s(void) {
    static volatile const long *said;
    static int asked;
    if (!asked) {
        const char *path = getenv("CLOCK_JUMP_FILE");
        int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
        void *map = file < 0 ? MAP_FAILED : mmap(0, sizeof(long), PROT_READ, MAP_SHARED, file, 0);
        if (file >= 0) close(file);
        if (map != MAP_FAILED) said = map;
        asked = 1;
    }
    return said ? *said : 0;
}

int clock_gettime(clockid_t clock, struct timespec *at) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real(clock, at);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        at->tv_sec += jump_s();
    return failed;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
    static int (*real)(struct timeval *, void *);
    if (!real) real = dlsym(RTLD_NEXT, "gettimeofday");
    int failed = real(at, zone);
    if (!failed) at->tv_sec += jump_s();
    return failed;
}

time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}
