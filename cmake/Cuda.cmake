# Finds CUDA. MILLRACE_CUDA requires it. Without MILLRACE_CUDA only the tests in tests/cuda use it.
# MILLRACE_CUDA_FOUND says whether client/cuda can be built.

include(CheckLanguage)
check_language(CUDA)
if(CMAKE_CUDA_COMPILER)
  # If this were not set, CMake would need a GPU to choose the architectures.
  set(CMAKE_CUDA_ARCHITECTURES ${MILLRACE_CUDA_ARCHITECTURES})
  enable_language(CUDA)
  find_package(CUDAToolkit)
endif()
if(CMAKE_CUDA_COMPILER AND CUDAToolkit_FOUND)
  set(MILLRACE_CUDA_FOUND TRUE)
elseif(MILLRACE_CUDA)
  message(FATAL_ERROR "MILLRACE_CUDA: no nvcc was found; name it with CUDACXX")
endif()
