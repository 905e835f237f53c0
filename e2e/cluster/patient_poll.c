/*
 * Preloaded into engines, whose busy waits leave nothing of a machine with two cores.
 *
 * NIXL's progress thread asks for events with a timeout of zero, again and again: a whole core for each engine, also
 * while it is idle. Here, and for that caller alone, such a call waits for up to a millisecond; an event ends the wait
 * as always.
 *
 * While requests run, vLLM's core and its worker wait for each other by giving way to whoever else wants the core, of
 * which nobody takes note while there is another core: one and a half cores for an engine that decodes eight streams.
 * Here each of them sleeps instead for a tenth of a millisecond, a hundredth of what a step of the model takes.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>
#include <string.h>
#include <time.h>

static const char CALLER[] = "libplugin_UCX";
static const int PATIENCE_MILLISECONDS = 1;
static const struct timespec YIELD = {.tv_nsec = 100000};

int poll(struct pollfd *descriptors, nfds_t count, int timeout)
{
    static int (*next)(struct pollfd *, nfds_t, int);
    Dl_info caller;

    if (!next)
        next = (int (*)(struct pollfd *, nfds_t, int))dlsym(RTLD_NEXT, "poll");
    if (timeout == 0 && dladdr(__builtin_return_address(0), &caller) && caller.dli_fname &&
        strstr(caller.dli_fname, CALLER))
        timeout = PATIENCE_MILLISECONDS;
    return next(descriptors, count, timeout);
}

int sched_yield(void)
{
    nanosleep(&YIELD, NULL);
    return 0;
}
