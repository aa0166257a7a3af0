// Marks functions that run on GPUs too. nvcc compiles them for both; other compilers see ordinary
// functions. Headers that use the mark are C++17, because nvcc compiles them.
#pragma once

#if defined(__CUDACC__)
#define MILLRACE_HOST_DEVICE __host__ __device__
#else
#define MILLRACE_HOST_DEVICE
#endif
