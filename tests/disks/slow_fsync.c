/* Preloaded into a broker: every flush of a file or directory takes KPYBROKER_FSYNC_MS longer, as on an ordinary disk. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

static void wait_a_little(void)
{
    const char *given = getenv("KPYBROKER_FSYNC_MS");
    long ms = given == NULL ? 0 : atol(given);
    struct timespec left = {ms / 1000, ms % 1000 * 1000000L};
    nanosleep(&left, NULL);
}

int fsync(int descriptor)
{
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    wait_a_little();
    return real(descriptor);
}

int fdatasync(int descriptor)
{
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    wait_a_little();
    return real(descriptor);
}
