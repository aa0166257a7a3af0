// A process with a plugin's object, which builds examples. It is used until it fails.
//
// Thread-compatible, except for the members that say otherwise.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/system/clock.h"
#include "server/plugin/plugin_config.h"
#include "server/plugin/plugin_facts.h"
#include "server/plugin/plugin_reply.h"
#include "server/plugin/process/child_process.h"
#include "server/plugin/process/fork_server.h"
#include "server/plugin/process/shared_memory.h"
#include "server/plugin/process/wait_notes.h"

namespace millrace {

/// The outcome of one attempt to build examples.
struct BuildAttempt {
  /// The first `table.outcomes.size()` rows are complete, in this memory.
  std::shared_ptr<const MappedBytes> memory;
  ReplyTable table;
  /// Reasons of rows that failed. A row may have failed without a reason if the process ended.
  std::vector<BuiltMessage::Failure> failures;
  /// Set if the process ended, or was ended, before it was done; it cannot be used any more.
  std::optional<PluginFailure> ended;
  /// The row whose fault `ended` is; the rows between the complete ones and it are lost.
  std::optional<std::size_t> blamed;
  bool at_once = false;  // whether a call for all rows was running then
};

class PluginProcess {
 public:
  struct Options {
    PluginObject object;
    std::uint64_t memory = 0;  // bytes; 0: no limit
    Duration start_timeout = std::chrono::seconds(600);
    std::shared_ptr<const Clock> clock;
    OnPluginWait on_wait = nullptr;
  };

  /// Starts a process, and constructs or finds the object in it. FailedPrecondition with the
  /// plugin's own words, DeadlineExceeded, or Cancelled.
  static Result<std::unique_ptr<PluginProcess>> Start(ForkServer& fork_server,
                                                      std::shared_ptr<const Options> options,
                                                      const std::stop_token& stop);

  /// The tensors of a source, as it names them, or the outputs of a function.
  const std::vector<PluginTensor>& tensors() const { return tensors_; }
  std::uint64_t length() const { return length_; }

  // Questions. REQUIRES: !is_behind().
  Result<FactsMessage> Facts(const std::stop_token& stop);
  Result<std::vector<std::string>> Versions(std::span<const std::uint64_t> ids,
                                            const std::stop_token& stop);
  /// Values [begin, end) of a column, appended to `column`.
  Status Column(const std::string& name, std::uint64_t begin, std::uint64_t end,
                PluginColumn& column, const std::stop_token& stop);

  /// Builds the rows `rows` of the request, in this order. `at_once` lets a source use
  /// __getitems__. Cancelled if `stop` is requested: the process goes on, and the next call waits
  /// for it. Other errors are of the request or the system.
  Result<BuildAttempt> Build(const PluginRequest& request, std::span<const std::size_t> rows,
                             bool uses_chance, bool at_once, const std::stop_token& stop);

  /// Whether its memory exceeds its limit.
  bool HasTooMuchMemory() const;
  /// Thread-safe.
  pid_t id() const { return child_->id(); }
  /// Thread-safe.
  std::uint64_t MemoryBytes() const;
  /// The size of the memory of its replies, when it was last read. Thread-safe.
  std::uint64_t ReplyBytes() const { return reply_bytes_; }
  bool HasEnded() const { return child_->HasEnded(); }
  /// Whether it still builds rows that nobody waits for.
  bool is_behind() const { return owed_rows_ != 0; }
  /// Waits for the answer of a build that was cancelled. After an error other than Cancelled, the
  /// answer may still come and would be taken for another request's answer, so the process cannot
  /// be used any more.
  Status WaitForOwed(const std::stop_token& stop);

 private:
  class Watch;

  PluginProcess(std::unique_ptr<ChildProcess> child, std::shared_ptr<const Options> options)
      : options_(std::move(options)), child_(std::move(child)) {}

  Status Open(const std::stop_token& stop);
  /// Asks, and waits for the answer as long as a start may take. `what`: the reason of the wait,
  /// for people. REQUIRES: !is_behind().
  Result<std::string> Ask(const std::string& message, const char* what, std::span<const int> files,
                          const std::stop_token& stop);
  /// Writes the data that the process needs to build these rows, and returns the message for it.
  /// `files` are to be sent with it.
  Result<std::string> Prepare(const PluginRequest& request, std::span<const std::size_t> rows,
                              bool uses_chance, bool at_once, const ReplyLayout& layout,
                              std::vector<int>& files);
  BuildAttempt Ended(const Status& why, const ReplyLayout& layout);
  Status ReadRows(const ReplyLayout& layout, std::uint64_t finished, BuildAttempt& attempt);

  const std::shared_ptr<const Options> options_;
  std::unique_ptr<ChildProcess> child_;
  InputMemory input_;
  std::unique_ptr<ReplyMemory> reply_;
  mutable std::atomic<std::uint64_t> reply_bytes_ = 0;  // its size when it was last read
  std::vector<PluginTensor> tensors_;
  std::vector<TensorType> types_;
  std::uint64_t length_ = 0;
  std::uint64_t owed_rows_ = 0;  // of a build whose answer nobody waits for; 0: no such build
};

}  // namespace millrace
