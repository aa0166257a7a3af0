#include "server/plugin/plugin_registry.h"

#include <algorithm>
#include <cstdlib>
#include <system_error>
#include <utility>

#include <unistd.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "server/plugin/failure_log.h"

namespace millrace {

std::string PluginObjectKey(const PluginObject& object) {
  std::string tensors;
  for (const auto* const some : {&object.inputs, &object.outputs}) {
    for (const PluginTensor& tensor : *some) {
      tensors += fmt::format("{}={} ", tensor.name, TensorTypeText(tensor.type));
    }
    tensors += '|';
  }
  return fmt::format("{}\n{}\n{}\n{} {} {}\n{}\n{}\n{}\n{} {} {}", object.ToString(), object.args,
                     object.folder, static_cast<int>(object.kind), object.per_batch, object.random,
                     fmt::join(object.drop, " "), object.timeout.count(), tensors,
                     object.chance.fingerprint, object.chance.seed, object.chance.tensor);
}

std::filesystem::path DefaultPluginCopies() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache != '\0') {
    return std::filesystem::path(cache) / "millrace" / "plugins";
  }
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0') {
    return std::filesystem::path(home) / ".cache" / "millrace" / "plugins";
  }
  std::error_code ignored;
  return std::filesystem::temp_directory_path(ignored) /
         fmt::format("millrace-plugins-{}", ::getuid());
}

PluginRegistry::PluginRegistry(PluginRegistryOptions options)
    : copies_(std::move(options.copies)),
      clock_(std::move(options.clock)),
      logger_(std::move(options.logger)),
      begin_with_one_(options.begin_with_one) {
  SetPlugins(std::move(options.plugins));
}

PluginRegistry::~PluginRegistry() { Stop(); }

void PluginRegistry::SetPlugins(std::map<std::string, PluginConfig> plugins) {
  MutexLock lock(mutex_);
  plugins_ = {std::make_move_iterator(plugins.begin()), std::make_move_iterator(plugins.end())};
  // From now on, everybody who asks for an object gets the plugin as it is now.
  std::erase_if(replaced_, [](const std::shared_ptr<Entry>& entry) {
    MutexLock reading(entry->mutex);
    return entry->pool.expired();
  });
  for (auto& [key, entry] : pools_) replaced_.push_back(std::move(entry));
  pools_.clear();
  budgets_.clear();
}

std::map<std::string, PluginConfig> PluginRegistry::Plugins() const {
  MutexLock lock(mutex_);
  return {plugins_.begin(), plugins_.end()};
}

Result<PluginConfig> PluginRegistry::Find(std::string_view name) const {
  MutexLock lock(mutex_);
  const auto found = plugins_.find(name);
  if (found != plugins_.end()) return found->second;
  std::string known;
  for (const auto& entry : plugins_) known += (known.empty() ? "" : ", ") + entry.first;
  return NotFound(fmt::format(
      "plugin '{0}' is not listed here: expected `--plugin {0}=FOLDER`, or {0} below `plugins:` of "
      "the configuration; listed {1}",
      name, known.empty() ? "is none" : "are " + known));
}

std::shared_ptr<Launcher> PluginRegistry::SharedLauncher() {
  MutexLock lock(mutex_);
  if (launcher_ == nullptr) launcher_ = std::make_shared<Launcher>();
  return launcher_;
}

Result<std::shared_ptr<PluginPool>> PluginRegistry::Pool(const PluginObject& object) {
  std::shared_ptr<Entry> entry;
  {
    MutexLock lock(mutex_);
    std::shared_ptr<Entry>& known = pools_[PluginObjectKey(object)];
    if (known == nullptr) {
      known = std::make_shared<Entry>();
      known->object = object.ToString();
    }
    entry = known;
  }
  MutexLock one_starts(entry->starting);
  {
    MutexLock lock(entry->mutex);
    if (std::shared_ptr<PluginPool> pool = entry->pool.lock()) return pool;
  }
  MILLRACE_ASSIGN_OR_RETURN(std::shared_ptr<PluginPool> pool, Start(object, false));
  MutexLock lock(entry->mutex);
  entry->pool = pool;
  return pool;
}

Result<std::shared_ptr<PluginPool>> PluginRegistry::AnotherPool(const PluginObject& object) {
  return Start(object, true);
}

Result<PluginRegistry::Listed> PluginRegistry::FindListed(std::string_view name) {
  MILLRACE_ASSIGN_OR_RETURN(PluginConfig plugin, Find(name));
  MutexLock lock(mutex_);
  std::shared_ptr<ProcessBudget>& budget = budgets_[plugin.name];
  if (budget == nullptr) {
    budget = std::make_shared<ProcessBudget>(static_cast<std::size_t>(plugin.processes));
  }
  return Listed{std::move(plugin), budget};
}

Result<std::shared_ptr<PluginPool>> PluginRegistry::Start(const PluginObject& object, bool alone) {
  PluginPoolOptions options;
  MILLRACE_ASSIGN_OR_RETURN(Listed listed, FindListed(object.module));
  options.plugin = std::move(listed.plugin);
  if (alone) {
    options.plugin.processes = 1;
  } else if (options.plugin.processes_given) {
    options.budget = std::move(listed.budget);
  }
  options.number = ++last_number_;
  options.object = object;
  options.copies = copies_;
  options.launcher = SharedLauncher();
  options.clock = clock_;
  if (logger_ != nullptr) {
    options.on_line = [logger = logger_](std::string_view plugin, pid_t process,
                                         std::string_view line) {
      logger->Info("plugin says", {{"plugin", std::string(plugin)},
                                   {"process", static_cast<std::int64_t>(process)},
                                   {"line", std::string(line)}});
    };
  }
  if (logger_ != nullptr) {
    const auto failures = std::make_shared<FailureLog>(logger_, clock_, object.ToString());
    options.on_failure = [failures](std::optional<std::uint64_t> example,
                                    const PluginFailure& failure) {
      failures->Add(example, failure);
    };
    options.on_wait = [logger = logger_, object = object.ToString()](std::string_view what,
                                                                     Duration waited) {
      logger->Info("a plugin's process is waited for",
                   {{"plugin", object},
                    {"for", std::string(what)},
                    {"seconds", static_cast<std::int64_t>(ToSeconds(waited))}});
    };
  }
  options.on_request = [listener = listener_](std::string_view asked, Time begin, Time end) {
    std::shared_ptr<const OnPluginRequest> on_request;
    {
      MutexLock lock(listener->mutex);
      on_request = listener->on_request;
    }
    if (on_request != nullptr) (*on_request)(asked, begin, end);
  };
  const bool one = begin_with_one_ && !options.plugin.processes_given;
  MILLRACE_ASSIGN_OR_RETURN(std::shared_ptr<PluginPool> pool,
                            PluginPool::Start(std::move(options), stop_.get_token()));
  if (one) pool->SetMostProcesses(1);
  return pool;
}

std::vector<std::pair<std::string, std::shared_ptr<PluginPool>>> PluginRegistry::PoolsInUse()
    const {
  std::vector<std::shared_ptr<Entry>> entries;
  {
    MutexLock lock(mutex_);
    for (const auto& [key, entry] : pools_) entries.push_back(entry);
    entries.insert(entries.end(), replaced_.begin(), replaced_.end());
  }
  std::vector<std::pair<std::string, std::shared_ptr<PluginPool>>> pools;
  for (const std::shared_ptr<Entry>& entry : entries) {
    std::shared_ptr<PluginPool> pool;
    {
      MutexLock lock(entry->mutex);
      pool = entry->pool.lock();
    }
    if (pool != nullptr) pools.emplace_back(entry->object, std::move(pool));
  }
  std::stable_sort(pools.begin(), pools.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  return pools;
}

std::vector<PluginPoolStats> PluginRegistry::Stats() const {
  std::vector<PluginPoolStats> all;
  for (const auto& [object, pool] : PoolsInUse()) {
    all.push_back({.number = pool->number(),
                   .processes_given = pool->processes_given(),
                   .object = object,
                   .processes = pool->Stats(),
                   .memory_bytes = pool->MemoryBytes()});
  }
  return all;
}

void PluginRegistry::SetMostProcesses(const std::map<std::uint64_t, int>& processes) {
  for (const auto& [object, pool] : PoolsInUse()) {
    const auto most = processes.find(pool->number());
    if (most != processes.end()) pool->SetMostProcesses(most->second);
  }
}

void PluginRegistry::SetOnRequest(OnPluginRequest on_request) {
  auto shared = on_request == nullptr
                    ? nullptr
                    : std::make_shared<const OnPluginRequest>(std::move(on_request));
  MutexLock lock(listener_->mutex);
  listener_->on_request = std::move(shared);
}

}  // namespace millrace
