// A connection of the HTTP port, from the handshake of TLS to the last byte of its answer. None of
// its functions waits for the peer.
//
// Not thread-safe: it belongs to the server's loop.
#pragma once

#include <openssl/ssl.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "common/security/x509.h"
#include "common/system/file_descriptor.h"
#include "server/web/http_text.h"
#include "server/web/web_request.h"

namespace millrace {

/// An answer to a peer. Many peers may share the body.
struct WebAnswer {
  std::string head;
  std::shared_ptr<const std::string> body;  // never null
};

class WebConnection {
 public:
  enum class State : std::uint8_t {
    kAsks,    // its request is not complete
    kBad,     // it has not sent a valid request
    kWaits,   // for the answer
    kTakes,   // the answer is being sent
    kLeaves,  // it has all of the answer, and may close
    kOver,
  };

  /// `tls`: null for a connection without. It has to outlive the connection.
  WebConnection(FileDescriptor socket, SSL_CTX* tls);

  /// Goes on as far as the socket allows.
  void Advance();
  State state() const { return state_; }
  int socket() const { return socket_.get(); }
  /// The events for which Advance waits (poll(2)); 0: for an answer.
  short events() const { return events_; }
  /// Bytes of the answer that were sent.
  std::size_t sent() const { return sent_; }

  /// REQUIRES: kWaits. The head of the request, and its other facts.
  const HttpHead& head() const { return head_; }
  WebRequest Request() const;
  /// Begins to send. REQUIRES: kBad or kWaits.
  void Answer(WebAnswer answer);

 private:
  /// Each of these takes one step. False if there is nothing more to do now.
  bool Step();
  bool Shake();
  bool ReadSome();
  bool SendSome();
  bool Drain();
  /// The bytes of a call on the socket; or 0, with `events_` set if it is to be tried again, and
  /// otherwise with the connection over.
  std::size_t Receive(char* bytes, std::size_t size);
  std::size_t Send(std::string_view bytes);
  std::size_t WaitOrEnd(int tls_result);
  bool End();

  using SslPtr = std::unique_ptr<SSL, FreeWith<SSL_free>>;

  const FileDescriptor socket_;
  const SslPtr tls_;  // null: no TLS
  State state_ = State::kAsks;
  bool shaken_;
  short events_ = 0;
  std::string said_;
  HttpHead head_;
  WebAnswer answer_;
  std::size_t sent_ = 0;
};

}  // namespace millrace
