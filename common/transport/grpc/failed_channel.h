// gRPC repeats failed attempts to connect. But it makes them progress only while a call waits, or
// at most every 5 s, and it fails every call at once meanwhile. So an attempt may time out with the
// answer of the server unread, for ever. A new channel has neither fault: its first call waits for
// the connection, and thus moves it on.
#pragma once

#include <grpcpp/grpcpp.h>

namespace millrace {

/// Whether the last attempt to connect failed, so that the next call needs a new channel.
inline bool HasFailed(grpc::Channel& channel) {
  return channel.GetState(false) == GRPC_CHANNEL_TRANSIENT_FAILURE;
}

}  // namespace millrace
