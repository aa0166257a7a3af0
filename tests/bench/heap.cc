#include "tests/bench/heap.h"

// Sanitizers have operators of their own, which match what libraries allocate: nothing is counted
// then.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

// Out of line: the compiler would take malloc and free for a mismatch.
[[gnu::noinline]] void* operator new(std::size_t size) { return millrace::bench::Heap::Take(size); }
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  millrace::bench::Heap::Give(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t /*size*/) noexcept {
  millrace::bench::Heap::Give(memory);
}

#endif
