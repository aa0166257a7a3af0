// gRPC tries a connection that could not be made again and again. But it moves these attempts on
// only while somebody waits for a call, or at most every 5 s, and it fails every call at once
// meanwhile. So an attempt may run out of time with the answer of the server unread, for ever. A
// new channel has neither fault: its first call waits for the connection, and so moves it on.
#pragma once

#include <grpcpp/grpcpp.h>

namespace millrace {

/// Whether the last attempt to connect failed, so that the next call needs a new channel.
inline bool HasFailed(grpc::Channel& channel) {
  return channel.GetState(false) == GRPC_CHANNEL_TRANSIENT_FAILURE;
}

}  // namespace millrace
