// The value of an option: how text becomes a value, its bounds, and how it is printed. There is one
// function for each kind of option. It takes the member of DaemonOptions that holds the value.
//
// Immutable values; thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "common/base/result.h"
#include "common/system/host.h"
#include "server/daemon/options.h"

namespace millrace {

struct OptionValue {
  std::string bounds;      // for the help, such as "1 to 1024"; empty: nothing to say
  bool is_switch = false;  // whether its flag alone, without a value, turns it on
  /// Stores the value of `text` in `options`. InvalidArgument "expected …, got '…'" names the
  /// bounds, and leaves `options` unchanged.
  std::function<Status(const std::string& text, const HostLimits& host, DaemonOptions& options)>
      read;
  /// A text that `read` reads as the present value.
  std::function<std::string(const DaemonOptions& options)> print;
};

/// Any text.
OptionValue Text(std::string DaemonOptions::*member);
/// true or false.
OptionValue Switch(bool DaemonOptions::*member);
/// `on` or `off`.
OptionValue OnOff(bool DaemonOptions::*member);
/// A whole number.
OptionValue Whole(int DaemonOptions::*member, int min, int max);
OptionValue Seconds(double DaemonOptions::*member, double min, double max);
/// A number of bytes, such as 300MB or 4GiB; at most the memory of the host.
OptionValue Memory(std::uint64_t DaemonOptions::*member, std::uint64_t min_mib);
/// A number of bytes, also 0.
OptionValue Bytes(std::uint64_t DaemonOptions::*member);
OptionValue Level(LogLevel DaemonOptions::*member);
/// host:port to listen on; port 0 stands for any free port.
OptionValue ListenAddress(std::string DaemonOptions::*member);
/// host:port to connect to; there may be several, with commas between.
OptionValue PeerAddresses(std::string DaemonOptions::*member);
/// Ids of datasets, with commas between.
OptionValue DatasetIds(std::string DaemonOptions::*member);
/// etcd://host:port,host:port/prefix.
OptionValue EtcdStoreAddress(std::string DaemonOptions::*member);

}  // namespace millrace
