// A pool of processes that build the examples of one object of a plugin: the examples of a source,
// or the results of a function.
//
// Each process builds one request at a time. A request that fails in one process is tried once more
// in a new one, row by row if possible. Nothing that a plugin does can hang or harm the daemon;
// there is no sandbox, though: a plugin can do what the daemon's user can.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/system/clock.h"
#include "common/system/mutex.h"
#include "server/plugin/plugin_config.h"
#include "server/plugin/plugin_facts.h"
#include "server/plugin/plugin_process.h"
#include "server/plugin/plugin_reply.h"
#include "server/plugin/plugin_stats.h"
#include "server/plugin/process/fork_server.h"
#include "server/plugin/process/launcher.h"
#include "server/plugin/process/output_reader.h"
#include "server/plugin/process/wait_notes.h"
#include "server/plugin/process_budget.h"

namespace millrace {

/// A try to build an example has failed, or a process was ended for its memory; another one
/// follows, or the request fails. `example`: whose fault it is, if that is known. Called on any
/// thread.
using OnPluginFailure =
    std::function<void(std::optional<std::uint64_t> example, const PluginFailure& failure)>;

/// A line that a plugin has printed. Called on any thread.
using OnPluginLine =
    std::function<void(std::string_view plugin, pid_t process, std::string_view line)>;

struct PluginPoolOptions {
  std::uint64_t number = 0;  // of the pool, as its owner counts
  PluginConfig plugin;
  PluginObject object;
  /// The daemon's folder for copies of plugins' files.
  std::filesystem::path copies;
  std::shared_ptr<Launcher> launcher;
  std::shared_ptr<const Clock> clock = std::make_shared<SystemClock>();
  OnPluginLine on_line = nullptr;
  OnPluginRequest on_request = nullptr;
  OnPluginWait on_wait = nullptr;
  OnPluginFailure on_failure = nullptr;
  /// Shared with the other pools of the plugin; null: the pool's own, of plugin.processes.
  std::shared_ptr<ProcessBudget> budget = nullptr;
};

class PluginPool : public ProcessHolder, public std::enable_shared_from_this<PluginPool> {
 public:
  /// Copies the plugin's files, imports it, and starts the first process. Others start when they
  /// are needed. Errors describe the fault of the plugin, with its own traceback.
  static Result<std::shared_ptr<PluginPool>> Start(PluginPoolOptions options,
                                                   const std::stop_token& stop = {});
  /// Ends all processes. No call may be in progress; replies may still live.
  ~PluginPool() override;
  PluginPool(const PluginPool&) = delete;
  PluginPool& operator=(const PluginPool&) = delete;

  const PluginFacts& facts() const { return facts_; }
  std::uint64_t number() const { return options_.number; }
  bool processes_given() const { return options_.plugin.processes_given; }

  /// Lets at most so many processes run, from 1 to PluginConfig::processes, the limit at first.
  /// Others end, each after its present request.
  void SetMostProcesses(int processes);

  /// Builds examples in one process; waits if no process is free. Rows that cannot be built are
  /// part of the reply. An error is of the request, or the plugin cannot be started any more, or
  /// `stop` was requested (Cancelled).
  Result<PluginReply> Build(const PluginRequest& request, const std::stop_token& stop = {});

  /// All values of a column that facts() has with a type. They are fetched once.
  Result<std::shared_ptr<const PluginColumn>> Column(const std::string& name,
                                                     const std::stop_token& stop = {});
  /// version(i) of examples. REQUIRES: facts().has_version.
  Result<std::vector<std::string>> Versions(std::span<const std::uint64_t> ids,
                                            const std::stop_token& stop = {});

  bool GiveUpIdle() override;

  using ProcessStats = PluginProcessStats;
  /// One entry per process, always in the same order.
  std::vector<ProcessStats> Stats() const;
  /// The memory of all processes together, as PluginPoolStats says. It may take some milliseconds.
  std::uint64_t MemoryBytes() const;
  /// The fork server's process; 0 if there is none.
  pid_t fork_server_process() const { return fork_server_->process(); }

 private:
  /// A place for a process.
  struct Slot {
    std::shared_ptr<PluginProcess> process;  // null: not started yet, or ended
    bool is_taken = false;                   // only the taker of the slot uses the process
    ProcessStats stats;
    Time asked;  // when its present request began; unset if it is idle
    Time began;  // when the process was started
    Time idle;   // since when nobody has taken the slot
  };
  class Lease;

  explicit PluginPool(PluginPoolOptions options);
  Status Begin(const std::stop_token& stop);
  Status FetchChecks(const std::stop_token& stop);
  Status CheckRequest(const PluginRequest& request) const;

  /// Takes a free slot, preferably one with a process; waits if all are taken.
  Result<std::shared_ptr<Lease>> Take(const std::stop_token& stop);
  /// Makes sure that the lease has a process.
  Status StartProcess(Lease& lease, const std::stop_token& stop);
  /// Makes sure that the lease has a process that owes no answer.
  Status StartIdleProcess(Lease& lease, const std::stop_token& stop);
  /// Ends the process of a lease.
  void Discard(Lease& lease);
  void Return(std::size_t slot);
  /// Takes the process from a slot beyond the limit, if nobody uses it.
  std::shared_ptr<PluginProcess> TakeSurplus(std::size_t slot) MILLRACE_REQUIRES(mutex_);
  /// Reports why parts of an attempt have failed.
  void TellFailures(const PluginRequest& request, std::span<const std::size_t> rows,
                    const BuildAttempt& attempt) const;
  /// Takes the process from a slot. REQUIRES: nobody has taken the slot.
  static std::shared_ptr<PluginProcess> TakeProcess(Slot& slot);
  /// Has the process of a lease build rows, and counts its time.
  Result<BuildAttempt> Ask(const Lease& lease, const PluginRequest& request,
                           std::span<const std::size_t> rows, bool at_once,
                           const std::stop_token& stop);
  void Count(const Lease& lease, const BuildAttempt& attempt);
  /// Makes rows that contradict a column fail.
  void CompareColumns(const PluginRequest& request, std::span<const std::size_t> rows,
                      BuildAttempt& attempt) const;

  const PluginPoolOptions options_;
  std::shared_ptr<const PluginProcess::Options> process_options_;
  std::unique_ptr<OutputReader> reader_;
  std::unique_ptr<ForkServer> fork_server_;
  PluginFacts facts_;
  std::vector<ColumnCheck> checks_;

  mutable Mutex mutex_;
  CondVar returned_;
  std::vector<Slot> slots_ MILLRACE_GUARDED_BY(mutex_);
  std::size_t most_processes_ MILLRACE_GUARDED_BY(mutex_) = 0;  // the first slots are for them
  std::map<std::string, std::shared_ptr<const PluginColumn>> columns_ MILLRACE_GUARDED_BY(mutex_);
};

}  // namespace millrace
