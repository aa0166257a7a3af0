// Accepts the connections of a server, and hands them over when they have begun to speak.
//
// gRPC's own loop stops for good when a process can open no more files; this one closes the excess
// and goes on. And a silent peer costs a server of gRPC a connection for as long as it likes to
// wait. Here it waits with a few others, of which the first goes when another one comes or its time
// is over. An honest peer begins to speak at once, so that a flood of silent ones does not keep it
// out.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "common/base/result.h"

namespace millrace {

/// The required first bytes of a connection.
enum class Opening : std::uint8_t {
  kHttp2,     // the preface of HTTP/2 (RFC 9113, section 3.4)
  kTls,       // a whole TLS record of a handshake, which holds the client's hello (RFC 8446, 5.1)
  kAnything,  // a byte: the server itself closes connections that stop there
};

/// Why a server closed a connection, mostly at once.
enum class RefusedConnection : std::uint8_t {
  kTooMany,     // the process has few files left to open
  kSilent,      // it did not say enough in time, or too many others did not
  kProtocol,    // its first bytes are not a client's: no TLS where it is needed, or the reverse
  kUser,        // another user of this host
  kUnfinished,  // later: it had the most bytes of incomplete messages (UnfinishedMessages)
};
/// "too_many", "silent", "protocol", "user" or "unfinished".
std::string_view RefusedConnectionName(RefusedConnection why);
/// Called for each connection that is closed. `peer`: its PeerName; empty if it is gone.
using OnRefusedConnection = std::function<void(RefusedConnection why, const std::string& peer)>;

struct ListenerOptions {
  std::string listen;  // host:port; port 0: any free port
  Opening opening = Opening::kHttp2;
  /// Called on the listener's thread with a connection, which it owns from then on, and the socket
  /// that it came from.
  std::function<void(int connection, int listening)> on_connection;
  /// Called for each connection that is closed instead; may be null.
  OnRefusedConnection on_refused;
  std::chrono::milliseconds silence{5000};  // for which a connection may say too little
  /// How many connections may do so at a time; the first then makes room. Unset: by the limit of
  /// open files.
  std::optional<std::size_t> most_silent = std::nullopt;
};

/// Thread-safe.
class Listener {
 public:
  /// Errors as for CheckListen.
  static Result<std::unique_ptr<Listener>> Start(ListenerOptions options);
  /// Accepts nothing more. Connections that were handed over live on.
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  int port() const { return port_; }

 private:
  explicit Listener(ListenerOptions options);
  Status Open();
  void Run();
  void Accept(int listening);
  void Wait(int connection, int listening);
  /// Checks what a connection has said. True if it need not wait any more. `ended`: its peer says
  /// nothing more.
  bool Look(int connection, int listening, bool ended);
  void Refuse(int connection, RefusedConnection why);
  /// Refuses connections that have waited for too long. Returns how long the next one may still
  /// wait.
  std::chrono::milliseconds EndSilent();

  /// A connection that has not said enough yet.
  struct Silent {
    int connection;
    int listening;
    std::chrono::steady_clock::time_point end;
  };

  const ListenerOptions options_;
  int port_ = 0;
  std::vector<int> sockets_;
  int wake_ = -1;   // an eventfd, by which the destructor ends the thread
  int spare_ = -1;  // an open file that is given up for a moment when no other can be opened
  const std::uint64_t most_files_;  // connections with higher numbers are closed
  const std::size_t most_silent_;
  std::deque<Silent> silent_;  // in the order in which they came; only the thread uses them
  std::thread thread_;
};

}  // namespace millrace
