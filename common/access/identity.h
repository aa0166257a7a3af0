// Who is at the other end of a connection.
//
// Values; thread-compatible.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "common/access/role.h"

namespace millrace {

struct Identity {
  /// Whether the peer has proved who it is. If not, it was not asked: then there is no TLS, and all
  /// who can connect are trusted (docs/guides/security.md).
  bool proved = false;
  std::string name;  // of the certificate or of the token
  PeerRoles roles;
  std::optional<std::set<std::string>> datasets;  // that it may read; unset: all
  bool plugins = true;                            // whether its pipelines may name plugins

  friend bool operator==(const Identity&, const Identity&) = default;
  /// For messages: "alice (trainer)".
  std::string ToString() const {
    return proved ? name + " (" + roles.ToString() + ")" : std::string("an unnamed peer");
  }
};

/// The other end of a served call.
struct Peer {
  std::string address;  // for messages, such as ipv4:10.0.0.3:40112
  Identity identity = {};
  bool shares_memory = false;  // it reads batches in shared memory, not from a network
};

}  // namespace millrace
