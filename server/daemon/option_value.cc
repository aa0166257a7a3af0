#include "server/daemon/option_value.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "common/base/addresses.h"
#include "common/base/log_level_names.h"
#include "common/base/parse_number.h"
#include "common/base/suggestion.h"
#include "server/plan/text/param_value.h"
#include "server/plan/text/pipeline.h"
#include "server/state/etcd/etcd_address.h"

namespace millrace {
namespace {

Status Unexpected(std::string_view expected, std::string_view text) {
  return InvalidArgument(fmt::format("expected {}, got '{}'", expected, text));
}

/// A text that has to pass `check`.
OptionValue CheckedText(std::string DaemonOptions::*member,
                        std::function<Status(const std::string& text)> check) {
  OptionValue value;
  value.read = [member, check = std::move(check)](const std::string& text, const HostLimits&,
                                                  DaemonOptions& options) {
    MILLRACE_RETURN_IF_ERROR(check(text));
    options.*member = text;
    return OkStatus();
  };
  value.print = [member](const DaemonOptions& options) { return options.*member; };
  return value;
}

/// A number that `parse` reads.
template <class T, class Parse>
OptionValue NumberValue(T DaemonOptions::*member, Bounds<T> bounds, Parse parse) {
  OptionValue value;
  value.bounds = fmt::format("{} to {}", bounds.min, bounds.max);
  value.read = [member, bounds, parse](const std::string& text, const HostLimits&,
                                       DaemonOptions& options) {
    MILLRACE_ASSIGN_OR_RETURN(options.*member, parse(text, bounds));
    return OkStatus();
  };
  value.print = [member](const DaemonOptions& options) {
    return fmt::format("{}", options.*member);
  };
  return value;
}

Status CheckAddress(const std::string& text, int least_port) {
  if (IsHostPort(text, least_port)) return OkStatus();
  return Unexpected(fmt::format("host:port with a port from {} to 65535", least_port), text);
}

/// One of two words, the first for true.
OptionValue OneOfTwo(bool DaemonOptions::*member, const std::string& yes, const std::string& no) {
  OptionValue value;
  value.read = [=](const std::string& text, const HostLimits&, DaemonOptions& options) {
    if (text != yes && text != no) return Unexpected(yes + " or " + no, text);
    options.*member = text == yes;
    return OkStatus();
  };
  value.print = [=](const DaemonOptions& options) { return options.*member ? yes : no; };
  return value;
}

}  // namespace

OptionValue Text(std::string DaemonOptions::*member) {
  return CheckedText(member, [](const std::string&) { return OkStatus(); });
}

OptionValue Switch(bool DaemonOptions::*member) {
  OptionValue value = OneOfTwo(member, "true", "false");
  value.is_switch = true;
  return value;
}

OptionValue OnOff(bool DaemonOptions::*member) { return OneOfTwo(member, "on", "off"); }

OptionValue Whole(int DaemonOptions::*member, int min, int max) {
  return NumberValue(
      member, Bounds<int>{min, max},
      [](const std::string& text, Bounds<int> bounds) { return ParseNumber<int>(text, bounds); });
}

OptionValue Seconds(double DaemonOptions::*member, double min, double max) {
  return NumberValue(member, Bounds<double>{min, max},
                     [](const std::string& text, Bounds<double> bounds) {
                       return ParseDecimal(text, bounds, "a number of seconds");
                     });
}

OptionValue Memory(std::uint64_t DaemonOptions::*member, std::uint64_t min_mib) {
  OptionValue value;
  const std::string least = fmt::format("at least {}MiB", min_mib);
  value.bounds = least;
  value.read = [member, min_mib, least](const std::string& text, const HostLimits& host,
                                        DaemonOptions& options) {
    MILLRACE_ASSIGN_OR_RETURN(const std::uint64_t bytes, ParseBytes(text));
    if (bytes > host.memory_bytes) {
      return Unexpected(
          fmt::format("at most the {}'s {} bytes", host.memory_from, host.memory_bytes), text);
    }
    if (bytes < min_mib << 20) return Unexpected(least, text);
    options.*member = bytes;
    return OkStatus();
  };
  value.print = [member](const DaemonOptions& options) { return std::to_string(options.*member); };
  return value;
}

OptionValue Bytes(std::uint64_t DaemonOptions::*member) {
  OptionValue value;
  value.read = [member](const std::string& text, const HostLimits&, DaemonOptions& options) {
    if (text == "0") {
      options.*member = 0;
      return OkStatus();
    }
    MILLRACE_ASSIGN_OR_RETURN(options.*member, ParseBytes(text));
    return OkStatus();
  };
  value.print = [member](const DaemonOptions& options) { return std::to_string(options.*member); };
  return value;
}

OptionValue Level(LogLevel DaemonOptions::*member) {
  OptionValue value;
  value.read = [member](const std::string& text, const HostLimits&, DaemonOptions& options) {
    const Result<LogLevel> level = ParseLogLevel(text);
    if (!level.ok()) {
      const std::vector<std::string> names(kLogLevelNames.begin(), kLogLevelNames.end());
      return InvalidArgument(fmt::format("expected debug, info, warning, error or off, got '{}'{}",
                                         text, Suggestion(text, names)));
    }
    options.*member = *level;
    return OkStatus();
  };
  value.print = [member](const DaemonOptions& options) {
    return std::string(LogLevelName(options.*member));
  };
  return value;
}

OptionValue ListenAddress(std::string DaemonOptions::*member) {
  return CheckedText(member, [](const std::string& text) { return CheckAddress(text, 0); });
}

OptionValue PeerAddresses(std::string DaemonOptions::*member) {
  return CheckedText(member, [](const std::string& text) {
    for (const std::string& address : SplitAddresses(text)) {
      MILLRACE_RETURN_IF_ERROR(CheckAddress(address, 1));
    }
    return OkStatus();
  });
}

OptionValue DatasetIds(std::string DaemonOptions::*member) {
  return CheckedText(member, [](const std::string& text) {
    for (const std::string& id : SplitAddresses(text)) {
      if (!IsDatasetId(id)) return Unexpected("ids of datasets, with commas between", text);
    }
    return OkStatus();
  });
}

OptionValue EtcdStoreAddress(std::string DaemonOptions::*member) {
  return CheckedText(member, [](const std::string& text) {
    const Result<EtcdAddress> address = ParseEtcdAddress(text);
    return address.ok() ? OkStatus() : address.status();
  });
}

}  // namespace millrace
