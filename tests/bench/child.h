// Runs the other side of a benchmark in a process of its own.
#pragma once

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <utility>

namespace millrace::bench {

/// Runs `body(fd)` in a forked process, which is killed together with this object. `body` writes
/// numbers for the parent into the pipe `fd`. Fork before anything starts threads (gRPC does with
/// its first object).
class Child {
 public:
  template <class Body>
  explicit Child(Body body) {
    int fds[2];
    if (pipe(fds) != 0) return;
    pid_ = fork();
    if (pid_ == 0) {
      close(fds[0]);
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      body(fds[1]);
      _exit(0);
    }
    close(fds[1]);
    from_ = fds[0];
  }
  ~Child() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    if (from_ >= 0) close(from_);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }

  /// Waits for the next number that the child writes; -1 if the child has ended.
  double Hear() const {
    double number = -1;
    return read(from_, &number, sizeof number) == sizeof number ? number : -1;
  }
  static void Tell(int fd, double number) {
    if (write(fd, &number, sizeof number) != sizeof number) _exit(1);
  }

 private:
  pid_t pid_ = -1;
  int from_ = -1;
};

}  // namespace millrace::bench
