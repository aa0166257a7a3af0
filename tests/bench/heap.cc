#include "tests/bench/heap.h"

// Sanitizers have their own operators, which must match what libraries allocate. Nothing is counted
// in their builds.
#if !defined(__SANITIZE_ADDRESS__) && !defined(_GLIBCXX_TSAN)

// These are not inlined, because the compiler would then warn that malloc and free do not match.
[[gnu::noinline]] void* operator new(std::size_t size) { return millrace::bench::Heap::Take(size); }
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  millrace::bench::Heap::Give(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t /*size*/) noexcept {
  millrace::bench::Heap::Give(memory);
}

#endif
