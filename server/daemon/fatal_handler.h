// The message of a daemon that ends by an exception, for example because memory or threads are
// exhausted.
#pragma once

namespace millrace {

/// From now on, a standard exception that nobody catches ends the process at once, with exit code 1
/// and one line on stderr. If memory or threads were missing, the line gives advice. Nothing is
/// cleaned up, because gRPC would wait forever for a thread that it could not get. Other exceptions
/// abort as before. Applies to the whole process.
void InstallFatalHandler();

}  // namespace millrace
