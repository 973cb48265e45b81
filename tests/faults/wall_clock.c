/* The wall clock of a process, as many seconds ahead as a file says at that moment.
 *
 * Loaded before the C library. Clocks that only count go on as they are, as they do when somebody
 * sets a machine's clock. A wait until a moment of the wall clock ends when that clock has come to
 * it: later if it was set back meanwhile, sooner if it was set ahead.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

/* how long a wait may oversleep a clock that is set ahead */
#define LOOK_NS 50000000L

static volatile const int64_t *ahead_s;

__attribute__((constructor)) static void open_clock(void)
{
    const char *name = getenv("WALL_CLOCK");
    int file = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    void *found = file < 0 ? MAP_FAILED : mmap(NULL, 8, PROT_READ, MAP_SHARED, file, 0);

    if (found == MAP_FAILED)
        abort();
    close(file);
    ahead_s = found;
}

static struct timespec kernel_clock(void)
{
    struct timespec now;

    syscall(SYS_clock_gettime, CLOCK_REALTIME, &now);
    return now;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int failed = (int)syscall(SYS_clock_gettime, clock, now);

    if (!failed && ahead_s && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += *ahead_s;
    return failed;
}

int timespec_get(struct timespec *now, int base)
{
    return base == TIME_UTC && !clock_gettime(CLOCK_REALTIME, now) ? base : 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec exactly;

    (void)zone;
    clock_gettime(CLOCK_REALTIME, &exactly);
    now->tv_sec = exactly.tv_sec;
    now->tv_usec = exactly.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *also)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    if (also)
        *also = now.tv_sec;
    return now.tv_sec;
}

static int is_before(struct timespec one, struct timespec other)
{
    return one.tv_sec < other.tv_sec ||
           (one.tv_sec == other.tv_sec && one.tv_nsec < other.tv_nsec);
}

/* Wait, for a moment at most; success too where nothing was told: whoever waits looks for itself. */
static int wait_a_moment(pthread_cond_t *condition, pthread_mutex_t *mutex, struct timespec until)
{
    struct timespec look = kernel_clock();

    if (ahead_s)
        until.tv_sec -= *ahead_s;
    look.tv_nsec += LOOK_NS;
    look.tv_sec += look.tv_nsec / 1000000000L;
    look.tv_nsec %= 1000000000L;
    if (is_before(look, until)) {
        int result = pthread_cond_clockwait(condition, mutex, CLOCK_REALTIME, &look);
        return result == ETIMEDOUT ? 0 : result;
    }
    return pthread_cond_clockwait(condition, mutex, CLOCK_REALTIME, &until);
}

int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict until)
{
    /* glibc keeps there whether it is a condition that waits by a clock that only counts */
    if (condition->__data.__wrefs & 2)
        return pthread_cond_clockwait(condition, mutex, CLOCK_MONOTONIC, until);
    return wait_a_moment(condition, mutex, *until);
}

/* librdkafka waits so */
int cnd_timedwait(cnd_t *restrict condition, mtx_t *restrict mutex,
                  const struct timespec *restrict until)
{
    int result = wait_a_moment((pthread_cond_t *)condition, (pthread_mutex_t *)mutex, *until);

    return result == 0 ? thrd_success : result == ETIMEDOUT ? thrd_timedout : thrd_error;
}
