/* Loaded before libc (LD_PRELOAD): two of the threads that a process begins cannot be started.
   MILLRACE_THREAD_FAULT has their numbers, counted from 0: "4,14". */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static atomic_int count;

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*),
                   void* with) {
  int (*real)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*) =
      (int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*))dlsym(RTLD_NEXT,
                                                                                 "pthread_create");
  const char* what = getenv("MILLRACE_THREAD_FAULT");
  int first = -1;
  int second = -1;
  const int turn = count++;
  if (what && sscanf(what, "%d,%d", &first, &second) > 0 && (turn == first || turn == second)) {
    return EAGAIN;
  }
  return real(thread, attributes, run, with);
}
