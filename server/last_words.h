// What a daemon says that ends for want of memory or threads.
#pragma once

namespace millrace {

/// From now on an exception that nobody catches ends the process with exit code 1 and one line on
/// stderr, where it says that memory or threads could not be had; others abort as before. For the
/// whole process.
void InstallLastWords();

}  // namespace millrace
