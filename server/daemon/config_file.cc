#include "server/daemon/config_file.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/base/parse_number.h"
#include "common/base/suggestion.h"
#include "server/daemon/option_table.h"
#include "server/yaml/yaml_reader.h"
#include "server/yaml/yaml_writer.h"

namespace millrace {
namespace {

/// Reads one file.
class ConfigReader {
 public:
  explicit ConfigReader(const std::string& path) : path_(path) {
    keys_.emplace_back(kDatasetsKey);
    keys_.emplace_back(kPluginsKey);
    for (const Option& option : OptionTable()) keys_.push_back(option.parameter.name);
  }

  Result<OptionTexts> Read(const YamlNode& root) {
    if (root.kind == YamlNode::Kind::kNull) return OptionTexts();
    if (root.kind != YamlNode::Kind::kMap) {
      return Error(root.mark, "expected a map of options, got " + root.Describe());
    }
    OptionTexts texts;
    for (const YamlEntry& entry : root.entries) {
      if (entry.key == kDatasetsKey) {
        MILLRACE_RETURN_IF_ERROR(ReadDatasets(*entry.value, texts));
        continue;
      }
      if (entry.key == kPluginsKey) {
        MILLRACE_RETURN_IF_ERROR(ReadPlugins(*entry.value, texts));
        continue;
      }
      if (std::find(keys_.begin(), keys_.end(), entry.key) == keys_.end()) {
        return Error(entry.mark, fmt::format("unknown key '{}'{}, expected one of {}", entry.key,
                                             Suggestion(entry.key, keys_), fmt::join(keys_, ", ")));
      }
      if (entry.value->kind != YamlNode::Kind::kScalar) {
        return Error(entry.value->mark, fmt::format("option {}: expected one value, got {}",
                                                    entry.key, entry.value->Describe()));
      }
      texts.values[entry.key] = {entry.value->scalar, Where(entry.value->mark)};
    }
    return texts;
  }

 private:
  std::string Where(const YamlMark& mark) const {
    return fmt::format("{}:{}:{}", path_, mark.line, mark.column);
  }

  Status Error(const YamlMark& mark, std::string_view message) const {
    return InvalidArgument(fmt::format("{}: {}", Where(mark), message));
  }

  Status ReadDatasets(const YamlNode& node, OptionTexts& texts) const {
    if (node.kind != YamlNode::Kind::kMap) {
      return Error(node.mark, "datasets: expected a map of id to folder, got " + node.Describe());
    }
    for (const YamlEntry& entry : node.entries) {
      MILLRACE_ASSIGN_OR_RETURN(DatasetOption dataset, ReadDataset(entry));
      texts.datasets[entry.key] = {std::move(dataset), Where(entry.mark)};
    }
    return OkStatus();
  }

  /// Reads a folder, or {path: folder, index: file}; a folder may have its kind before it.
  Result<DatasetOption> ReadDataset(const YamlEntry& entry) const {
    const auto error = [&](const YamlMark& mark, std::string_view message) {
      return Error(mark, fmt::format("datasets.{}: {}", entry.key, message));
    };
    DatasetOption dataset;
    if (entry.value->kind == YamlNode::Kind::kScalar) dataset.path = entry.value->scalar;
    for (const YamlEntry& field : entry.value->entries) {
      if (field.value->kind != YamlNode::Kind::kScalar) {
        return error(field.value->mark, "expected a path, got " + field.value->Describe());
      }
      if (field.key == "path") {
        dataset.path = field.value->scalar;
      } else if (field.key == "index") {
        dataset.index = field.value->scalar;
      } else {
        return error(field.mark, "unknown key '" + field.key + "', expected path or index");
      }
    }
    if (dataset.path.empty()) {
      return error(entry.value->mark, "expected a folder, or {path: …, index: …}");
    }
    return dataset;
  }

  Status ReadPlugins(const YamlNode& node, OptionTexts& texts) const {
    if (node.kind != YamlNode::Kind::kMap) {
      return Error(node.mark, "plugins: expected a map of name to folder, got " + node.Describe());
    }
    for (const YamlEntry& entry : node.entries) {
      MILLRACE_ASSIGN_OR_RETURN(PluginConfig plugin, ReadPlugin(entry));
      texts.plugins[entry.key] = {std::move(plugin), Where(entry.mark)};
    }
    return OkStatus();
  }

  /// Reads a folder, or {path: folder, python: …}.
  Result<PluginConfig> ReadPlugin(const YamlEntry& entry) const {
    PluginConfig plugin;
    plugin.name = entry.key;
    plugin.processes = 0;  // as many as the host has CPUs
    const YamlNode& node = *entry.value;
    if (node.kind == YamlNode::Kind::kScalar) plugin.path = node.scalar;
    for (const YamlEntry& field : node.entries) {
      const Status read = ReadPluginField(field, plugin);
      if (!read.ok()) {
        return Error(field.value->mark,
                     fmt::format("plugins.{}.{}: {}", entry.key, field.key, read.message()));
      }
    }
    if (plugin.path.empty()) {
      return Error(
          node.mark,
          fmt::format("plugins.{}: expected a folder, or {{path: …, python: …}}", entry.key));
    }
    return plugin;
  }

  static Status ReadPluginField(const YamlEntry& field, PluginConfig& plugin) {
    const YamlNode& value = *field.value;
    if (field.key == "env") {
      if (value.kind != YamlNode::Kind::kMap) {
        return InvalidArgument("expected a map of names to values, got " + value.Describe());
      }
      for (const YamlEntry& one : value.entries) {
        if (one.value->kind != YamlNode::Kind::kScalar) {
          return InvalidArgument(
              fmt::format("{}: expected one value, got {}", one.key, one.value->Describe()));
        }
        plugin.env[one.key] = one.value->scalar;
      }
      return OkStatus();
    }
    if (value.kind != YamlNode::Kind::kScalar) {
      return InvalidArgument("expected one value, got " + value.Describe());
    }
    if (field.key == "path") {
      plugin.path = value.scalar;
    } else if (field.key == "python") {
      plugin.python = value.scalar;
    } else if (field.key == "processes") {
      MILLRACE_ASSIGN_OR_RETURN(plugin.processes, ParseNumber<int>(value.scalar, {1, 1024}));
    } else if (field.key == "memory") {
      MILLRACE_ASSIGN_OR_RETURN(plugin.memory, ParseBytes(value.scalar));
    } else if (field.key == "start_timeout") {
      MILLRACE_ASSIGN_OR_RETURN(const int seconds, ParseNumber<int>(value.scalar, {1, 86400}));
      plugin.start_timeout = std::chrono::seconds(seconds);
    } else {
      return InvalidArgument(
          "unknown key, expected one of path, python, processes, memory, env, start_timeout");
    }
    return OkStatus();
  }

  const std::string path_;
  std::vector<std::string> keys_;
};

std::string PrintPlugin(const PluginConfig& plugin) {
  std::string text =
      fmt::format("path: {}, python: {}, processes: {}", YamlText(plugin.path.string()),
                  YamlText(plugin.python), plugin.processes);
  if (plugin.memory > 0) text += fmt::format(", memory: {}", plugin.memory);
  if (!plugin.env.empty()) {
    std::string env;
    for (const auto& [name, value] : plugin.env) {
      env += fmt::format("{}{}: {}", env.empty() ? "" : ", ", YamlText(name), YamlText(value));
    }
    text += fmt::format(", env: {{{}}}", env);
  }
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(plugin.start_timeout);
  return fmt::format("{{{}, start_timeout: {}}}", text, seconds.count());
}

}  // namespace

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
  return ConfigReader(path).Read(*root);
}

std::string PrintConfig(const DaemonOptions& options) {
  std::string out = fmt::format("# millraced {}\n", RoleName(options.role));
  for (const Option& option : OptionTable()) {
    if (!option.IsOf(options.role)) continue;
    out += fmt::format("{}: {}  # {}\n", option.parameter.name, YamlText(option.Print(options)),
                       option.Help());
  }
  if (!options.datasets.empty()) out += fmt::format("{}:\n", kDatasetsKey);
  for (const auto& [id, dataset] : options.datasets) {
    const std::string path =
        YamlText(FormatDatasetPlace({.kind = dataset.kind, .dir = dataset.path}));
    const std::string value = dataset.index.empty() ? path
                                                    : fmt::format("{{path: {}, index: {}}}", path,
                                                                  YamlText(dataset.index));
    out += fmt::format("  {}: {}\n", YamlText(id), value);
  }
  if (!options.plugins.empty()) out += fmt::format("{}:\n", kPluginsKey);
  for (const auto& [name, plugin] : options.plugins) {
    out += fmt::format("  {}: {}\n", YamlText(name), PrintPlugin(plugin));
  }
  return out;
}

}  // namespace millrace
