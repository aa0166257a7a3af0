// What a daemon says that ends by an exception, such as for want of memory or threads.
#pragma once

namespace millrace {

/// From now on a standard exception that nobody catches ends the process at once, with exit code 1
/// and one line on stderr, which says what to do where memory or threads could not be had. Nothing
/// is cleaned up: gRPC would wait for ever for a thread that it could not have. Other exceptions
/// abort as before. For the whole process.
void InstallLastWords();

}  // namespace millrace
