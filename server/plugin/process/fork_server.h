// Starts the processes of one plugin. The plugin's module is imported once, by a process of its
// own, the fork server, which forks the others. If the import starts threads, with which a fork is
// not safe, each process imports the module for itself.
//
// Thread-safe. It has to outlive the processes.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/system/clock.h"
#include "common/system/mutex.h"
#include "server/plugin/process/child_process.h"
#include "server/plugin/process/launcher.h"
#include "server/plugin/process/output_reader.h"
#include "server/plugin/process/wait_notes.h"
#include "server/plugin/reply/reply_message.h"

namespace millrace {

struct ForkServerOptions {
  std::string plugin;                                  // the name of the module
  std::string python;                                  // a path
  std::vector<std::string> environment;                // NAME=VALUE
  std::filesystem::path program;                       // the program that runs plugins
  std::filesystem::path folder;                        // the daemon's copy of the plugin's files
  std::filesystem::path original;                      // where they come from, for messages
  Duration start_timeout = std::chrono::seconds(600);  // of an import
  /// A line that a process has printed. Called on any thread.
  std::function<void(pid_t process, std::string_view line)> on_line;
  OnPluginWait on_wait = nullptr;
};

class ForkServer {
 public:
  /// `launcher` and `reader` have to outlive it.
  ForkServer(ForkServerOptions options, Launcher& launcher, OutputReader& reader,
             std::shared_ptr<const Clock> clock);
  ~ForkServer();
  ForkServer(const ForkServer&) = delete;
  ForkServer& operator=(const ForkServer&) = delete;

  /// A new process that has imported the module. FailedPrecondition with the plugin's own words if
  /// it cannot be imported; DeadlineExceeded; Cancelled if `stop`, a file, becomes readable. If the
  /// fork server ends, its processes end too, and nobody knows how (ProcessEnd::known).
  Result<std::unique_ptr<ChildProcess>> StartProcess(int stop);

  /// The message of the import; empty before the first process.
  ImportedMessage imported() const;
  /// The id of the fork server's own process; 0 if there is none. It waits for no import.
  pid_t process() const { return process_id_; }

 private:
  struct Imported {
    std::unique_ptr<ChildProcess> process;
    ImportedMessage message;
  };
  struct Forked {
    pid_t process = -1;
    std::uint64_t by = 0;  // the number of the fork server that forked it
    FileDescriptor control;
    std::shared_ptr<ProcessOutput> output;
  };

  /// Starts Python and has it import the module.
  Result<Imported> Import(bool fork_server, int stop);
  /// Makes sure that there is a fork server. If the import starts threads, there is no fork server,
  /// and the process that has imported the module is returned.
  Result<std::unique_ptr<ChildProcess>> MakeForkServer(int stop) MILLRACE_REQUIRES(mutex_);
  void SetProcess(std::unique_ptr<ChildProcess> process) MILLRACE_REQUIRES(mutex_);
  Result<Forked> Fork() MILLRACE_REQUIRES(mutex_);
  /// Asks the fork server with the number `by`, if it still exists: another one has not forked
  /// `process`, and would fail on the question.
  ProcessEnd ReapForked(pid_t process, std::uint64_t by);
  Result<OutputReader::Added> MakeOutput(std::shared_ptr<std::atomic<pid_t>> process);
  ChannelWait WaitFor(const ChildProcess& process, int stop) const;

  const ForkServerOptions options_;
  Launcher& launcher_;
  OutputReader& reader_;
  const std::shared_ptr<const Clock> clock_;
  mutable Mutex mutex_;
  bool forks_ MILLRACE_GUARDED_BY(mutex_) = true;
  std::unique_ptr<ChildProcess> process_ MILLRACE_GUARDED_BY(mutex_);
  std::atomic<pid_t> process_id_ = 0;                     // the id of process_
  std::uint64_t number_ MILLRACE_GUARDED_BY(mutex_) = 0;  // of process_, counted from 1
  ImportedMessage imported_ MILLRACE_GUARDED_BY(mutex_);
};

}  // namespace millrace
