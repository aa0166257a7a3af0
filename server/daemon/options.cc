#include "server/daemon/options.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include <fmt/core.h>

#include "common/base/addresses.h"
#include "server/pipeline/text/pipeline.h"
#include "server/pipeline/text/yaml_reader.h"
#include "server/state/etcd/etcd_address.h"

namespace millrace {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

Status OptionError(std::string_view name, std::string_view value, std::string_view expected) {
  return InvalidArgument(fmt::format("option {}: expected {}, got '{}'", name, expected, value));
}

Result<double> ParseNumber(std::string_view name, const std::string& text, double min, double max) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !(value >= min && value <= max)) {
    return OptionError(name, text, fmt::format("a number from {} to {}", min, max));
  }
  return value;
}

Result<bool> ParseBool(std::string_view name, const std::string& text) {
  if (text == "true") return true;
  if (text == "false") return false;
  return OptionError(name, text, "true or false");
}

Status CheckAddress(std::string_view name, const std::string& address, bool port_required) {
  if (!IsHostPort(address, port_required ? 1 : 0)) {
    return OptionError(name, address, "host:port");
  }
  return OkStatus();
}

std::string HostOf(const std::string& address) { return address.substr(0, address.rfind(':')); }

bool IsWildcard(const std::string& host) {
  return host == "0.0.0.0" || host == "[::]" || host == "::" || host == "*";
}

std::string KnownKeys() {
  std::string keys = "datasets";
  for (const OptionSpec& option : OptionTable()) keys += ", " + option.name;
  return keys;
}

Status ReadDatasets(const YamlNode& node, const std::string& path, OptionTexts& texts) {
  if (node.kind != YamlNode::Kind::kMap) {
    return InvalidArgument(fmt::format("{}:{}:{}: datasets: expected a map of id to folder, got {}",
                                       path, node.mark.line, node.mark.column, node.Describe()));
  }
  for (const YamlEntry& entry : node.entries) {
    const auto error = [&](const YamlMark& mark, std::string_view what) {
      return InvalidArgument(
          fmt::format("{}:{}:{}: datasets.{}: {}", path, mark.line, mark.column, entry.key, what));
    };
    DatasetOption dataset;
    if (entry.value->kind == YamlNode::Kind::kScalar) {
      dataset.path = entry.value->scalar;
    } else if (entry.value->kind == YamlNode::Kind::kMap) {
      for (const YamlEntry& inner : entry.value->entries) {
        if (inner.value->kind != YamlNode::Kind::kScalar) {
          return error(inner.value->mark, "expected a path, got " + inner.value->Describe());
        }
        if (inner.key == "path") {
          dataset.path = inner.value->scalar;
        } else if (inner.key == "index") {
          dataset.index = inner.value->scalar;
        } else {
          return error(inner.mark, "unknown key '" + inner.key + "', expected path or index");
        }
      }
    }
    if (dataset.path.empty()) {
      return error(entry.value->mark, "expected a folder, or {path: …, index: …}");
    }
    texts.datasets[entry.key] = dataset;
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

const std::vector<OptionSpec>& OptionTable() {
  using enum Role;
  static const std::vector<OptionSpec> table = {
      {"listen",
       "host:port for trainers, workers and tools (control)",
       "127.0.0.1:7700",
       {kDispatcher, kServe}},
      {"batch_listen", "host:port for batches", "127.0.0.1:7701", {kWorker, kServe}},
      {"advertise",
       "host:port of the batch port as consumers reach it; needed where batch_listen is "
       "a wildcard",
       "",
       {kWorker, kServe}},
      {"dispatcher",
       "host:port of the dispatcher; with commas between them where there are several",
       "127.0.0.1:7700",
       {kWorker}},
      {"metrics_listen",
       "host:port for Prometheus, HTTP /metrics; default: none",
       "",
       {kDispatcher, kWorker, kServe}},
      {"health_listen",
       "host:port for probes, grpc.health.v1; default: none",
       "",
       {kDispatcher, kWorker, kServe}},
      {"state", "folder of the embedded state store", "", {kDispatcher, kServe}},
      {"store",
       "etcd://host:port,host:port/prefix: the state of several dispatchers, of which one leads; "
       "default: the embedded store",
       "",
       {kDispatcher}},
      {"memory_limit",
       "bytes (also 300MB, 4GiB) that the process may use besides the page cache; "
       "default: 80 % of the machine's or the cgroup's",
       "",
       {kWorker, kServe}},
      {"threads",
       "batches built at once; default: the CPUs of affinity and cgroup",
       "",
       {kWorker, kServe}},
      {"shared_memory",
       "consumers of this host read batches where they are built; false: over the network",
       "true",
       {kWorker, kServe}},
      {"skip_bad",
       "true: index datasets without bad files and those that need them, as if they did not exist",
       "false",
       {kDispatcher, kWorker, kServe}},
      {"grace",
       "seconds to finish what is owed after SIGTERM",
       "10",
       {kDispatcher, kWorker, kServe}},
      {"attach_timeout",
       "seconds that a trainer waits for a job that others hold",
       "60",
       {kDispatcher, kServe}},
      {"name",
       "name of this process in status and logs; default: host:pid",
       "",
       {kDispatcher, kWorker, kServe}},
      {"log_level", "debug, info, warning, error or off", "info", {kDispatcher, kWorker, kServe}},
      {"log_json", "one JSON object a log line", "false", {kDispatcher, kWorker, kServe}},
  };
  return table;
}

Result<OptionTexts> ReadConfigFile(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return InvalidArgument("configuration " + path + ": is a folder, expected a YAML file");
  }
  std::ifstream in(path);
  if (!in) return NotFound("configuration " + path + ": no such file, or not readable");
  std::stringstream text;
  text << in.rdbuf();
  MILLRACE_ASSIGN_OR_RETURN(const YamlPtr root, ReadYaml(text.str(), path));
  OptionTexts texts;
  if (root->kind == YamlNode::Kind::kNull) return texts;
  if (root->kind != YamlNode::Kind::kMap) {
    return InvalidArgument(fmt::format("{}:{}:{}: expected a map of options, got {}", path,
                                       root->mark.line, root->mark.column, root->Describe()));
  }
  const std::vector<OptionSpec>& table = OptionTable();
  for (const YamlEntry& entry : root->entries) {
    if (entry.key == "datasets") {
      MILLRACE_RETURN_IF_ERROR(ReadDatasets(*entry.value, path, texts));
      continue;
    }
    const bool known = std::any_of(table.begin(), table.end(),
                                   [&](const OptionSpec& o) { return o.name == entry.key; });
    if (!known) {
      return InvalidArgument(fmt::format("{}:{}:{}: unknown key '{}', expected one of {}", path,
                                         entry.mark.line, entry.mark.column, entry.key,
                                         KnownKeys()));
    }
    if (entry.value->kind != YamlNode::Kind::kScalar) {
      return InvalidArgument(fmt::format("{}:{}:{}: {}: expected one value, got {}", path,
                                         entry.value->mark.line, entry.value->mark.column,
                                         entry.key, entry.value->Describe()));
    }
    texts.values[entry.key] = entry.value->scalar;
  }
  return texts;
}

Status AddDataset(std::string_view text, OptionTexts& texts) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0 || equals + 1 == text.size()) {
    return OptionError("dataset", text, "ID=DIR");
  }
  const std::string id(text.substr(0, equals));
  const auto [entry, added] =
      texts.datasets.try_emplace(id, DatasetOption{std::string(text.substr(equals + 1)), ""});
  if (!added) {
    return InvalidArgument(
        fmt::format("option dataset: '{}': {} was given before, as {}; give "
                    "each dataset once",
                    text, id, entry->second.path));
  }
  return OkStatus();
}

Result<std::uint64_t> ParseBytes(std::string_view text) {
  const std::string owned(text);
  char* end = nullptr;
  const double amount = std::strtod(owned.c_str(), &end);
  const std::string unit(end);
  static const std::map<std::string, double> units = {
      {"", 1},          {"B", 1},
      {"kB", 1e3},      {"MB", 1e6},
      {"GB", 1e9},      {"TB", 1e12},
      {"KiB", 1 << 10}, {"MiB", 1 << 20},
      {"GiB", 1 << 30}, {"TiB", 1024.0 * (1 << 30)}};
  const auto found = units.find(unit);
  if (end == owned.c_str() || found == units.end() || !(amount > 0) ||
      amount * found->second > 1e18) {
    return InvalidArgument("expected bytes such as 300MB or 4GiB, got '" + owned + "'");
  }
  return static_cast<std::uint64_t>(amount * found->second);
}

Result<DaemonOptions> MakeOptions(Role role, const OptionTexts& texts, const HostLimits& host) {
  DaemonOptions options;
  options.role = role;
  const auto text = [&](const std::string& name) {
    const auto given = texts.values.find(name);
    if (given != texts.values.end()) return given->second;
    for (const OptionSpec& option : OptionTable()) {
      if (option.name == name) return option.default_value;
    }
    return std::string();
  };

  options.listen = text("listen");
  options.batch_listen = text("batch_listen");
  options.dispatcher = text("dispatcher");
  options.advertise = text("advertise");
  MILLRACE_RETURN_IF_ERROR(CheckAddress("listen", options.listen, false));
  MILLRACE_RETURN_IF_ERROR(CheckAddress("batch_listen", options.batch_listen, false));
  for (const std::string& address : SplitAddresses(options.dispatcher)) {
    MILLRACE_RETURN_IF_ERROR(CheckAddress("dispatcher", address, true));
  }
  if (!options.advertise.empty()) {
    MILLRACE_RETURN_IF_ERROR(CheckAddress("advertise", options.advertise, true));
    if (IsWildcard(HostOf(options.advertise))) {
      return OptionError("advertise", options.advertise, "an address that consumers can reach");
    }
  } else if (role != Role::kDispatcher && IsWildcard(HostOf(options.batch_listen))) {
    return InvalidArgument("option advertise: needed where batch_listen is " +
                           options.batch_listen + ": give host:port as consumers reach it");
  }

  options.metrics_listen = text("metrics_listen");
  options.health_listen = text("health_listen");
  for (const auto& [name, address] : {std::pair("metrics_listen", options.metrics_listen),
                                      std::pair("health_listen", options.health_listen)}) {
    if (!address.empty()) MILLRACE_RETURN_IF_ERROR(CheckAddress(name, address, false));
  }

  options.datasets = texts.datasets;
  if (options.datasets.empty()) {
    return InvalidArgument("no dataset: give --dataset ID=DIR, or datasets: {ID: DIR} in --config");
  }
  for (const auto& [id, dataset] : options.datasets) {
    if (!IsDatasetId(id)) return OptionError("dataset", id, kDatasetIdRule);
    std::error_code error;
    if (!std::filesystem::is_directory(dataset.path, error)) {
      return NotFound("dataset " + id + ": " + dataset.path + " is no folder that can be read");
    }
  }

  options.state = text("state");
  if (options.state.empty()) options.state = DefaultStateFolder();
  options.store = text("store");
  if (!options.store.empty()) {
    const Result<EtcdAddress> store = ParseEtcdAddress(options.store);
    if (!store.ok()) return store.status().WithContext("option store");
  }
  options.memory_limit = host.memory_bytes / 5 * 4;
  if (const std::string limit = text("memory_limit"); !limit.empty()) {
    const Result<std::uint64_t> bytes = ParseBytes(limit);
    if (!bytes.ok()) return bytes.status().WithContext("option memory_limit");
    options.memory_limit = *bytes;
  }
  if (options.memory_limit > host.memory_bytes) {
    return OptionError(
        "memory_limit", text("memory_limit"),
        fmt::format("at most the {}'s {} bytes", host.memory_from, host.memory_bytes));
  }
  if (options.memory_limit < 16 * kMiB) {
    return OptionError("memory_limit", text("memory_limit"), "at least 16MiB");
  }
  options.threads = host.cpus;
  if (const std::string threads = text("threads"); !threads.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(const double n, ParseNumber("threads", threads, 1, 1024));
    options.threads = static_cast<int>(n);
  }
  MILLRACE_ASSIGN_OR_RETURN(options.grace, ParseNumber("grace", text("grace"), 0, 86400));
  MILLRACE_ASSIGN_OR_RETURN(options.attach_timeout,
                            ParseNumber("attach_timeout", text("attach_timeout"), 0.1, 86400));
  options.name = text("name");
  if (options.name.empty()) options.name = Whereabouts();
  const Result<LogLevel> level = ParseLogLevel(text("log_level"));
  if (!level.ok()) return level.status();
  options.log_level = *level;
  MILLRACE_ASSIGN_OR_RETURN(options.log_json, ParseBool("log_json", text("log_json")));
  MILLRACE_ASSIGN_OR_RETURN(options.skip_bad, ParseBool("skip_bad", text("skip_bad")));
  MILLRACE_ASSIGN_OR_RETURN(options.shared_memory,
                            ParseBool("shared_memory", text("shared_memory")));
  return options;
}

namespace {

/// A scalar that YAML reads back as it is.
std::string Quoted(const std::string& text) {
  const bool plain = !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '.' || c == '/' || c == '-' || c == ':';
  });
  // A plain scalar may not end in ':', nor begin with '-' or ':'.
  if (plain && text.back() != ':' && text.front() != '-' && text.front() != ':') return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}

/// Every option of the table, as a configuration file has it.
std::map<std::string, std::string> OptionValues(const DaemonOptions& options) {
  static constexpr std::string_view kLevels[] = {"debug", "info", "warning", "error", "off"};
  return {{"listen", Quoted(options.listen)},
          {"batch_listen", Quoted(options.batch_listen)},
          {"advertise", Quoted(options.advertise)},
          {"dispatcher", Quoted(options.dispatcher)},
          {"metrics_listen", Quoted(options.metrics_listen)},
          {"health_listen", Quoted(options.health_listen)},
          {"state", Quoted(options.state)},
          {"store", Quoted(options.store)},
          {"memory_limit", std::to_string(options.memory_limit)},
          {"threads", std::to_string(options.threads)},
          {"grace", fmt::format("{}", options.grace)},
          {"attach_timeout", fmt::format("{}", options.attach_timeout)},
          {"name", Quoted(options.name)},
          {"log_level", std::string(kLevels[static_cast<std::size_t>(options.log_level)])},
          {"log_json", options.log_json ? "true" : "false"},
          {"skip_bad", options.skip_bad ? "true" : "false"},
          {"shared_memory", options.shared_memory ? "true" : "false"}};
}

}  // namespace

std::vector<std::string> ChangedOptions(const DaemonOptions& before, const DaemonOptions& after) {
  const auto values = OptionValues(after);
  std::vector<std::string> changed;
  for (const auto& [name, value] : OptionValues(before)) {
    if (values.at(name) != value) changed.push_back(name);
  }
  return changed;
}

std::string PrintConfig(const DaemonOptions& options) {
  const std::map<std::string, std::string> values = OptionValues(options);
  std::string out = fmt::format("# millraced {}\n", RoleName(options.role));
  for (const OptionSpec& option : OptionTable()) {
    if (std::find(option.roles.begin(), option.roles.end(), options.role) == option.roles.end()) {
      continue;
    }
    out += fmt::format("{}: {}  # {}\n", option.name, values.at(option.name), option.help);
  }
  out += "datasets:\n";
  for (const auto& [id, dataset] : options.datasets) {
    if (dataset.index.empty()) {
      out += fmt::format("  {}: {}\n", id, Quoted(dataset.path));
    } else {
      out += fmt::format("  {}: {{path: {}, index: {}}}\n", id, Quoted(dataset.path),
                         Quoted(dataset.index));
    }
  }
  return out;
}

}  // namespace millrace
