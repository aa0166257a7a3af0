// Reads the messages of a process of a plugin. They are JSON; nothing in them is trusted.
//
// Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "server/plugin/reply/plugin_failure.h"

namespace millrace {

/// The answer of a process that has imported the module.
struct ImportedMessage {
  std::uint64_t threads = 0;  // how many the process has
  std::string python;         // "3.11.2"
  std::string numpy;
};

/// The answer of a process that has found or constructed its object.
struct OpenedMessage {
  struct Tensor {
    std::string name;
    std::string type;  // as the plugin writes it
  };
  std::vector<Tensor> spec;  // empty for functions
  std::uint64_t length = 0;
};

struct FactsMessage {
  struct Column {
    std::string name;
    std::string dtype;  // "int64" or "float64"; empty if the values are not known
  };
  std::vector<Column> columns;
  std::optional<std::string> digest;
  bool has_version = false;
  bool uses_chance = false;
  std::string environment;
};

/// Where a process has put a range of a column: `place` is an offset in its memory.
struct ColumnMessage {
  std::uint64_t place = 0;
  std::string dtype;
};

/// The rows that a process could not build, each with the reason.
struct BuiltMessage {
  struct Failure {
    std::optional<std::uint64_t> row;  // nullopt: all rows
    PluginFailure failure;
  };
  std::vector<Failure> failures;
};

/// A plugin's own error, outside an example. The text is for its author, with the traceback after
/// the first line if there is one.
///
/// Every function below returns it as FailedPrecondition if `text` is such a message, and Internal
/// if it is not a message of the requested kind.
Result<ImportedMessage> ReadImported(std::string_view text);
Result<OpenedMessage> ReadOpened(std::string_view text);
Result<FactsMessage> ReadFacts(std::string_view text);
Result<ColumnMessage> ReadColumn(std::string_view text);
Result<std::vector<std::string>> ReadVersions(std::string_view text);
/// Failures are of rows below `rows`.
Result<BuiltMessage> ReadBuilt(std::string_view text, std::uint64_t rows);
/// The process id of a process that was forked.
Result<std::int32_t> ReadForked(std::string_view text);
/// The status of a process that has ended, as waitpid gives it.
Result<std::int32_t> ReadReaped(std::string_view text);

}  // namespace millrace
