// What `millraced` can be told: one table of options, each a key of the YAML configuration and a
// flag.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
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

/// One line of the option table. Values are texts here; DaemonOptions has them typed.
struct OptionSpec {
  std::string name;  // YAML key with '_'; the flag has '-'
  std::string help;
  std::string default_value;  // as it is shown; empty: see `help`
  std::vector<Role> roles;    // that know it
};
const std::vector<OptionSpec>& OptionTable();

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
  int threads = 1;
  double grace = 10;           // seconds
  double attach_timeout = 60;  // seconds
  std::string name;
  LogLevel log_level = LogLevel::kInfo;
  bool log_json = false;
  bool shared_memory = true;
  bool skip_bad = false;

  /// Bytes of batches that a worker may hold built and unsent.
  std::uint64_t batch_memory() const { return memory_limit / 4; }
};

/// Texts of options as given: by the configuration file first, by flags over it.
struct OptionTexts {
  std::map<std::string, std::string> values;  // by OptionSpec::name
  std::map<std::string, DatasetOption> datasets;
};

/// Reads a configuration file. InvalidArgument "<file>:<line>:<column>: …" for unknown keys (with
/// the known ones), duplicates and wrong types; NotFound where there is no such file.
Result<OptionTexts> ReadConfigFile(const std::string& path);

/// `ID=DIR` as a dataset.
Status AddDataset(std::string_view text, OptionTexts& texts);

/// Checks and types the texts, and fills in defaults from the host's limits.
Result<DaemonOptions> MakeOptions(Role role, const OptionTexts& texts, const HostLimits& host);

/// Where the embedded store lies unless `state` says otherwise.
std::string DefaultStateFolder();
/// Names of the options, datasets aside, whose values differ.
std::vector<std::string> ChangedOptions(const DaemonOptions& before, const DaemonOptions& after);

/// The effective options as a configuration file.
std::string PrintConfig(const DaemonOptions& options);

/// "1.5GiB", "300MB", "4096" as bytes.
Result<std::uint64_t> ParseBytes(std::string_view text);

}  // namespace millrace
