// A plugin in the configuration of a daemon, and an object of it as a pipeline names it.
//
// Values and free functions; thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/plugin_id.h"
#include "common/base/result.h"
#include "common/base/time.h"
#include "common/tensor/tensor_type.h"
#include "server/plugin/reply/chance_key.h"

namespace millrace {

/// A module that pipelines may name.
struct PluginConfig {
  std::string name;                        // of the module: NAME.py or NAME/ in `path`
  std::filesystem::path path;              // a folder
  std::string python = "python3";          // a path, or a name that is searched in PATH
  int processes = 1;                       // at most
  bool processes_given = true;             // false: as few as suffice (docs/guides/tuning.md)
  std::uint64_t memory = 0;                // bytes of one process; 0: no limit
  std::map<std::string, std::string> env;  // besides the daemon's; overrides Millrace's own values
  Duration start_timeout = std::chrono::seconds(600);  // of an import, and of a constructor
};

/// Reads `NAME=PATH`. InvalidArgument says what is missing.
Result<PluginConfig> ParsePlugin(std::string_view text);

/// InvalidArgument, NotFound or PermissionDenied if the name is not the name of a module, a number
/// is out of range, the path has no such module, or `python` is not there or cannot be run. Python
/// is not started: PluginPool::Start finds further errors.
Status CheckPlugin(const PluginConfig& plugin);

/// The path of `python`: itself if it has a slash, otherwise where PATH has it.
Result<std::string> FindPython(const std::string& python);

/// NAME=VALUE of the whole environment of the plugin's processes.
std::vector<std::string> PluginEnvironment(const PluginConfig& plugin);

/// An input or output of a function.
struct PluginTensor {
  std::string name;
  TensorType type;
};

/// An object that a pipeline names: `module:name`, and how it is to be used.
struct PluginObject {
  enum class Kind : std::uint8_t { kSource, kFunction };

  Kind kind = Kind::kSource;
  std::string module;  // the plugin's name
  std::string name;
  std::string args = "{}";        // a JSON object
  std::string folder;             // given to a source as `folder`; empty: no folder
  bool per_batch = false;         // a function gets all rows at once
  bool random = false;            // random, numpy.random and torch are seeded before each example
  std::vector<std::string> drop;  // names of exceptions that drop an example
  Duration timeout = std::chrono::seconds(60);  // of one example
  std::vector<PluginTensor> inputs;             // of a function: given as arguments of these names
  std::vector<PluginTensor> outputs;            // of a function; a source declares its own
  ChanceOrigin chance;                          // of the keys of generators

  /// "asr_data:Corpus"
  std::string ToString() const { return module + ":" + name; }
};

/// Reads `module:name`. InvalidArgument if it is not of this form, or the name has a dot.
Result<PluginObject> ParsePluginObject(std::string_view text);

/// InvalidArgument if `object` contradicts itself or the plugin.
Status CheckPluginObject(const PluginObject& object, const PluginConfig& plugin);

}  // namespace millrace
