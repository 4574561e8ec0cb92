/* Preloaded into a server, this adds the seconds in the file CLOCK_OFFSET to its clock. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*original)(clockid_t, struct timespec *);
    if (!original) original = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int failed = original(clock, now);
    if (failed || clock != CLOCK_REALTIME) return failed;
    FILE *file = fopen(getenv("CLOCK_OFFSET"), "r");
    long seconds = 0;
    if (file) {
        if (fscanf(file, "%ld", &seconds) == 1) now->tv_sec += seconds;
        fclose(file);
    }
    return 0;
}
