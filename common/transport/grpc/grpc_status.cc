#include "common/transport/grpc/grpc_status.h"

#include <string>
#include <string_view>

namespace millrace {
namespace {

// By default, receivers accept at most 8 KiB of trailing metadata.
constexpr std::size_t kHeadBytes = 4000;
constexpr std::size_t kTailBytes = 2000;
constexpr std::string_view kCut = " [...] ";

/// The size of a character on the wire: everything but plain ASCII is percent-encoded.
std::size_t EncodedBytes(char c) { return c < ' ' || c > '~' || c == '%' ? 3 : 1; }

/// How many characters from `begin` on fit into `bytes` bytes on the wire.
template <class Iterator>
std::size_t Fitting(Iterator begin, Iterator end, std::size_t bytes) {
  std::size_t n = 0;
  for (; begin != end && EncodedBytes(*begin) <= bytes; ++begin, ++n) bytes -= EncodedBytes(*begin);
  return n;
}

std::string Shortened(const std::string& message) {
  const std::size_t head = Fitting(message.begin(), message.end(), kHeadBytes);
  const std::size_t tail = Fitting(message.rbegin(), message.rend(), kTailBytes);
  if (head + tail >= message.size()) return message;
  const std::string_view all(message);
  return std::string(all.substr(0, head)).append(kCut).append(all.substr(all.size() - tail));
}

}  // namespace

grpc::Status ToGrpcStatus(const Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), Shortened(status.message()));
}

Status FromGrpcStatus(const grpc::Status& status) {
  if (status.ok()) return OkStatus();
  const int code = status.error_code();
  // gRPC itself answers like this for a service that does not exist on the port.
  if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED && status.error_message().empty()) {
    return Unimplemented(
        "another service is on this port: a dispatcher's control port is what its --listen says, "
        "which is neither its --batch-listen nor a worker's port");
  }
  const bool known = code > 0 && code <= static_cast<int>(StatusCode::kUnauthenticated);
  return Status(known ? static_cast<StatusCode>(code) : StatusCode::kUnknown,
                status.error_message());
}

}  // namespace millrace
