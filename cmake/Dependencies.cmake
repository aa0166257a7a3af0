# The libraries that the project is built on. deploy/install-deps installs all of them.

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_package(Protobuf REQUIRED)
find_package(gRPC CONFIG REQUIRED)
find_package(CapnProto CONFIG REQUIRED)
find_package(spdlog CONFIG REQUIRED)
find_package(fmt CONFIG REQUIRED)
find_package(yaml-cpp CONFIG REQUIRED)
find_package(CLI11 CONFIG REQUIRED)
find_package(prometheus-cpp CONFIG REQUIRED)
find_package(ZLIB REQUIRED)
find_package(SQLite3 REQUIRED)
# TLS and certificates. The reference loader splits datasets by md5.
find_package(OpenSSL REQUIRED COMPONENTS SSL Crypto)
find_path(XXHASH_INCLUDE_DIR xxhash.h REQUIRED)
add_library(xxhash INTERFACE IMPORTED)  # headers only
target_include_directories(xxhash INTERFACE ${XXHASH_INCLUDE_DIR})
# Compression of batches.
find_path(ZSTD_INCLUDE_DIR zstd.h REQUIRED)
find_library(ZSTD_LIBRARY zstd REQUIRED)
find_path(LZ4_INCLUDE_DIR lz4.h REQUIRED)
find_library(LZ4_LIBRARY lz4 REQUIRED)
