#include <catch2/catch.hpp>

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

#include "server/daemon/service_manager.h"

namespace millrace {
namespace {

/// Listens as a service manager does, at a name that NOTIFY_SOCKET has while this lives.
class Manager {
 public:
  explicit Manager(const std::string& name) : name_(name) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, name.data(), name.size());
    if (name[0] == '@') address.sun_path[0] = '\0';
    socket_ = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    REQUIRE(bind(socket_, reinterpret_cast<const sockaddr*>(&address),
                 static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size())) == 0);
    setenv("NOTIFY_SOCKET", name.c_str(), 1);
  }
  ~Manager() {
    unsetenv("NOTIFY_SOCKET");
    close(socket_);
    if (name_[0] == '/') std::filesystem::remove(name_);
  }

  std::string Heard() const {
    char text[256];
    const ssize_t size = recv(socket_, text, sizeof text, MSG_DONTWAIT);
    return size < 0 ? "nothing" : std::string(text, static_cast<std::size_t>(size));
  }

 private:
  const std::string name_;
  int socket_ = -1;
};

TEST_CASE("a service manager hears what a daemon tells", "[service_manager]") {
  const std::string unique = std::to_string(getpid());
  for (const std::string& name :
       {"@millrace-test-" + unique,
        (std::filesystem::temp_directory_path() / ("millrace-test-" + unique)).string()}) {
    const Manager manager(name);
    REQUIRE(TellServiceManager("READY=1\nSTATUS=fine").ok());
    CHECK(manager.Heard() == "READY=1\nSTATUS=fine");
    CHECK(manager.Heard() == "nothing");
  }
}

TEST_CASE("without a service manager nothing is told", "[service_manager]") {
  unsetenv("NOTIFY_SOCKET");
  CHECK(TellServiceManager("READY=1").ok());
}

TEST_CASE("a service manager that cannot be told is named", "[service_manager]") {
  for (const char* const name : {"/nonexistent/socket", "relative"}) {
    setenv("NOTIFY_SOCKET", name, 1);
    const Status told = TellServiceManager("READY=1");
    unsetenv("NOTIFY_SOCKET");
    CHECK(!told.ok());
    CHECK(told.message().find(name) != std::string::npos);
  }
}

TEST_CASE("a daemon that stops asks for its grace time and some more", "[service_manager]") {
  CHECK(StoppingNotice(10) == "STOPPING=1\nEXTEND_TIMEOUT_USEC=20000000");
  CHECK(StoppingNotice(86400) == "STOPPING=1\nEXTEND_TIMEOUT_USEC=86410000000");
}

}  // namespace
}  // namespace millrace
