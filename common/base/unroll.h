// A loop of so few rounds that the compiler should write them out: MILLRACE_UNROLL(8) before a loop
// asks for that many rounds at a time. Vectors that are indexed by the loop's variable then stay in
// registers.
#pragma once

// Clang decides by itself, and warns if it decides against a pragma.
#if defined(__clang__)
#define MILLRACE_UNROLL(times)
#else
#define MILLRACE_PRAGMA(text) _Pragma(#text)
#define MILLRACE_UNROLL(times) MILLRACE_PRAGMA(GCC unroll times)
#endif
