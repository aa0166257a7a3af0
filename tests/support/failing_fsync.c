// A library to preload into a daemon. While the file that MILLRACE_TEST_FSYNC_FAILS names exists,
// every fsync and fdatasync fails, as on a failing disk.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static int fails(void) {
  const char* file = getenv("MILLRACE_TEST_FSYNC_FAILS");
  return file != NULL && access(file, F_OK) == 0;
}

int fsync(int fd) {
  if (fails()) {
    errno = EIO;
    return -1;
  }
  int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
  return real(fd);
}

int fdatasync(int fd) {
  if (fails()) {
    errno = EIO;
    return -1;
  }
  int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
  return real(fd);
}
