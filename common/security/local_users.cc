#include "common/security/local_users.h"

#include <arpa/inet.h>
#include <grp.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <pwd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "common/system/errno_status.h"
#include "common/system/file_descriptor.h"

namespace millrace {
namespace {

constexpr std::size_t kLookupBytes = 16'384;  // for a line of passwd or group

struct UserEntry {
  std::string name;
  gid_t group = 0;
};

std::optional<UserEntry> FindUser(uid_t user) {
  passwd entry{};
  passwd* found = nullptr;
  std::vector<char> buffer(kLookupBytes);
  if (getpwuid_r(user, &entry, buffer.data(), buffer.size(), &found) != 0 || found == nullptr) {
    return std::nullopt;
  }
  return UserEntry{entry.pw_name, entry.pw_gid};
}

/// One end of a TCP connection, as inet_diag names it.
struct Endpoint {
  std::uint8_t family = 0;
  __be16 port = 0;
  __be32 address[4] = {};
};

std::optional<Endpoint> EndpointOf(const sockaddr_storage& storage) {
  Endpoint end;
  end.family = static_cast<std::uint8_t>(storage.ss_family);
  if (storage.ss_family == AF_INET) {
    sockaddr_in v4;
    std::memcpy(&v4, &storage, sizeof v4);
    end.port = v4.sin_port;
    end.address[0] = v4.sin_addr.s_addr;
    return end;
  }
  if (storage.ss_family != AF_INET6) return std::nullopt;
  sockaddr_in6 v6;
  std::memcpy(&v6, &storage, sizeof v6);
  end.port = v6.sin6_port;
  if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
    // The other end is an IPv4 socket.
    end.family = AF_INET;
    std::memcpy(end.address, v6.sin6_addr.s6_addr + 12, 4);
  } else {
    std::memcpy(end.address, v6.sin6_addr.s6_addr, 16);
  }
  return end;
}

/// The user of the socket whose own end is `own` and whose other end is `other`.
Result<uid_t> UserOfSocket(const Endpoint& own, const Endpoint& other) {
  const FileDescriptor netlink(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  if (netlink.get() < 0) return ErrnoStatus("cannot ask the kernel for a connection's user", errno);
  struct {
    nlmsghdr header;
    inet_diag_req_v2 request;
  } question{};
  question.header.nlmsg_len = sizeof question;
  question.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  question.header.nlmsg_flags = NLM_F_REQUEST;
  question.request.sdiag_family = own.family;
  question.request.sdiag_protocol = IPPROTO_TCP;
  question.request.idiag_states = ~0u;
  inet_diag_sockid& id = question.request.id;
  id.idiag_sport = own.port;
  id.idiag_dport = other.port;
  std::memcpy(id.idiag_src, own.address, sizeof own.address);
  std::memcpy(id.idiag_dst, other.address, sizeof other.address);
  id.idiag_cookie[0] = id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  if (send(netlink.get(), &question, sizeof question, 0) < 0) {
    return ErrnoStatus("cannot ask the kernel for a connection's user", errno);
  }
  alignas(nlmsghdr) char answer[4096];
  const ssize_t size = recv(netlink.get(), answer, sizeof answer, 0);
  if (size < static_cast<ssize_t>(sizeof(nlmsghdr))) {
    return ErrnoStatus("the kernel does not say a connection's user", errno);
  }
  nlmsghdr header;
  std::memcpy(&header, answer, sizeof header);
  if (header.nlmsg_type != SOCK_DIAG_BY_FAMILY ||
      size < static_cast<ssize_t>(NLMSG_LENGTH(sizeof(inet_diag_msg)))) {
    return NotFound("the kernel knows no such connection: its other end is gone, or not here");
  }
  inet_diag_msg found;
  std::memcpy(&found, answer + NLMSG_HDRLEN, sizeof found);
  return uid_t{found.idiag_uid};
}

std::optional<Endpoint> EndpointOf(const std::string& address, int port) {
  sockaddr_storage storage{};
  sockaddr_in v4{};
  sockaddr_in6 v6{};
  if (inet_pton(AF_INET, address.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    v4.sin_port = htons(static_cast<std::uint16_t>(port));
    std::memcpy(&storage, &v4, sizeof v4);
  } else if (inet_pton(AF_INET6, address.c_str(), &v6.sin6_addr) == 1) {
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(static_cast<std::uint16_t>(port));
    std::memcpy(&storage, &v6, sizeof v6);
  } else {
    return std::nullopt;
  }
  return EndpointOf(storage);
}

}  // namespace

Result<LocalUsers> LocalUsers::Make(uid_t own, const std::string& group) {
  LocalUsers users;
  users.own_ = own;
  if (group.empty()) return users;
  struct group entry {};
  struct group* found = nullptr;
  std::vector<char> buffer(kLookupBytes);
  if (getgrnam_r(group.c_str(), &entry, buffer.data(), buffer.size(), &found) != 0 ||
      found == nullptr) {
    return NotFound("there is no group '" + group + "' on this host");
  }
  users.group_ = entry.gr_gid;
  users.group_name_ = group;
  return users;
}

LocalUsers LocalUsers::WithoutGroup() const {
  LocalUsers users;
  users.own_ = own_;
  return users;
}

bool LocalUsers::May(uid_t user) const {
  if (user == own_ || user == 0) return true;
  if (!group_) return false;
  const std::optional<UserEntry> entry = FindUser(user);
  if (!entry) return false;
  std::vector<gid_t> groups(64);
  for (;;) {
    auto count = static_cast<int>(groups.size());
    if (getgrouplist(entry->name.c_str(), entry->group, groups.data(), &count) >= 0) {
      groups.resize(static_cast<std::size_t>(count));
      return std::find(groups.begin(), groups.end(), *group_) != groups.end();
    }
    groups.resize(std::max(static_cast<std::size_t>(count), groups.size() * 2));
  }
}

std::string LocalUsers::ToString() const {
  std::string text = UserText(own_);
  if (own_ != 0) text += group_ ? ", root" : " and root";
  if (group_)
    text += (own_ != 0 ? ", and members of group " : " and members of group ") + group_name_;
  return text;
}

std::string UserText(uid_t user) {
  const std::string uid = "uid " + std::to_string(user);
  const std::optional<UserEntry> entry = FindUser(user);
  return entry ? entry->name + " (" + uid + ")" : uid;
}

Result<uid_t> UserOfPeer(int socket) {
  sockaddr_storage own{};
  sockaddr_storage peer{};
  socklen_t own_size = sizeof own;
  socklen_t peer_size = sizeof peer;
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&own), &own_size) != 0 ||
      getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &peer_size) != 0) {
    return NotFound("the connection is gone");
  }
  const std::optional<Endpoint> here = EndpointOf(own);
  const std::optional<Endpoint> there = EndpointOf(peer);
  if (!here || !there) return NotFound("not a TCP connection");
  return UserOfSocket(*there, *here);
}

Result<uid_t> UserOfPeer(const std::string& peer, int peer_port, const std::string& own,
                         int own_port) {
  const std::optional<Endpoint> here = EndpointOf(own, own_port);
  const std::optional<Endpoint> there = EndpointOf(peer, peer_port);
  if (!here || !there) return NotFound("no numeric addresses");
  return UserOfSocket(*there, *here);
}

}  // namespace millrace
