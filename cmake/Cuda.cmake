# CUDA where it is: required with MILLRACE_CUDA, else only for the test that its sources compile.
# MILLRACE_CUDA_FOUND says whether client/cuda can be built.

include(CheckLanguage)
check_language(CUDA)
if(CMAKE_CUDA_COMPILER)
  # Kernels name their own; CMake would ask for a GPU to choose some.
  set(CMAKE_CUDA_ARCHITECTURES ${MILLRACE_CUDA_ARCHITECTURES})
  enable_language(CUDA)
  find_package(CUDAToolkit)
endif()
if(CMAKE_CUDA_COMPILER AND CUDAToolkit_FOUND)
  set(MILLRACE_CUDA_FOUND TRUE)
elseif(MILLRACE_CUDA)
  message(FATAL_ERROR "MILLRACE_CUDA: no nvcc was found; name it with CUDACXX")
endif()
