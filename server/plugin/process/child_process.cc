#include "server/plugin/process/child_process.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include "common/system/errno_status.h"

namespace millrace {
namespace {

constexpr int kLastMilliseconds = 1000;
// A process that was killed may wait for a disk before it is gone.
constexpr int kEndMilliseconds = 10'000;
constexpr int kOrphanTurns = 100;

bool WaitForEnd(int pidfd, int milliseconds) {
  pollfd file{pidfd, POLLIN, 0};
  int ready;
  do {
    ready = ::poll(&file, 1, milliseconds);
  } while (ready < 0 && errno == EINTR);
  return ready > 0;
}

}  // namespace

std::string ProcessEnd::ToString() const {
  if (!known) return "in an unknown way";
  if (signal == 0) return fmt::format("with exit code {}", code);
  const char* const name = ::sigdescr_np(signal);
  return fmt::format("by signal {} ({})", signal, name == nullptr ? "unknown" : name);
}

ProcessEnd EndOfStatus(int status) {
  if (WIFSIGNALED(status)) return {true, WTERMSIG(status), 0};
  return {true, 0, WEXITSTATUS(status)};
}

ProcessEnd ReapOwnChild(pid_t process) {
  int status = 0;
  pid_t reaped;
  do {
    reaped = ::waitpid(process, &status, 0);
  } while (reaped < 0 && errno == EINTR);
  // In a container this may be the process to which those without a parent fall. They were killed
  // with the group.
  for (int turn = 0; turn < kOrphanTurns && ::waitpid(-process, nullptr, WNOHANG) >= 0; ++turn) {
    ::usleep(1000);
  }
  return reaped == process ? EndOfStatus(status) : ProcessEnd{};
}

std::uint64_t PrivateMemory(pid_t process) {
  const std::string path = fmt::format("/proc/{}/statm", process);
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  char text[128] = {};
  unsigned long long all = 0, resident = 0, shared = 0;
  if (::read(file.get(), text, sizeof text - 1) <= 0) return 0;
  if (std::sscanf(text, "%llu %llu %llu", &all, &resident, &shared) != 3) return 0;
  if (resident < shared) return 0;
  return (resident - shared) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

Result<std::unique_ptr<ChildProcess>> ChildProcess::Own(pid_t process, FileDescriptor control,
                                                        std::shared_ptr<ProcessOutput> output,
                                                        OutputReader& reader, Reap reap) {
  FileDescriptor pidfd(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));
  if (pidfd.get() < 0) {
    const Status status = ErrnoStatus("a plugin's process cannot be watched (pidfd_open)", errno);
    ::kill(-process, SIGKILL);
    ::kill(process, SIGKILL);
    reap(process);
    reader.Remove(output);
    return status;
  }
  return std::unique_ptr<ChildProcess>(new ChildProcess(
      process, std::move(pidfd), std::move(control), std::move(output), reader, std::move(reap)));
}

ChildProcess::ChildProcess(pid_t process, FileDescriptor pidfd, FileDescriptor control,
                           std::shared_ptr<ProcessOutput> output, OutputReader& reader, Reap reap)
    : process_(process),
      pidfd_(std::move(pidfd)),
      channel_(std::move(control)),
      output_(std::move(output)),
      reader_(reader),
      reap_(std::move(reap)) {}

ChildProcess::~ChildProcess() {
  End();
  reader_.Remove(output_);
}

bool ChildProcess::HasEnded() const { return WaitForEnd(pidfd_.get(), 0); }

ProcessEnd ChildProcess::EndWithTraces() {
  // Python's fault handler prints the traces and lets the signal end the process.
  if (!reaped_ && !HasEnded()) {
    ::kill(process_, SIGABRT);
    WaitForEnd(pidfd_.get(), kLastMilliseconds);
  }
  return End();
}

ProcessEnd ChildProcess::EndAfterClose() {
  if (!reaped_) WaitForEnd(pidfd_.get(), kLastMilliseconds);
  return End();
}

ProcessEnd ChildProcess::End() {
  if (reaped_) return end_;
  // Until it is reaped, no other process or group gets its number.
  ::kill(-process_, SIGKILL);
  ::kill(process_, SIGKILL);  // a process that has just begun leads no group yet
  if (WaitForEnd(pidfd_.get(), kEndMilliseconds)) {
    ::kill(-process_, SIGKILL);  // what it started meanwhile
    end_ = reap_(process_);
  }
  reaped_ = true;
  return end_;
}

}  // namespace millrace
