#include "server/daemon/option_table.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include <fmt/format.h>

#include "common/base/addresses.h"
#include "common/base/log_level_names.h"
#include "common/parameters/make_parameter.h"
#include "server/plan/text/pipeline.h"
#include "server/state/etcd/etcd_address.h"

namespace millrace {
namespace {

constexpr std::int64_t kDay = 86400;

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

const std::string& TextOf(const ParamValue& value) { return std::get<std::string>(value); }

Status Unexpected(std::string_view expected, std::string_view text) {
  return InvalidArgument(fmt::format("expected {}, got '{}'", expected, text));
}

Status CheckAddress(const std::string& text, int least_port) {
  if (IsHostPort(text, least_port)) return OkStatus();
  return Unexpected(fmt::format("host:port with a port from {} to 65535", least_port), text);
}

/// host:port to listen on; port 0 is any free port.
Status IsListenAddress(const ParamValue& value) { return CheckAddress(TextOf(value), 0); }

/// host:port to connect to; there may be several, with commas between.
Status IsPeerAddresses(const ParamValue& value) {
  for (const std::string& address : SplitAddresses(TextOf(value))) {
    MILLRACE_RETURN_IF_ERROR(CheckAddress(address, 1));
  }
  return OkStatus();
}

/// Ids of datasets, with commas between.
Status IsDatasetIds(const ParamValue& value) {
  for (const std::string& id : SplitAddresses(TextOf(value))) {
    if (!IsDatasetId(id)) return Unexpected("ids of datasets, with commas between", TextOf(value));
  }
  return OkStatus();
}

Status IsEtcdStoreAddress(const ParamValue& value) {
  return ParseEtcdAddress(TextOf(value)).status();
}

Status IsLongEnough(const ParamValue& value) {
  constexpr double kLeast = 0.1;
  const double seconds = std::get<double>(value);
  if (seconds >= kLeast) return OkStatus();
  return Unexpected(fmt::format("at least {} seconds", kLeast), fmt::format("{}", seconds));
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
  std::string flag = "--" + parameter.name;
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

std::string Option::Help() const {
  const bool bounded = parameter.min.value_or(0) > 0 || parameter.max;
  return fmt::format("{}{}{} [{}]", parameter.help, bounded ? ", " : "",
                     bounded ? Expected(parameter) : "", otherwise.shown);
}

const std::vector<Option>& OptionTable() {
  using enum Role;
  using O = DaemonOptions;
  const std::vector<Role> all = {kDispatcher, kWorker, kServe};
  const std::vector<Role> controls = {kDispatcher, kServe};
  const std::vector<Role> builds = {kWorker, kServe};
  static const std::vector<Option> table = {
      {TextParameter("listen", "host:port for trainers, workers and tools (control)",
                     IsListenAddress),
       controls, &O::listen, Fixed("127.0.0.1:7700")},
      {TextParameter("batch_listen", "host:port for batches", IsListenAddress), builds,
       &O::batch_listen, Fixed("127.0.0.1:7701")},
      {TextParameter("advertise",
                     "host:port at which consumers reach the batch port, port 0 for that of "
                     "batch_listen; needed if batch_listen is a wildcard",
                     IsListenAddress),
       builds, &O::advertise, None("batch_listen")},
      {TextParameter("dispatcher", "host:port of the dispatcher; several have commas between them",
                     IsPeerAddresses),
       {kWorker},
       &O::dispatcher,
       Fixed("127.0.0.1:7700")},
      {TextParameter("metrics_listen",
                     "host:port for HTTP: /metrics for Prometheus, and / for people",
                     IsListenAddress),
       all, &O::metrics_listen, None("none")},
      {BoolParameter("metrics_page",
                     "true: everybody who can connect to that port may see the page, not only "
                     "users of this host"),
       all, &O::metrics_page, Fixed("false")},
      {BoolParameter(
           "metrics_tls",
           "true: that port speaks TLS, and operators and viewers may see the page; needs tls"),
       all, &O::metrics_tls, Fixed("false")},
      {TextParameter("health_listen", "host:port for probes, grpc.health.v1", IsListenAddress), all,
       &O::health_listen, None("none")},
      {TextParameter("state", "folder of the embedded state store"), controls, &O::state,
       OfHost("$XDG_STATE_HOME/millrace, or ~/.local/state/millrace",
              [](const HostLimits&) { return DefaultStateFolder(); })},
      {TextParameter("store",
                     "etcd://host:port,host:port/prefix (etcds:// for TLS): the state of several "
                     "dispatchers, of which one leads",
                     IsEtcdStoreAddress),
       {kDispatcher},
       &O::store,
       None("the embedded store")},
      {TextParameter("etcd_tls",
                     "folder for a store at etcds://: ca.crt, and tls.crt and tls.key, or username "
                     "and password"),
       {kDispatcher},
       &O::etcd_tls,
       None("none")},
      {BytesParameter("memory_limit",
                      "bytes (also 300MB, 4GiB) that the process may use besides the page cache",
                      16 << 20),
       builds, &O::memory_limit, OfHost("80 % of the machine's or the cgroup's", &DefaultMemory)},
      {BytesParameter("cache_bytes",
                      "bytes of that limit for what pipelines with `cache` keep of examples"),
       builds, &O::cache_bytes, None("a quarter of memory_limit")},
      {TextParameter("cache_dir",
                     "folder in which pipelines with `cache: {examples: disk}` keep examples"),
       builds, &O::cache_dir, None("none")},
      {BytesParameter("cache_dir_bytes",
                      "bytes that this folder may have; several workers can share one"),
       builds, &O::cache_dir_bytes, Fixed("16GiB")},
      {TextParameter("in_memory",
                     "graph datasets that are copied into memory, in huge pages and beside "
                     "memory_limit; several have commas between them",
                     IsDatasetIds),
       builds, &O::in_memory, None("none")},
      {IntParameter("threads", "batches built at once; tuned up to this number unless it is given",
                    1, kMostThreads),
       builds, &O::threads, OfHost("the CPUs of affinity and cgroup", &DefaultThreads)},
      {WithWords(BoolParameter("tune",
                               "off: settings stay as they are at first; on: those that are not "
                               "given are tuned"),
                 {"on", "off"}),
       builds, &O::tune, Fixed("on")},
      {TextParameter("tls",
                     "folder with ca.crt, tls.crt and tls.key; all peers then need certificates of "
                     "that CA"),
       all, &O::tls,
       OfHost("$MILLRACE_TLS, or none", [](const HostLimits&) { return TlsOfEnvironment(); })},
      {TextParameter("access", "file that says what names and tokens may do; needs tls"), all,
       &O::access, None("none")},
      {BoolParameter(
           "insecure",
           "true: listen beyond loopback without TLS, so that everybody there can do everything"),
       all, &O::insecure, Fixed("false")},
      {TextParameter("shared_memory_group",
                     "group of this host whose members are served on loopback and in shared "
                     "memory, beside the daemon's own user and root"),
       all, &O::shared_memory_group, None("none")},
      {BoolParameter(
           "shared_memory",
           "consumers of this host read batches where they are built; false: over the network"),
       builds, &O::shared_memory, Fixed("true")},
      {BoolParameter("skip_bad",
                     "true: index datasets without bad files and those that need them, as if they "
                     "did not exist"),
       all, &O::skip_bad, Fixed("false")},
      {SecondsParameter("grace", "seconds to finish what is owed after SIGTERM", kDay), all,
       &O::grace, Fixed("10")},
      {WithCheck(SecondsParameter("attach_timeout",
                                  "seconds that a trainer waits for a job that others hold", kDay),
                 IsLongEnough),
       controls, &O::attach_timeout, Fixed("60")},
      {TextParameter("name", "name of this process in status and logs"), all, &O::name,
       OfHost("host:pid", [](const HostLimits&) { return Whereabouts(); })},
      {WordParameter("log_level", "debug, info, warning, error or off",
                     {kLogLevelNames.begin(), kLogLevelNames.end()}),
       all, &O::log_level, Fixed("info")},
      {BoolParameter("log_json", "one JSON object a log line"), all, &O::log_json, Fixed("false")},
  };
  return table;
}

}  // namespace millrace
