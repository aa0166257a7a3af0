// What the memory of batches asks of malloc.
#pragma once

#include <malloc.h>

namespace millrace {

/// Tells glibc's malloc to keep what was freed instead of giving it back to the kernel at once:
/// messages of hundreds of kilobytes come and go thousands of times a second, and each would else
/// cost page faults, and a walk over all small free chunks. Costs up to 128 MiB of freed memory
/// that stays with the process. For the whole process; to be called before threads are started.
inline void KeepFreedMemory() {
  constexpr int kKept = 128 << 20;
  mallopt(M_MMAP_THRESHOLD, kKept);
  mallopt(M_TRIM_THRESHOLD, kKept);
  mallopt(M_TOP_PAD, 16 << 20);
  mallopt(M_MXFAST, 0);
}

}  // namespace millrace
