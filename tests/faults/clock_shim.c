/* Preloaded into a server, it adds the milliseconds in the file named by CLOCK_OFFSET_FILE to the time of day. Elapsed
   time stays as it is, as on a host whose clock somebody sets. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>

static volatile int64_t *offset_ms;
static int (*real_clock_gettime)(clockid_t, struct timespec *);

__attribute__((constructor)) static void begin(void) {
  real_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
  int file = open(getenv("CLOCK_OFFSET_FILE"), O_RDONLY);
  void *mapped = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
  if (file < 0 || mapped == MAP_FAILED) abort();
  offset_ms = mapped;
}

static void now(struct timespec *t) {
  real_clock_gettime(CLOCK_REALTIME, t);
  int64_t ns = t->tv_nsec + (*offset_ms % 1000) * 1000000;
  t->tv_sec += *offset_ms / 1000 + (ns >= 1000000000) - (ns < 0);
  t->tv_nsec = (ns + 1000000000) % 1000000000;
}

int clock_gettime(clockid_t id, struct timespec *t) {
  if (id != CLOCK_REALTIME && id != CLOCK_REALTIME_COARSE) return real_clock_gettime(id, t);
  now(t);
  return 0;
}

int gettimeofday(struct timeval *restrict tv, void *restrict zone) {
  struct timespec t;
  now(&t);
  tv->tv_sec = t.tv_sec;
  tv->tv_usec = t.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *result) {
  struct timespec t;
  now(&t);
  if (result) *result = t.tv_sec;
  return t.tv_sec;
}
