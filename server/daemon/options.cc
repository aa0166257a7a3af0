#include "server/daemon/options.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fmt/core.h>

#include "common/base/addresses.h"
#include "server/daemon/config_file.h"
#include "server/daemon/option_table.h"
#include "server/plan/text/pipeline.h"
#include "server/state/etcd/etcd_address.h"

namespace millrace {
namespace {

/// Adds the place at which `text` was given to `status`, if that was in a file.
Status At(const Status& status, const OptionText& text) {
  return text.where.empty() ? status : status.WithContext(text.where);
}

Status ReadOption(const Option& option, const OptionTexts& texts, const HostLimits& host,
                  DaemonOptions& options) {
  const auto given = texts.values.find(option.parameter.name);
  OptionText text;
  if (given != texts.values.end()) text = given->second;
  const bool asks_for_default = text.text.empty() && !option.otherwise.fixed;
  if (given == texts.values.end() || asks_for_default) text.text = option.otherwise.text(host);
  if (text.text.empty() && !option.otherwise.fixed) return OkStatus();  // asks for the default
  const Result<ParamValue> value = ReadText(option.parameter, text.text);
  if (!value.ok()) {
    return At(value.status().WithContext("option " + option.parameter.name), text);
  }
  option.member.Set(*value, options);
  return OkStatus();
}

/// Checks that there is an address to which consumers can connect.
Status CheckAdvertised(const OptionTexts& texts, const DaemonOptions& options) {
  const auto where = [&texts](const std::string& name) {
    const auto given = texts.values.find(name);
    return given == texts.values.end() ? OptionText() : given->second;
  };
  if (!options.advertise.empty()) {
    if (!IsWildcard(options.advertise)) return OkStatus();
    return At(InvalidArgument(fmt::format(
                  "option advertise: expected an address that consumers can reach, got '{}'",
                  options.advertise)),
              where("advertise"));
  }
  if (options.role == Role::kDispatcher || !IsWildcard(options.batch_listen)) {
    return OkStatus();
  }
  return At(InvalidArgument("option advertise: needed if batch_listen is " + options.batch_listen +
                            ": give host:port as consumers reach it"),
            where("batch_listen"));
}

/// Checks that nobody on the network is let in by mistake.
Status CheckExposed(const OptionTexts& texts, const DaemonOptions& options) {
  const auto where = [&texts](const std::string& name) {
    const auto given = texts.values.find(name);
    return given == texts.values.end() ? OptionText() : given->second;
  };
  if (options.metrics_tls && options.tls.empty()) {
    return At(InvalidArgument("option metrics_tls: needs tls, the folder with its certificate"),
              where("metrics_tls"));
  }
  if (options.metrics_tls && options.metrics_page) {
    return At(
        InvalidArgument("option metrics_page: expected without metrics_tls, by which the page "
                        "asks everybody who it is"),
        where("metrics_page"));
  }
  if (options.tls.empty()) {
    if (!options.access.empty()) {
      return At(InvalidArgument("option access: needs tls, since without it nobody proves a name"),
                where("access"));
    }
  } else if (options.insecure) {
    return At(InvalidArgument("option insecure: expected without tls, which is given too"),
              where("insecure"));
  }
  if (!options.tls.empty() || options.insecure) return OkStatus();
  struct Port {
    const char* option;
    const std::string& address;
    bool open;
  };
  for (const Port& port :
       {Port{"listen", options.listen, options.role != Role::kWorker},
        Port{"batch_listen", options.batch_listen, options.role != Role::kDispatcher}}) {
    if (!port.open || IsLoopback(port.address)) continue;
    return At(InvalidArgument(fmt::format(
                  "option {}: other hosts can connect to {}, and could read datasets and end jobs: "
                  "give --tls DIR (`millrace certs` makes certificates), or --insecure inside a "
                  "network that you trust",
                  port.option, port.address)),
              where(port.option));
  }
  return OkStatus();
}

/// Checks that there are files for TLS to etcd where they are needed, and only there.
Status CheckEtcdTls(const OptionTexts& texts, const DaemonOptions& options) {
  const Result<EtcdAddress> store = ParseEtcdAddress(options.store);
  const bool needed = store.ok() && store->tls;
  if (needed == !options.etcd_tls.empty()) return OkStatus();
  const auto given = texts.values.find(needed ? "store" : "etcd_tls");
  return At(InvalidArgument(needed ? "option store: etcds:// needs etcd_tls, a folder with ca.crt"
                                   : "option etcd_tls: expected with a store at etcds:// only"),
            given == texts.values.end() ? OptionText() : given->second);
}

Status CheckMemory(const OptionTexts& texts, const HostLimits& host, const DaemonOptions& options) {
  const auto given = texts.values.find("memory_limit");
  if (given == texts.values.end() || options.memory_limit <= host.memory_bytes) return OkStatus();
  return At(InvalidArgument(
                fmt::format("option memory_limit: expected at most the {}'s {} bytes, got '{}'",
                            host.memory_from, host.memory_bytes, given->second.text)),
            given->second);
}

/// The cache gets a quarter of the limit unless the text says otherwise.
Status CompleteCacheBytes(const OptionTexts& texts, DaemonOptions& options) {
  const auto given = texts.values.find("cache_bytes");
  if (given == texts.values.end() || given->second.text.empty()) {
    options.cache_bytes = options.memory_limit / 4;
    return OkStatus();
  }
  if (options.role == Role::kDispatcher || options.cache_bytes <= options.memory_limit) {
    return OkStatus();
  }
  return At(InvalidArgument(
                fmt::format("option cache_bytes: expected at most memory_limit, {} bytes, got '{}'",
                            options.memory_limit, given->second.text)),
            given->second);
}

Status ReadDatasets(const OptionTexts& texts, DaemonOptions& options) {
  // Pipelines of plugins that only workers have need nothing of a dispatcher.
  if (texts.datasets.empty() && texts.plugins.empty() && options.role != Role::kDispatcher) {
    return InvalidArgument(
        "no dataset: give --dataset ID=DIR, or datasets: {ID: DIR} in --config; or plugins, whose "
        "sources need none");
  }
  for (const auto& [id, given] : texts.datasets) {
    const OptionText place{id, given.where};
    if (!IsDatasetId(id)) {
      return At(
          InvalidArgument(fmt::format("option dataset: expected {}, got '{}'", kDatasetIdRule, id)),
          place);
    }
    const DatasetPlace lies = ParseDatasetPlace(given.dataset.path);
    if (!lies.kind.empty()) {
      MILLRACE_RETURN_IF_ERROR(
          At(options.kinds.Named(lies.kind).status().WithContext("dataset " + id), place));
    }
    std::error_code error;
    if (!std::filesystem::is_directory(lies.dir, error)) {
      return At(
          NotFound("dataset " + id + ": " + lies.dir.string() + " is no folder that can be read"),
          place);
    }
    options.datasets[id] = {
        .path = lies.dir.string(), .index = given.dataset.index, .kind = lies.kind};
  }
  return OkStatus();
}

/// Marks the datasets that are copied into memory.
Status ReadInMemory(const OptionTexts& texts, DaemonOptions& options) {
  const auto given = texts.values.find("in_memory");
  if (given == texts.values.end() || options.in_memory.empty()) return OkStatus();
  for (const std::string& id : SplitAddresses(options.in_memory)) {
    const auto dataset = options.datasets.find(id);
    if (dataset == options.datasets.end()) {
      return At(NotFound(fmt::format("option in_memory: no dataset has the id '{}'", id)),
                given->second);
    }
    // If it is of no kind yet, opening it says so.
    const auto kind = options.kinds.Find(dataset->second.path, dataset->second.kind);
    if (kind.ok() && !(*kind)->can_be_in_memory()) {
      return At(InvalidArgument(fmt::format(
                    "option in_memory: dataset '{}' is of kind {}: expected a graph dataset", id,
                    (*kind)->name())),
                given->second);
    }
    dataset->second.in_memory = true;
  }
  return OkStatus();
}

Status ReadPlugins(const OptionTexts& texts, const HostLimits& host, DaemonOptions& options) {
  for (const auto& [name, given] : texts.plugins) {
    PluginConfig plugin = given.plugin;
    plugin.processes_given = plugin.processes != 0;
    if (!plugin.processes_given) plugin.processes = host.cpus;
    MILLRACE_RETURN_IF_ERROR(At(CheckPlugin(plugin), {name, given.where}));
    options.plugins[name] = std::move(plugin);
  }
  return OkStatus();
}

}  // namespace

std::string_view RoleName(Role role) {
  switch (role) {
    case Role::kDispatcher:
      return "dispatcher";
    case Role::kWorker:
      return "worker";
    case Role::kServe:
      break;
  }
  return "serve";
}

std::string DefaultStateFolder() {
  if (const char* state = std::getenv("XDG_STATE_HOME"); state != nullptr && *state != '\0') {
    return std::string(state) + "/millrace";
  }
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0') {
    return std::string(home) + "/.local/state/millrace";
  }
  return "/var/lib/millrace";
}

Status AddDataset(std::string_view text, OptionTexts& texts) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0 || equals + 1 == text.size()) {
    return InvalidArgument(fmt::format("option dataset: expected ID=DIR, got '{}'", text));
  }
  const std::string id(text.substr(0, equals));
  const auto [entry, added] = texts.datasets.try_emplace(
      id, DatasetText{{.path = std::string(text.substr(equals + 1)), .index = ""}, ""});
  if (!added) {
    return InvalidArgument(
        fmt::format("option dataset: '{}': {} was given before, as {}; give each dataset once",
                    text, id, entry->second.dataset.path));
  }
  return OkStatus();
}

Status AddPlugin(std::string_view text, OptionTexts& texts) {
  Result<PluginConfig> read = ParsePlugin(text);
  if (!read.ok()) return read.status().WithContext("option plugin");
  PluginConfig plugin = *std::move(read);
  plugin.processes = 0;  // as many as the host has CPUs
  const std::string name = plugin.name;
  if (!texts.plugins.try_emplace(name, PluginText{std::move(plugin), ""}).second) {
    return InvalidArgument(fmt::format("option plugin: '{}': {} was given before", text, name));
  }
  return OkStatus();
}

Result<DaemonOptions> MakeOptions(Role role, const OptionTexts& texts, const HostLimits& host,
                                  const DatasetKinds& kinds) {
  DaemonOptions options;
  options.role = role;
  options.kinds = kinds;
  for (const Option& option : OptionTable()) {
    MILLRACE_RETURN_IF_ERROR(ReadOption(option, texts, host, options));
  }
  MILLRACE_RETURN_IF_ERROR(CheckMemory(texts, host, options));
  MILLRACE_RETURN_IF_ERROR(CheckAdvertised(texts, options));
  MILLRACE_RETURN_IF_ERROR(CheckExposed(texts, options));
  MILLRACE_RETURN_IF_ERROR(CheckEtcdTls(texts, options));
  MILLRACE_RETURN_IF_ERROR(CompleteCacheBytes(texts, options));
  options.threads_given = texts.values.contains("threads");
  MILLRACE_RETURN_IF_ERROR(ReadDatasets(texts, options));
  MILLRACE_RETURN_IF_ERROR(ReadInMemory(texts, options));
  MILLRACE_RETURN_IF_ERROR(ReadPlugins(texts, host, options));
  return options;
}

Result<DaemonOptions> EffectiveOptions(Role role, const std::string& config_file,
                                       const OptionTexts& flags, const HostLimits& host,
                                       const DatasetKinds& kinds) {
  OptionTexts texts;
  if (!config_file.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(texts, ReadConfigFile(config_file));
  }
  for (const auto& [name, value] : flags.values) texts.values[name] = value;
  for (const auto& [id, dataset] : flags.datasets) texts.datasets[id] = dataset;
  for (const auto& [name, plugin] : flags.plugins) texts.plugins[name] = plugin;
  return MakeOptions(role, texts, host, kinds);
}

std::vector<std::string> ChangedOptions(const DaemonOptions& before, const DaemonOptions& after) {
  std::vector<std::string> changed;
  for (const Option& option : OptionTable()) {
    if (option.Print(before) != option.Print(after)) changed.push_back(option.parameter.name);
  }
  return changed;
}

}  // namespace millrace
