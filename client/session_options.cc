#include "client/session_options.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <limits>
#include <type_traits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/base/addresses.h"
#include "common/base/parse_number.h"
#include "common/base/protocol_limits.h"
#include "common/compression/compression.h"

namespace millrace {
namespace {

using Options = SessionOptions;

constexpr std::uint64_t kMaxUint32 = std::numeric_limits<std::uint32_t>::max();

constexpr SessionOption kTable[] = {
    {.name = "address",
     .member = &Options::address,
     .help = "the control port of the dispatcher; several dispatchers have commas between them",
     .flag = "--address",
     .type_name = "HOST:PORT",
     .check = CheckAddresses},
    {.name = "tls",
     .member = &Options::tls,
     .help = "folder with ca.crt, and tls.crt and tls.key or token; default: that of MILLRACE_TLS",
     .flag = "--tls",
     .type_name = "DIR",
     .keyword = true},
    {.name = "job",
     .member = &Options::job,
     .help = "name of the job: the same for all ranks, and not the name of another running job",
     .flag = "--job",
     .type_name = "NAME"},
    {.name = "pipeline", .member = &Options::pipeline, .help = "the pipeline's YAML text"},
    {.name = "pipeline_file",
     .member = &Options::pipeline_file,
     .help = "the pipeline's YAML file"},
    {.name = "variant",
     .member = &Options::variant,
     .help = "variant of the pipeline",
     .flag = "--variant",
     .type_name = "NAME"},
    {.name = "overrides",
     .member = &Options::overrides,
     .help = "change one key of the pipeline, KEY=VALUE",
     .flag = "--set",
     .type_name = "KEY=VALUE"},
    {.name = "rank",
     .member = &Options::rank,
     .help = "the rank that takes the batches, counted from 0",
     .max = kMaxWorldSize - 1},
    {.name = "world_size",
     .member = &Options::world_size,
     .help = "ranks of the job",
     .flag = "--world-size",
     .type_name = "W",
     .min = 1,
     .max = kMaxWorldSize},
    {.name = "replica",
     .member = &Options::replica,
     .help = "replica of the ranks: replicas of one rank read the same batches",
     .flag = "--replica",
     .type_name = "R",
     .max = kMaxUint32},
    {.name = "epochs",
     .member = &Options::epochs,
     .help = "epochs to read, counting the one that it starts in; 0: no end",
     .flag = "--epochs",
     .type_name = "N",
     .max = kMaxUint32},
    {.name = "cursor",
     .member = &Options::cursor,
     .help = "where to go on",
     .flag = "--cursor",
     .type_name = "CURSOR"},
    {.name = "any_start",
     .member = &Options::any_start,
     .help = "other ranks may have other cursors",
     .flag = "--any-start",
     .keyword = true},
    {.name = "priority",
     .member = &Options::priority,
     .help = "workers divide their time between waiting jobs in proportion to it",
     .flag = "--priority",
     .type_name = "WEIGHT",
     .keyword = true,
     .min = 1,
     .max = kMaxPriority},
    {.name = "index_dtype",
     .member = &Options::index_dtype,
     .help = "type of delivered numbers, int32 or int64",
     .flag = "--index-dtype",
     .type_name = "TYPE",
     .keyword = true},
    {.name = "micro",
     .member = &Options::micro,
     .help = "parts that each batch comes in, for gradients that are accumulated",
     .keyword = true,
     .min = 1,
     .max = kMaxUint32},
    {.name = "prefetch_bytes",
     .member = &Options::prefetch_bytes,
     .help = "packed bytes received ahead of each rank, at most",
     .flag = "--prefetch-bytes",
     .type_name = "BYTES",
     .keyword = true},
    {.name = "tune",
     .member = &Options::tune,
     .help = "receive fewer bytes ahead where the loop does not wait because of that",
     .flag = "--no-tune",
     .keyword = true},
    {.name = "packed",
     .member = &Options::packed,
     .help = "keep the packed form of batches too",
     .flag = "--packed",
     .keyword = true},
    {.name = "shared_memory",
     .member = &Options::shared_memory,
     .help = "read batches of workers on this host where they were built, if that is possible",
     .flag = "--no-shared-memory",
     .keyword = true},
    {.name = "compression",
     .member = &Options::compression,
     .help = "how workers compress batches for thin links: zstd, lz4 or off",
     .flag = "--compression",
     .type_name = "CODEC",
     .keyword = true,
     .check = CheckCompression},
    {.name = "device",
     .member = &Options::device,
     .help = "where tensors are delivered: host, or cuda:0, a GPU of this machine"},
    {.name = "expanded_batches",
     .member = &Options::expanded_batches,
     .help = "batches that lie expanded on the device ahead of the loop",
     .keyword = true},
    {.name = "expanded_bytes",
     .member = &Options::expanded_bytes,
     .help = "bytes that lie expanded on the device ahead of the loop",
     .keyword = true},
    {.name = "keep_freed_memory",
     .member = &Options::keep_freed_memory,
     .help = "malloc keeps freed memory, for the whole process"},
    {.name = "connect_timeout",
     .member = &Options::connect_timeout_seconds,
     .help = "seconds until a dispatcher has to answer",
     .flag = "--connect-timeout",
     .type_name = "SECONDS",
     .keyword = true},
    {.name = "attach_timeout",
     .member = &Options::attach_timeout_seconds,
     .help = "seconds until the dispatcher has to let the ranks in; 0: no limit",
     .flag = "--attach-timeout",
     .type_name = "SECONDS",
     .keyword = true},
    {.name = "read_timeout",
     .member = &Options::read_timeout_seconds,
     .help = "seconds until a batch has to come that the loop waits for; 0: no limit",
     .flag = "--read-timeout",
     .type_name = "SECONDS",
     .keyword = true},
};

template <class T>
constexpr bool kIsWhole = std::is_same_v<T, std::uint32_t> || std::is_same_v<T, std::uint64_t>;

/// Calls `visit` with the pointer to the option's member, and with a value of the member's type.
template <class Visit>
auto VisitMember(const SessionOption& option, Visit visit) {
  return std::visit([&]<class T>(T SessionOptions::*member) { return visit(member, T()); },
                    option.member);
}

Status Unexpected(const SessionOption& option, std::string_view got) {
  return InvalidArgument(
      fmt::format("{}: expected {}, got {}", option.name, option.Expected(), got));
}

}  // namespace

std::string SessionOption::Expected() const {
  return VisitMember(*this, [this]<class T>(T SessionOptions::*, T) -> std::string {
    if constexpr (std::is_same_v<T, bool>) {
      return "True or False";
    } else if constexpr (kIsWhole<T>) {
      // The largest number of the type is no bound that anybody has set.
      if (max == std::numeric_limits<std::uint64_t>::max()) {
        return fmt::format("a whole number of at least {}", min);
      }
      return fmt::format("a whole number from {} to {}", min, max);
    } else if constexpr (std::is_same_v<T, double>) {
      return "a number of seconds from 0";
    } else if constexpr (std::is_same_v<T, std::string>) {
      return "a text";
    } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
      return "a list of texts";
    } else {
      static_assert(std::is_same_v<T, DType>);
      return "'int32' or 'int64'";
    }
  });
}

SessionOptionValue SessionOption::Get(const SessionOptions& options) const {
  return VisitMember(*this, [&options]<class T>(T SessionOptions::*to, T) -> SessionOptionValue {
    if constexpr (kIsWhole<T>) {
      return std::uint64_t{options.*to};
    } else if constexpr (std::is_same_v<T, DType>) {
      return std::string(DTypeName(options.*to));
    } else {
      return options.*to;
    }
  });
}

Status SessionOption::Set(const SessionOptionValue& value, SessionOptions& options) const {
  return VisitMember(*this, [&]<class T>(T SessionOptions::*to, T) -> Status {
    if constexpr (kIsWhole<T>) {
      const std::uint64_t number = std::get<std::uint64_t>(value);
      if (number < min || number > max) return Unexpected(*this, std::to_string(number));
      options.*to = static_cast<T>(number);
    } else if constexpr (std::is_same_v<T, double>) {
      const double seconds = std::get<double>(value);
      if (!(seconds >= 0)) return Unexpected(*this, fmt::format("{}", seconds));
      options.*to = seconds;
    } else if constexpr (std::is_same_v<T, DType>) {
      const auto& dtype = std::get<std::string>(value);
      if (dtype != "int32" && dtype != "int64") return Unexpected(*this, "'" + dtype + "'");
      options.*to = dtype == "int32" ? DType::kInt32 : DType::kInt64;
    } else {
      const T& given = std::get<T>(value);
      if constexpr (std::is_same_v<T, std::string>) {
        if (check != nullptr) MILLRACE_RETURN_IF_ERROR(check(name, given));
      }
      options.*to = given;
    }
    return OkStatus();
  });
}

Status SessionOption::SetText(const std::string& text, SessionOptions& options) const {
  return VisitMember(*this, [&]<class T>(T SessionOptions::*, T) -> Status {
    if constexpr (kIsWhole<T>) {
      const Result<std::uint64_t> number =
          ParseNumber<std::uint64_t>(text, {.min = min, .max = max});
      if (!number.ok()) return Unexpected(*this, "'" + text + "'");
      return Set(*number, options);
    } else if constexpr (std::is_same_v<T, double>) {
      char* end = nullptr;
      const double seconds = std::strtod(text.c_str(), &end);
      if (text.empty() || *end != '\0' || !(seconds >= 0))
        return Unexpected(*this, "'" + text + "'");
      return Set(seconds, options);
    } else {
      return Set(text, options);
    }
  });
}

std::string SessionOption::Print(const SessionOptions& options) const {
  return std::visit(
      []<class T>(const T& value) -> std::string {
        if constexpr (std::is_same_v<T, std::vector<std::string>>) {
          return fmt::format("{}", fmt::join(value, ","));
        } else {
          return fmt::format("{}", value);
        }
      },
      Get(options));
}

std::span<const SessionOption> SessionOptionTable() { return kTable; }

const SessionOption* FindSessionOption(std::string_view name) {
  const auto* const found =
      std::find_if(std::begin(kTable), std::end(kTable),
                   [name](const SessionOption& option) { return option.name == name; });
  return found == std::end(kTable) ? nullptr : found;
}

Status CheckSessionOptions(const SessionOptions& options) {
  SessionOptions same;
  for (const SessionOption& option : kTable) {
    MILLRACE_RETURN_IF_ERROR(option.Set(option.Get(options), same));
  }
  if (options.rank >= options.world_size) {
    return InvalidArgument(fmt::format("rank {} of world size {}: expected 0 to {}", options.rank,
                                       options.world_size, options.world_size - 1));
  }
  return OkStatus();
}

Result<std::string> ReadPipelineText(const SessionOptions& options) {
  if (options.pipeline.empty() == options.pipeline_file.empty()) {
    return InvalidArgument("a session needs a pipeline: give either its text or its file");
  }
  if (options.pipeline_file.empty()) return options.pipeline;
  std::ifstream file(options.pipeline_file, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (!file.good() && !file.eof()) {
    return NotFound(fmt::format("pipeline file {} cannot be read", options.pipeline_file));
  }
  return text;
}

}  // namespace millrace
