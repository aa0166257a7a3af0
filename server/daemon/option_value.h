// What an option holds: how text becomes its value, within what bounds, and how it is printed. One
// function for each kind of option makes it, from the member of DaemonOptions that has the value.
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
  std::string bounds;      // for help: "1 to 1024"; empty: none that it would have to say
  bool is_switch = false;  // its flag needs no value to be on
  /// InvalidArgument "expected …, got '…'", naming the bounds; `options` is unchanged then.
  std::function<Status(const std::string& text, const HostLimits& host, DaemonOptions& options)>
      read;
  /// A text that `read` takes as the same value.
  std::function<std::string(const DaemonOptions& options)> print;
};

/// Any text.
OptionValue Text(std::string DaemonOptions::*member);
/// true or false.
OptionValue Switch(bool DaemonOptions::*member);
/// A whole number.
OptionValue Whole(int DaemonOptions::*member, int min, int max);
OptionValue Seconds(double DaemonOptions::*member, double min, double max);
/// Bytes such as 300MB or 4GiB, at most what the host has.
OptionValue Memory(std::uint64_t DaemonOptions::*member, std::uint64_t min_mib);
OptionValue Level(LogLevel DaemonOptions::*member);
/// host:port to listen on; port 0 is any that is free.
OptionValue ListenAddress(std::string DaemonOptions::*member);
/// host:port to connect to.
OptionValue PeerAddress(std::string DaemonOptions::*member);
/// The same, or several with commas between them.
OptionValue PeerAddresses(std::string DaemonOptions::*member);
/// etcd://host:port,host:port/prefix.
OptionValue EtcdStoreAddress(std::string DaemonOptions::*member);

}  // namespace millrace
