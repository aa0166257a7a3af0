#include <chrono>
#include <functional>
#include <utility>

#include <cuda_runtime_api.h>

#include "client/device/cuda_accelerator.h"
#include "tests/bench/device_machine.h"
#include "tests/bench/device_spin.h"

namespace millrace::bench {
namespace {

constexpr int kCopies = 20;

Status Check(cudaError_t error) {
  return error == cudaSuccess ? OkStatus() : Internal(cudaGetErrorString(error));
}

class GpuMachine final : public Machine {
 public:
  GpuMachine(std::shared_ptr<Accelerator> accelerator, cudaStream_t stream)
      : accelerator_(std::move(accelerator)), stream_(stream) {}
  ~GpuMachine() override { (void)cudaStreamDestroy(stream_); }

  std::shared_ptr<Accelerator> accelerator() const override { return accelerator_; }

  Status Step(double seconds) override {
    MILLRACE_RETURN_IF_ERROR(Check(Spin(static_cast<std::uint64_t>(seconds * 1e9), stream_)));
    return Check(cudaStreamSynchronize(stream_));
  }

  Result<double> CopyLimit(std::size_t bytes) override {
    void* from = nullptr;
    void* to = nullptr;
    MILLRACE_RETURN_IF_ERROR(Check(cudaHostAlloc(&from, bytes, cudaHostAllocDefault)));
    MILLRACE_RETURN_IF_ERROR(Check(cudaMalloc(&to, bytes)));
    auto rate = Rate(
        bytes, [&] { return cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream_); });
    (void)cudaFree(to);
    (void)cudaFreeHost(from);
    return rate;
  }

  Result<double> MemoryLimit(std::size_t bytes) override {
    void* from = nullptr;
    void* to = nullptr;
    MILLRACE_RETURN_IF_ERROR(Check(cudaMalloc(&from, bytes)));
    MILLRACE_RETURN_IF_ERROR(Check(cudaMalloc(&to, bytes)));
    auto rate = Rate(2 * bytes, [&] {
      return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_);
    });
    (void)cudaFree(to);
    (void)cudaFree(from);
    return rate;
  }

  Result<std::vector<std::byte>> Fetch(std::span<const std::byte> bytes) override {
    std::vector<std::byte> host(bytes.size());
    MILLRACE_RETURN_IF_ERROR(
        Check(cudaMemcpy(host.data(), bytes.data(), bytes.size(), cudaMemcpyDeviceToHost)));
    return host;
  }

 private:
  Result<double> Rate(std::size_t bytes, const std::function<cudaError_t()>& copy) {
    MILLRACE_RETURN_IF_ERROR(Check(copy()));
    MILLRACE_RETURN_IF_ERROR(Check(cudaStreamSynchronize(stream_)));
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kCopies; ++i) MILLRACE_RETURN_IF_ERROR(Check(copy()));
    MILLRACE_RETURN_IF_ERROR(Check(cudaStreamSynchronize(stream_)));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    return static_cast<double>(bytes) * kCopies / took.count() / 1e9;
  }

  const std::shared_ptr<Accelerator> accelerator_;
  const cudaStream_t stream_;
};

}  // namespace

Result<std::unique_ptr<Machine>> MakeGpuMachine(int number) {
  MILLRACE_ASSIGN_OR_RETURN(std::shared_ptr<Accelerator> accelerator, MakeCudaAccelerator(number));
  MILLRACE_RETURN_IF_ERROR(Check(cudaSetDevice(number)));
  cudaStream_t stream = nullptr;
  MILLRACE_RETURN_IF_ERROR(Check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking)));
  return std::unique_ptr<Machine>(std::make_unique<GpuMachine>(std::move(accelerator), stream));
}

}  // namespace millrace::bench
