#include "server/daemon/config_file.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "server/daemon/option_table.h"
#include "server/pipeline/text/param_value.h"
#include "server/pipeline/text/yaml_reader.h"
#include "server/yaml/yaml_writer.h"

namespace millrace {
namespace {

/// Reads one file.
class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path) {
    keys_.emplace_back(kDatasetsKey);
    for (const Option& option : OptionTable()) keys_.push_back(option.name);
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
    for (const YamlEntry& part : entry.value->entries) {
      if (part.value->kind != YamlNode::Kind::kScalar) {
        return error(part.value->mark, "expected a path, got " + part.value->Describe());
      }
      if (part.key == "path") {
        dataset.path = part.value->scalar;
      } else if (part.key == "index") {
        dataset.index = part.value->scalar;
      } else {
        return error(part.mark, "unknown key '" + part.key + "', expected path or index");
      }
    }
    if (dataset.path.empty()) {
      return error(entry.value->mark, "expected a folder, or {path: …, index: …}");
    }
    return dataset;
  }

  const std::string path_;
  std::vector<std::string> keys_;
};

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
  return Reader(path).Read(*root);
}

std::string PrintConfig(const DaemonOptions& options) {
  std::string out = fmt::format("# millraced {}\n", RoleName(options.role));
  for (const Option& option : OptionTable()) {
    if (!option.IsOf(options.role)) continue;
    out += fmt::format("{}: {}  # {}\n", option.name, YamlText(option.value.print(options)),
                       option.Help());
  }
  out += fmt::format("{}:\n", kDatasetsKey);
  for (const auto& [id, dataset] : options.datasets) {
    const std::string path =
        YamlText(FormatDatasetPlace({.kind = dataset.kind, .dir = dataset.path}));
    const std::string value = dataset.index.empty() ? path
                                                    : fmt::format("{{path: {}, index: {}}}", path,
                                                                  YamlText(dataset.index));
    out += fmt::format("  {}: {}\n", YamlText(id), value);
  }
  return out;
}

}  // namespace millrace
