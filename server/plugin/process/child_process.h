// A process that runs a plugin, as the daemon sees it.
//
// Thread-compatible, except for the members that say otherwise.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <sys/types.h>

#include "common/base/result.h"
#include "server/files/file_io.h"
#include "server/plugin/process/channel.h"
#include "server/plugin/process/output_reader.h"

namespace millrace {

/// How a process has ended.
struct ProcessEnd {
  bool known = false;
  int signal = 0;  // 0: it ended by itself
  int code = 0;    // its exit code, without a signal

  /// "by signal 11 (Segmentation fault)", "with exit code 3", or "in an unknown way"
  std::string ToString() const;
};

class ChildProcess {
 public:
  /// Takes the process's number out of the system's table and says how it ended, as waitpid does.
  /// Called once, when the process has ended; see ProcessEnd::known.
  using Reap = std::function<ProcessEnd(pid_t process)>;

  /// `process` has to be alive, or not reaped. It leads a process group of its own.
  static Result<std::unique_ptr<ChildProcess>> Own(pid_t process, FileDescriptor control,
                                                   std::shared_ptr<ProcessOutput> output,
                                                   OutputReader& reader, Reap reap);
  /// Ends the process, its group, and reaps it.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  /// Thread-safe.
  pid_t id() const { return process_; }
  int pidfd() const { return pidfd_.get(); }
  Channel& channel() { return channel_; }
  std::string LastOutput() { return output_->LastOutput(); }
  bool HasEnded() const;

  /// Has the process print where each of its threads is, and ends it. Takes at most about a second.
  ProcessEnd EndWithTraces();
  /// Returns how a process that has closed its socket ended: it is about to end by itself. It is
  /// killed if it does not end within about a second.
  ProcessEnd EndAfterClose();
  /// Kills the process and its group if it is alive, and says how it ended. Idempotent.
  ProcessEnd End();

 private:
  ChildProcess(pid_t process, FileDescriptor pidfd, FileDescriptor control,
               std::shared_ptr<ProcessOutput> output, OutputReader& reader, Reap reap);

  const pid_t process_;
  const FileDescriptor pidfd_;
  Channel channel_;
  const std::shared_ptr<ProcessOutput> output_;
  OutputReader& reader_;
  const Reap reap_;
  bool reaped_ = false;
  ProcessEnd end_;
};

/// waitpid for a process that this one has started.
ProcessEnd ReapOwnChild(pid_t process);
/// The end that a status of waitpid describes.
ProcessEnd EndOfStatus(int status);

/// Bytes of memory of a process, without files and shared memory; pages shared with a fork count. 0
/// if the process is gone.
std::uint64_t PrivateMemory(pid_t process);

}  // namespace millrace
