// Makes sure that a starting daemon either listens soon or ends.
#pragma once

namespace millrace {

/// From now on the process has 30 s to start. After that, it prints this and ends with exit code 1.
/// This is needed because gRPC waits forever if it could not get a thread for some work, even while
/// the process ends. Needs neither memory nor a thread, because it uses SIGALRM. Not thread-safe.
void LimitStart();

/// Ends the limit, when the daemon listens. Not called if the start fails, so that the limit also
/// holds for the end of the process.
void EndStartLimit();

}  // namespace millrace
