// Sees to it that a daemon that starts either listens or ends.
#pragma once

namespace millrace {

/// From now on the process has 30 s: then it says so and ends with exit code 1. gRPC waits for ever
/// for work that it would have given to a thread which it could not have, also while it ends.
/// Needs neither memory nor a thread (it is SIGALRM's). Not thread-safe.
void LimitStart();

/// The daemon listens: no limit any more. Not called where the start fails, so that the end of the
/// process is within the limit too.
void EndStartLimit();

}  // namespace millrace
