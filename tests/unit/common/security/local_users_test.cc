#include "common/security/local_users.h"

#include <arpa/inet.h>
#include <grp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <catch2/catch.hpp>

#include <tuple>

#include "tests/support/skip.h"

namespace millrace {
namespace {

/// A TCP connection over loopback, whose client may be a process of another user.
class LoopbackConnection {
 public:
  explicit LoopbackConnection(int family, std::optional<uid_t> user = {}) {
    listening_ = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_storage at{};
    at.ss_family = static_cast<sa_family_t>(family);
    if (family == AF_INET) {
      reinterpret_cast<sockaddr_in*>(&at)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    } else {
      reinterpret_cast<sockaddr_in6*>(&at)->sin6_addr = in6addr_loopback;
    }
    socklen_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    if (bind(listening_, reinterpret_cast<sockaddr*>(&at), size) != 0) return;  // no IPv6 here
    REQUIRE(listen(listening_, 1) == 0);
    REQUIRE(getsockname(listening_, reinterpret_cast<sockaddr*>(&at), &size) == 0);
    child_ = fork();
    if (child_ == 0) {
      if (user && setresuid(*user, *user, *user) != 0) _exit(1);
      const int client = socket(family, SOCK_STREAM, 0);
      if (connect(client, reinterpret_cast<sockaddr*>(&at), size) != 0) _exit(1);
      char byte;
      (void)!read(client, &byte, 1);  // until the test ends
      _exit(0);
    }
    accepted_ = accept4(listening_, nullptr, nullptr, SOCK_CLOEXEC);
    REQUIRE(accepted_ >= 0);
  }
  ~LoopbackConnection() {
    if (accepted_ >= 0) close(accepted_);
    close(listening_);
    if (child_ > 0) waitpid(child_, nullptr, 0);
  }
  int accepted() const { return accepted_; }

 private:
  int listening_ = -1;
  int accepted_ = -1;
  pid_t child_ = -1;
};

TEST_CASE("the kernel says which user a loopback connection is from", "[users]") {
  const int family = GENERATE(AF_INET, AF_INET6);
  const LoopbackConnection own(family);
  if (own.accepted() < 0) return;  // no IPv6 here
  CHECK(*UserOfPeer(own.accepted()) == geteuid());
  if (geteuid() != 0) return;
  const LoopbackConnection other(family, 12345);
  CHECK(*UserOfPeer(other.accepted()) == 12345);
}

TEST_CASE("a connection whose other end is gone has no user", "[users]") {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  CHECK(UserOfPeer(socket).status().code() == StatusCode::kNotFound);
  close(socket);
}

TEST_CASE("a daemon serves its own user and root", "[users]") {
  const auto users = LocalUsers::Make(12345, "");
  REQUIRE(users.ok());
  CHECK(users->May(12345));
  CHECK(users->May(0));
  CHECK_FALSE(users->May(12346));
  CHECK(users->ToString() == "uid 12345 and root");
}

TEST_CASE("the members of a group are served too", "[users]") {
  // `daemon` is a user and a group of every Linux system.
  const group* const found = getgrnam("daemon");
  REQUIRE(found != nullptr);
  const auto users = LocalUsers::Make(12345, "daemon");
  REQUIRE(users.ok());
  CHECK(users->May(1));  // the user daemon, whose group it is
  CHECK_FALSE(users->May(12346));
  CHECK_THAT(users->ToString(), Catch::Contains("members of group daemon"));
  CHECK(LocalUsers::Make(0, "no such group").status().code() == StatusCode::kNotFound);
}

}  // namespace
}  // namespace millrace
