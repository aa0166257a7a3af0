// The options of `millraced`, from flags, a configuration file and defaults, and the code that
// makes one checked set of values from them. The options themselves are rows of the table in
// option_table.h.
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
#include "server/plugin/plugin_config.h"
#include "server/source/dataset_kind.h"

namespace millrace {

enum class Role : std::uint8_t { kDispatcher, kWorker, kServe };
std::string_view RoleName(Role role);

/// The place of a dataset on this host.
struct DatasetOption {
  std::string path;
  std::string index;      // empty: in the folder, or in the cache if the folder is read-only
  std::string kind = {};  // empty: found by looking at the folder
  bool in_memory = false;
};

/// A plugin's value in the configuration.
struct PluginText {
  PluginConfig plugin;
  std::string where;  // as in OptionText
};

/// The most threads that may build, whatever the host has.
inline constexpr int kMostThreads = 1024;

/// The options in force. MakeOptions fills them in. The defaults are in the option table.
struct DaemonOptions {
  Role role = Role::kServe;
  DatasetKinds kinds;        // of datasets that can be served
  std::string listen;        // control port, in the roles dispatcher and serve
  std::string batch_listen;  // batch port, in the roles worker and serve
  std::string advertise;     // address at which consumers reach the batch port; empty:
                             // batch_listen; port 0: its port
  std::string dispatcher;    // for a worker; several with commas between
  std::map<std::string, DatasetOption> datasets;
  std::map<std::string, PluginConfig> plugins;  // code that pipelines may name, by modules
  std::string metrics_listen;                   // HTTP; empty: no metrics
  bool metrics_page = false;                    // whether all who can connect may see the page
  bool metrics_tls = false;                     // whether metrics_listen speaks TLS
  std::string health_listen;                    // gRPC; empty: no health service
  std::string state;                            // folder of the embedded store
  std::string store;                            // etcd://…; empty: the embedded store in `state`
  std::uint64_t memory_limit = 0;               // bytes
  int threads = 0;
  bool threads_given = false;  // then they are not tuned
  bool tune = false;
  double grace = 0;           // seconds
  double attach_timeout = 0;  // seconds
  std::string name;
  LogLevel log_level = LogLevel::kInfo;
  bool log_json = false;
  bool shared_memory = false;
  bool skip_bad = false;
  std::string tls;                    // folder with ca.crt, tls.crt and tls.key; empty: no TLS
  std::string access;                 // access file; empty: certificates decide
  std::string etcd_tls;               // folder for etcds://; empty: no folder
  bool insecure = false;              // whether addresses beyond loopback may do without TLS
  std::string shared_memory_group;    // whose members are served on loopback; empty: no group
  std::string in_memory;              // ids of datasets that are copied into memory, with commas
  std::uint64_t cache_bytes = 0;      // memory for examples that pipelines with `cache` keep
  std::string cache_dir;              // folder for such examples; empty: no folder
  std::uint64_t cache_dir_bytes = 0;  // at most, in that folder

  /// The most bytes of built batches that a worker may hold before they are sent.
  std::uint64_t batch_memory() const { return memory_limit / 4; }
};

/// The given text of an option.
struct OptionText {
  std::string text;
  std::string where;  // "<file>:<line>:<column>"; empty: the command line
};

struct DatasetText {
  DatasetOption dataset;  // `path` is DIR or KIND:DIR, and `kind` is empty
  std::string where;      // as in OptionText
};

/// Options as they were given, without any check.
struct OptionTexts {
  std::map<std::string, OptionText> values;        // by Option::parameter.name
  std::map<std::string, DatasetText> datasets;     // by id
  std::map<std::string, PluginText> plugins = {};  // by name
};

/// Adds a dataset from the command line, `ID=DIR` or `ID=KIND:DIR`.
Status AddDataset(std::string_view text, OptionTexts& texts);

/// Adds a plugin from the command line, `NAME=FOLDER`.
Status AddPlugin(std::string_view text, OptionTexts& texts);

/// Checks the texts, converts them to values, and fills in defaults. InvalidArgument "<where>:
/// option <name>: expected …, got …"; also for a kind of dataset that is not among `kinds`.
/// NotFound if the folder of a dataset or of a plugin does not exist.
Result<DaemonOptions> MakeOptions(Role role, const OptionTexts& texts, const HostLimits& host,
                                  const DatasetKinds& kinds);

/// The options in force for a command line. `flags` override the configuration file, if there is
/// one, and the file overrides the defaults. The datasets of both are served.
Result<DaemonOptions> EffectiveOptions(Role role, const std::string& config_file,
                                       const OptionTexts& flags, const HostLimits& host,
                                       const DatasetKinds& kinds);

/// Names of the options, except the datasets, whose values differ.
std::vector<std::string> ChangedOptions(const DaemonOptions& before, const DaemonOptions& after);

/// The folder of the embedded store if the option `state` is not given.
std::string DefaultStateFolder();

}  // namespace millrace
