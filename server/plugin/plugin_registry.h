// The plugins of a process, and the pools that build with them.
//
// Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/log.h"
#include "common/base/result.h"
#include "common/system/clock.h"
#include "common/system/mutex.h"
#include "server/plugin/plugin_config.h"
#include "server/plugin/plugin_pool.h"
#include "server/plugin/plugin_stats.h"
#include "server/plugin/process/launcher.h"
#include "server/plugin/process_budget.h"

namespace millrace {

struct PluginRegistryOptions {
  std::map<std::string, PluginConfig> plugins;  // by their names
  std::filesystem::path copies;                 // where the copies of plugins' files go
  std::shared_ptr<const Clock> clock = std::make_shared<SystemClock>();
  std::shared_ptr<Logger> logger;  // gets the output of plugins; may be null
  /// Pools whose number of processes is not given begin with one process, and get others by
  /// SetMostProcesses. Otherwise they begin with their most processes.
  bool begin_with_one = false;
};

class PluginRegistry {
 public:
  explicit PluginRegistry(PluginRegistryOptions options);
  ~PluginRegistry();
  PluginRegistry(const PluginRegistry&) = delete;
  PluginRegistry& operator=(const PluginRegistry&) = delete;

  /// Replaces the plugins. Pools that are in use keep the plugins that they began with.
  void SetPlugins(std::map<std::string, PluginConfig> plugins);
  /// The listed plugins, by their names.
  std::map<std::string, PluginConfig> Plugins() const;
  /// The plugin's configuration. NotFound that says how to list one, and which are listed.
  Result<PluginConfig> Find(std::string_view name) const;

  /// The pool of an object, which is shared by all callers with the same object while somebody
  /// holds it. Starts it, which may take as long as an import. Errors of Find and
  /// PluginPool::Start; Cancelled after Stop.
  Result<std::shared_ptr<PluginPool>> Pool(const PluginObject& object);

  /// A pool of its own, with one process, so that its examples come from another process than the
  /// examples of Pool. Errors as above.
  Result<std::shared_ptr<PluginPool>> AnotherPool(const PluginObject& object);

  /// Ends all waiting for plugins, now and later.
  void Stop() { stop_.request_stop(); }
  std::stop_token stop_token() const { return stop_.get_token(); }

  /// The work of the processes of each pool in use, pools of replaced plugins included; in the
  /// order of the objects' names. It may take some milliseconds.
  std::vector<PluginPoolStats> Stats() const;
  /// PluginPool::SetMostProcesses of pools by their numbers. Pools that are gone are ignored.
  void SetMostProcesses(const std::map<std::uint64_t, int>& processes);
  /// Calls `on_request` for all requests from now on, of present and future pools. Null: no longer.
  void SetOnRequest(OnPluginRequest on_request);

 private:
  /// Receives requests. Pools may outlive the registry.
  struct Listener {
    Mutex mutex;
    std::shared_ptr<const OnPluginRequest> on_request MILLRACE_GUARDED_BY(mutex);
  };
  struct Entry {
    Mutex starting;  // held while the pool is started
    Mutex mutex;
    std::weak_ptr<PluginPool> pool MILLRACE_GUARDED_BY(mutex);
    std::string object;
  };

  /// `alone`: with one process, which does not count among the processes of the plugin.
  Result<std::shared_ptr<PluginPool>> Start(const PluginObject& object, bool alone);
  /// The plugin as it is listed now, and how many processes it may have.
  struct Listed {
    PluginConfig plugin;
    std::shared_ptr<ProcessBudget> budget;
  };
  Result<Listed> FindListed(std::string_view name);
  std::shared_ptr<Launcher> SharedLauncher();
  std::vector<std::pair<std::string, std::shared_ptr<PluginPool>>> PoolsInUse() const;

  const std::filesystem::path copies_;
  const std::shared_ptr<const Clock> clock_;
  const std::shared_ptr<Logger> logger_;
  const bool begin_with_one_;
  std::atomic<std::uint64_t> last_number_{0};  // of a pool
  std::stop_source stop_;
  mutable Mutex mutex_;
  std::map<std::string, PluginConfig, std::less<>> plugins_ MILLRACE_GUARDED_BY(mutex_);
  // Budgets of listed plugins in use; pools of replaced plugins keep their budgets.
  std::map<std::string, std::shared_ptr<ProcessBudget>, std::less<>> budgets_
      MILLRACE_GUARDED_BY(mutex_);
  // Made with the first pool, so that a process without plugins has no thread for them.
  std::shared_ptr<Launcher> launcher_ MILLRACE_GUARDED_BY(mutex_);
  std::map<std::string, std::shared_ptr<Entry>> pools_ MILLRACE_GUARDED_BY(mutex_);
  // Pools of replaced plugins, which go on as long as somebody uses them.
  std::vector<std::shared_ptr<Entry>> replaced_ MILLRACE_GUARDED_BY(mutex_);
  const std::shared_ptr<Listener> listener_ = std::make_shared<Listener>();
};

/// The default folder of copies: in the user's cache, or in the folder for temporary files.
std::filesystem::path DefaultPluginCopies();

/// A text that is equal for objects that can share a pool.
std::string PluginObjectKey(const PluginObject& object);

}  // namespace millrace
