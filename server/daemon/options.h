// What `millraced` is told, by flags, by a configuration file and by defaults, and how that becomes
// one checked set of values. The options themselves are rows of the table in option_table.h.
//
// Values and free functions; thread-compatible.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/log.h"
#include "common/base/result.h"
#include "common/system/host.h"

namespace millrace {

enum class Role : std::uint8_t { kDispatcher, kWorker, kServe };
std::string_view RoleName(Role role);

/// Where a dataset lies on this host.
struct DatasetOption {
  std::string path;
  std::string index;  // empty: in the folder, or in the cache where that is read-only
};

/// Options as they are in force. MakeOptions fills them in; defaults are in the table.
struct DaemonOptions {
  Role role = Role::kServe;
  std::string listen;        // control: dispatcher and serve
  std::string batch_listen;  // batches: worker and serve
  std::string advertise;   // address of the batch port, as consumers reach it; empty: batch_listen
  std::string dispatcher;  // of a worker; several with commas between them
  std::map<std::string, DatasetOption> datasets;
  std::string metrics_listen;      // HTTP; empty: none
  std::string health_listen;       // gRPC; empty: none
  std::string state;               // folder
  std::string store;               // etcd://…; empty: the embedded store in `state`
  std::uint64_t memory_limit = 0;  // bytes
  int threads = 0;
  double grace = 0;           // seconds
  double attach_timeout = 0;  // seconds
  std::string name;
  LogLevel log_level = LogLevel::kInfo;
  bool log_json = false;
  bool shared_memory = false;
  bool skip_bad = false;

  /// Bytes of batches that a worker may hold built and unsent.
  std::uint64_t batch_memory() const { return memory_limit / 4; }
};

/// What somebody gave for an option.
struct OptionText {
  std::string text;
  std::string where;  // "<file>:<line>:<column>"; empty: on the command line
};

struct DatasetText {
  DatasetOption dataset;
  std::string where;  // as above
};

/// Options as they were given, before anything is checked.
struct OptionTexts {
  std::map<std::string, OptionText> values;     // by Option::name
  std::map<std::string, DatasetText> datasets;  // by id
};

/// Takes `ID=DIR` as a dataset of the command line.
Status AddDataset(std::string_view text, OptionTexts& texts);

/// Checks and types the texts, and fills in defaults. InvalidArgument "<where>: option <name>:
/// expected …, got …"; NotFound for a dataset without a folder.
Result<DaemonOptions> MakeOptions(Role role, const OptionTexts& texts, const HostLimits& host);

/// The options of a command line: `flags` win over the configuration file, if one is given, and
/// that wins over the defaults. Datasets of both are served.
Result<DaemonOptions> EffectiveOptions(Role role, const std::string& config_file,
                                       const OptionTexts& flags, const HostLimits& host);

/// Names of the options, datasets aside, whose values differ.
std::vector<std::string> ChangedOptions(const DaemonOptions& before, const DaemonOptions& after);

/// Where the embedded store lies if `state` does not say.
std::string DefaultStateFolder();

}  // namespace millrace
