// Reads the output of processes, on one thread, so that no process ever waits for its output to be
// read.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "common/base/result.h"
#include "common/system/clock.h"
#include "common/system/mutex.h"
#include "server/files/file_io.h"
#include "server/plugin/process/channel.h"
#include "server/plugin/process/output_lines.h"

namespace millrace {

/// The output of one process, read through a pipe.
class ProcessOutput {
 public:
  ProcessOutput(FileDescriptor pipe, OutputLines::OnLine on_line,
                std::shared_ptr<const Clock> clock);

  /// Reads the available bytes, at most about a megabyte. False at the end of the pipe.
  bool Drain();
  void Tick();
  /// Reads the available bytes, and returns the last ones.
  std::string LastOutput();
  /// Passes on the remaining lines. Nothing is read afterwards.
  void Finish();
  int file() const { return pipe_.get(); }

 private:
  bool DrainLocked() MILLRACE_REQUIRES(mutex_);

  const FileDescriptor pipe_;
  const std::shared_ptr<const Clock> clock_;
  Mutex mutex_;
  OutputLines lines_ MILLRACE_GUARDED_BY(mutex_);
  bool finished_ MILLRACE_GUARDED_BY(mutex_) = false;
};

class OutputReader {
 public:
  static Result<std::unique_ptr<OutputReader>> Start(std::shared_ptr<const Clock> clock);
  /// Finishes every output.
  ~OutputReader();
  OutputReader(const OutputReader&) = delete;
  OutputReader& operator=(const OutputReader&) = delete;

  struct Added {
    std::shared_ptr<ProcessOutput> output;
    FileDescriptor there;  // the end that the process writes to
  };
  /// A new pipe. `on_line` is called on any thread, and one call at a time.
  Result<Added> Add(OutputLines::OnLine on_line);
  /// Finishes an output.
  void Remove(const std::shared_ptr<ProcessOutput>& output);

 private:
  OutputReader(FileDescriptor poll, std::shared_ptr<const Clock> clock);
  void Run();

  const FileDescriptor poll_;
  const std::shared_ptr<const Clock> clock_;
  const StopBell bell_;
  Mutex mutex_;
  std::map<int, std::shared_ptr<ProcessOutput>> outputs_ MILLRACE_GUARDED_BY(mutex_);
  bool stopping_ MILLRACE_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace millrace
