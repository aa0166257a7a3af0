#include "server/daemon/option_table.h"

#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>

namespace millrace {
namespace {

constexpr double kDay = 86400;

OptionDefault Fixed(const std::string& text) {
  return {text, [text](const HostLimits&) { return text; }, true};
}

OptionDefault None(const std::string& shown) {
  return {shown, [](const HostLimits&) { return std::string(); }};
}

OptionDefault OfHost(const std::string& shown, std::function<std::string(const HostLimits&)> text) {
  return {shown, std::move(text)};
}

std::string TlsOfEnvironment() {
  const char* const folder = std::getenv("MILLRACE_TLS");
  return folder == nullptr ? "" : folder;
}

std::string DefaultThreads(const HostLimits& host) {
  return std::to_string(std::min(host.cpus, kMostThreads));
}

std::string DefaultMemory(const HostLimits& host) {
  return std::to_string(host.memory_bytes / 5 * 4);
}

}  // namespace

bool Option::IsOf(Role role) const {
  return std::find(roles.begin(), roles.end(), role) != roles.end();
}

std::string Option::Flag() const {
  std::string flag = "--" + name;
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

std::string Option::Help() const {
  return fmt::format("{}{}{} [{}]", help, value.bounds.empty() ? "" : ", ", value.bounds,
                     otherwise.shown);
}

const std::vector<Option>& OptionTable() {
  using enum Role;
  using O = DaemonOptions;
  static const std::vector<Option> table = {
      {"listen",
       {kDispatcher, kServe},
       ListenAddress(&O::listen),
       Fixed("127.0.0.1:7700"),
       "host:port for trainers, workers and tools (control)"},
      {"batch_listen",
       {kWorker, kServe},
       ListenAddress(&O::batch_listen),
       Fixed("127.0.0.1:7701"),
       "host:port for batches"},
      {"advertise",
       {kWorker, kServe},
       ListenAddress(&O::advertise),
       None("batch_listen"),
       "host:port at which consumers reach the batch port, port 0 for that of batch_listen; needed "
       "if batch_listen is a wildcard"},
      {"dispatcher",
       {kWorker},
       PeerAddresses(&O::dispatcher),
       Fixed("127.0.0.1:7700"),
       "host:port of the dispatcher; several have commas between them"},
      {"metrics_listen",
       {kDispatcher, kWorker, kServe},
       ListenAddress(&O::metrics_listen),
       None("none"),
       "host:port for HTTP: /metrics for Prometheus, and / for people"},
      {"metrics_page",
       {kDispatcher, kWorker, kServe},
       Switch(&O::metrics_page),
       Fixed("false"),
       "true: everybody who can connect to that port may see the page, not only users of this host"},
      {"metrics_tls",
       {kDispatcher, kWorker, kServe},
       Switch(&O::metrics_tls),
       Fixed("false"),
       "true: that port speaks TLS, and operators and viewers may see the page; needs tls"},
      {"health_listen",
       {kDispatcher, kWorker, kServe},
       ListenAddress(&O::health_listen),
       None("none"),
       "host:port for probes, grpc.health.v1"},
      {"state",
       {kDispatcher, kServe},
       Text(&O::state),
       OfHost("$XDG_STATE_HOME/millrace, or ~/.local/state/millrace",
              [](const HostLimits&) { return DefaultStateFolder(); }),
       "folder of the embedded state store"},
      {"store",
       {kDispatcher},
       EtcdStoreAddress(&O::store),
       None("the embedded store"),
       "etcd://host:port,host:port/prefix (etcds:// for TLS): the state of several dispatchers, of "
       "which one leads"},
      {"etcd_tls",
       {kDispatcher},
       Text(&O::etcd_tls),
       None("none"),
       "folder for a store at etcds://: ca.crt, and tls.crt and tls.key, or username and password"},
      {"memory_limit",
       {kWorker, kServe},
       Memory(&O::memory_limit, 16),
       OfHost("80 % of the machine's or the cgroup's", &DefaultMemory),
       "bytes (also 300MB, 4GiB) that the process may use besides the page cache"},
      {"cache_bytes",
       {kWorker, kServe},
       Bytes(&O::cache_bytes),
       None("a quarter of memory_limit"),
       "bytes of that limit for what pipelines with `cache` keep of examples"},
      {"cache_dir",
       {kWorker, kServe},
       Text(&O::cache_dir),
       None("none"),
       "folder in which pipelines with `cache: {examples: disk}` keep examples"},
      {"cache_dir_bytes",
       {kWorker, kServe},
       Bytes(&O::cache_dir_bytes),
       Fixed("16GiB"),
       "bytes that this folder may have; several workers can share one"},
      {"in_memory",
       {kWorker, kServe},
       DatasetIds(&O::in_memory),
       None("none"),
       "graph datasets that are copied into memory, in huge pages and beside memory_limit; several "
       "have commas between them"},
      {"threads",
       {kWorker, kServe},
       Whole(&O::threads, 1, kMostThreads),
       OfHost("the CPUs of affinity and cgroup", &DefaultThreads),
       "batches built at once; tuned up to this number unless it is given"},
      {"tune",
       {kWorker, kServe},
       OnOff(&O::tune),
       Fixed("on"),
       "off: settings stay as they are at first; on: those that are not given are tuned"},
      {"tls",
       {kDispatcher, kWorker, kServe},
       Text(&O::tls),
       OfHost("$MILLRACE_TLS, or none", [](const HostLimits&) { return TlsOfEnvironment(); }),
       "folder with ca.crt, tls.crt and tls.key; all peers then need certificates of that CA"},
      {"access",
       {kDispatcher, kWorker, kServe},
       Text(&O::access),
       None("none"),
       "file that says what names and tokens may do; needs tls"},
      {"insecure",
       {kDispatcher, kWorker, kServe},
       Switch(&O::insecure),
       Fixed("false"),
       "true: listen beyond loopback without TLS, so that everybody there can do everything"},
      {"shared_memory_group",
       {kDispatcher, kWorker, kServe},
       Text(&O::shared_memory_group),
       None("none"),
       "group of this host whose members are served on loopback and in shared memory, beside the "
       "daemon's own user and root"},
      {"shared_memory",
       {kWorker, kServe},
       Switch(&O::shared_memory),
       Fixed("true"),
       "consumers of this host read batches where they are built; false: over the network"},
      {"skip_bad",
       {kDispatcher, kWorker, kServe},
       Switch(&O::skip_bad),
       Fixed("false"),
       "true: index datasets without bad files and those that need them, as if they did not exist"},
      {"grace",
       {kDispatcher, kWorker, kServe},
       Seconds(&O::grace, 0, kDay),
       Fixed("10"),
       "seconds to finish what is owed after SIGTERM"},
      {"attach_timeout",
       {kDispatcher, kServe},
       Seconds(&O::attach_timeout, 0.1, kDay),
       Fixed("60"),
       "seconds that a trainer waits for a job that others hold"},
      {"name",
       {kDispatcher, kWorker, kServe},
       Text(&O::name),
       OfHost("host:pid", [](const HostLimits&) { return Whereabouts(); }),
       "name of this process in status and logs"},
      {"log_level",
       {kDispatcher, kWorker, kServe},
       Level(&O::log_level),
       Fixed("info"),
       "debug, info, warning, error or off"},
      {"log_json",
       {kDispatcher, kWorker, kServe},
       Switch(&O::log_json),
       Fixed("false"),
       "one JSON object a log line"},
  };
  return table;
}

}  // namespace millrace
