/* Loaded before libc (LD_PRELOAD): counts the calls of fsync and fdatasync of a process.
   MILLRACE_SYNC_FAULT says what happens at the n-th call: "kill_before:n" and "kill_after:n"
   (SIGKILL), "fail:n" (EIO, also for all later calls), "fail_once:n" (EIO). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static atomic_int count;

static int sync_fault(const char* name, int fd) {
  int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
  const char* what = getenv("MILLRACE_SYNC_FAULT");
  const char* colon = what ? strchr(what, ':') : NULL;
  const int turn = ++count;
  const int chosen = colon ? atoi(colon + 1) : 0;
  if (!colon || chosen <= 0 || turn < chosen) return real(fd);
  if (strncmp(what, "fail", 4) == 0 && (turn == chosen || strncmp(what, "fail:", 5) == 0)) {
    errno = EIO;
    return -1;
  }
  if (turn > chosen) return real(fd);
  if (strncmp(what, "kill_after:", 11) == 0) real(fd);
  if (strncmp(what, "kill", 4) == 0) kill(getpid(), SIGKILL);
  return real(fd);
}

int fsync(int fd) { return sync_fault("fsync", fd); }
int fdatasync(int fd) { return sync_fault("fdatasync", fd); }
