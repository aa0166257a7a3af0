#include "client/session_option_table.h"

#include <algorithm>
#include <cassert>
#include <limits>

#include <fmt/format.h>

#include "common/base/addresses.h"
#include "common/base/protocol_limits.h"
#include "common/parameters/make_parameter.h"

namespace millrace {
namespace {

using Options = SessionOptions;

constexpr std::int64_t kMaxUint32 = std::numeric_limits<std::uint32_t>::max();

Status IsAddresses(const ParamValue& value) {
  return CheckAddresses("address", std::get<std::string>(value));
}

}  // namespace

const std::vector<SessionOption>& SessionOptionTable() {
  static const std::vector<SessionOption> table = {
      {TextParameter(
           "address",
           "the control port of the dispatcher; several dispatchers have commas between them",
           IsAddresses),
       &Options::address, "--address", "HOST:PORT"},
      {TextParameter(
           "tls",
           "folder with ca.crt, and tls.crt and tls.key or token; default: that of MILLRACE_TLS"),
       &Options::tls, "--tls", "DIR", true},
      {TextParameter(
           "job",
           "name of the job: the same for all ranks, and not the name of another running job"),
       &Options::job, "--job", "NAME"},
      {TextParameter("pipeline", "the pipeline's YAML text"), &Options::pipeline},
      {TextParameter("pipeline_file", "the pipeline's YAML file"), &Options::pipeline_file},
      {TextParameter("variant", "variant of the pipeline"), &Options::variant, "--variant", "NAME"},
      {MayBeEmpty(TextsParameter("overrides", "change one key of the pipeline, KEY=VALUE")),
       &Options::overrides, "--set", "KEY=VALUE"},
      {IntParameter("rank", "the rank that takes the batches, counted from 0", 0,
                    kMaxWorldSize - 1),
       &Options::rank},
      {IntParameter("world_size", "ranks of the job", 1, kMaxWorldSize), &Options::world_size,
       "--world-size", "W"},
      {IntParameter("replica", "replica of the ranks: replicas of one rank read the same batches",
                    0, kMaxUint32),
       &Options::replica, "--replica", "R"},
      {IntParameter("epochs", "epochs to read, counting the one that it starts in; 0: no end", 0,
                    kMaxUint32),
       &Options::epochs, "--epochs", "N"},
      {TextParameter("cursor", "where to go on"), &Options::cursor, "--cursor", "CURSOR"},
      {BoolParameter("any_start", "other ranks may have other cursors"), &Options::any_start,
       "--any-start", "", true},
      {IntParameter("priority",
                    "workers divide their time between waiting jobs in proportion to it", 1,
                    kMaxPriority),
       &Options::priority, "--priority", "WEIGHT", true},
      {WordParameter("index_dtype", "type of delivered numbers, int32 or int64",
                     {"int32", "int64"}),
       &Options::index_dtype, "--index-dtype", "TYPE", true},
      {IntParameter("micro", "parts that each batch comes in, for gradients that are accumulated",
                    1, kMaxUint32),
       &Options::micro, "", "", true},
      {BytesParameter("prefetch_bytes", "packed bytes received ahead of each rank, at most"),
       &Options::prefetch_bytes, "--prefetch-bytes", "BYTES", true},
      {BoolParameter("tune",
                     "receive fewer bytes ahead where the loop does not wait because of that"),
       &Options::tune, "--no-tune", "", true},
      {BoolParameter("packed", "keep the packed form of batches too"), &Options::packed, "--packed",
       "", true},
      {BoolParameter(
           "shared_memory",
           "read batches of workers on this host where they were built, if that is possible"),
       &Options::shared_memory, "--no-shared-memory", "", true},
      {WordParameter("compression", "how workers compress batches for thin links",
                     {"zstd", "lz4", "off"}),
       &Options::compression, "--compression", "CODEC", true},
      {TextParameter("device",
                     "where tensors are delivered: host, or cuda:0, a GPU of this machine"),
       &Options::device},
      {IntParameter("expanded_batches",
                    "batches that lie expanded on the device ahead of the loop"),
       &Options::expanded_batches, "", "", true},
      {BytesParameter("expanded_bytes", "bytes that lie expanded on the device ahead of the loop"),
       &Options::expanded_bytes, "", "", true},
      {BoolParameter("keep_freed_memory", "malloc keeps freed memory, for the whole process"),
       &Options::keep_freed_memory},
      {SecondsParameter("connect_timeout", "seconds until a dispatcher has to answer"),
       &Options::connect_timeout_seconds, "--connect-timeout", "SECONDS", true},
      {SecondsParameter("attach_timeout",
                        "seconds until the dispatcher has to let the ranks in; 0: no limit"),
       &Options::attach_timeout_seconds, "--attach-timeout", "SECONDS", true},
      {SecondsParameter("read_timeout",
                        "seconds until a batch has to come that the loop waits for; 0: no limit"),
       &Options::read_timeout_seconds, "--read-timeout", "SECONDS", true},
  };
  return table;
}

Status SessionOption::Set(const ParamValue& value, SessionOptions& options) const {
  if (!IsTaken(parameter, value)) {
    const bool is_text = std::holds_alternative<std::string>(value);
    return InvalidArgument(fmt::format("{}: expected {}, got {}{}{}", parameter.name,
                                       Expected(parameter), is_text ? "'" : "",
                                       PlainText(parameter, value), is_text ? "'" : ""));
  }
  if (parameter.check) MILLRACE_RETURN_IF_ERROR(parameter.check(value));
  member.Set(value, options);
  return OkStatus();
}

const SessionOption& FindSessionOption(std::string_view name) {
  const auto& table = SessionOptionTable();
  const auto found = std::find_if(table.begin(), table.end(), [name](const SessionOption& option) {
    return option.parameter.name == name;
  });
  assert(found != table.end());
  return *found;
}

}  // namespace millrace
