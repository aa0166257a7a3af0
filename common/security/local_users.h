// The users of this host who may connect without TLS, and the users of connections over loopback.
//
// Thread-safe.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "common/base/result.h"

namespace millrace {

/// The users that a daemon serves without further proof: its own, root, and the members of one
/// group.
class LocalUsers {
 public:
  /// `group`: empty for no group. NotFound if there is no such group.
  static Result<LocalUsers> Make(uid_t own, const std::string& group);

  /// The same users without the group.
  LocalUsers WithoutGroup() const;
  /// Whether the user may connect. Looks up the groups of users other than the first two.
  bool May(uid_t user) const;
  /// The group, if there is one.
  std::optional<gid_t> group() const { return group_; }
  /// For messages: "user millrace (uid 998), root, and members of group trainers".
  std::string ToString() const;

 private:
  uid_t own_ = 0;
  std::optional<gid_t> group_;
  std::string group_name_;
};

/// "alice (uid 1000)", or "uid 1000" if the user has no name.
std::string UserText(uid_t user);

/// The user who owns the other end of a TCP connection within this host, according to the kernel
/// (sock_diag(7)). NotFound if that end is gone, or is on another host.
Result<uid_t> UserOfPeer(int socket);
/// The same for a connection whose ends are known as numeric addresses, such as 127.0.0.1, and
/// ports.
Result<uid_t> UserOfPeer(const std::string& peer, int peer_port, const std::string& own,
                         int own_port);

}  // namespace millrace
