#include "client/device/cuda_accelerator.h"

#include <string>
#include <utility>

#include <cuda_runtime_api.h>
#include <fmt/core.h>

#include "client/cuda/launch_compute.h"
#include "client/cuda/launch_expand.h"

namespace millrace {
namespace {

Status ToStatus(cudaError_t error, std::string_view what) {
  if (error == cudaSuccess) return OkStatus();
  const std::string message =
      fmt::format("{}: {} ({})", what, cudaGetErrorString(error), cudaGetErrorName(error));
  if (error == cudaErrorMemoryAllocation) return ResourceExhausted(message);
  if (error == cudaErrorNotSupported) return Unimplemented(message);
  return Internal(message);
}

/// In this scope, calls go to one GPU. After it, the thread's own GPU is selected again. The calls
/// do not break a graph that another thread captures, because nothing here is queued on a stream
/// that it captures.
class OnDevice {
 public:
  explicit OnDevice(int device) {
    if (cudaGetDevice(&before_) != cudaSuccess) before_ = device;
    (void)cudaSetDevice(device);
    (void)cudaThreadExchangeStreamCaptureMode(&mode_);
  }
  ~OnDevice() {
    (void)cudaThreadExchangeStreamCaptureMode(&mode_);
    (void)cudaSetDevice(before_);
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  int before_ = 0;
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

class CudaEvent final : public Accelerator::Event {
 public:
  /// REQUIRES: the event's GPU is selected.
  static Result<std::shared_ptr<Accelerator::Event>> Record(cudaStream_t stream) {
    cudaEvent_t event = nullptr;
    // A waiting thread sleeps, because it shares the CPUs with the training's own threads.
    MILLRACE_RETURN_IF_ERROR(
        ToStatus(cudaEventCreateWithFlags(&event, cudaEventDisableTiming | cudaEventBlockingSync),
                 "making an event"));
    auto owned = std::shared_ptr<Accelerator::Event>(new CudaEvent(event));
    MILLRACE_RETURN_IF_ERROR(ToStatus(cudaEventRecord(event, stream), "recording an event"));
    return owned;
  }
  ~CudaEvent() override { (void)cudaEventDestroy(event_); }
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  static cudaEvent_t Of(const Accelerator::Event& event) {
    return static_cast<const CudaEvent&>(event).event_;
  }

 private:
  explicit CudaEvent(cudaEvent_t event) : event_(event) {}
  cudaEvent_t event_;
};

class CudaAccelerator final : public Accelerator {
 public:
  CudaAccelerator(int device, std::string model, bool registers_read_only, cudaStream_t side)
      : device_(device),
        name_(fmt::format("cuda:{}", device)),
        model_(std::move(model)),
        registers_read_only_(registers_read_only),
        side_(side) {}
  ~CudaAccelerator() override {
    const OnDevice here(device_);
    (void)cudaStreamDestroy(side_);
  }

  std::string_view name() const override { return name_; }
  std::string_view model() const override { return model_; }
  TensorMemory memory() const override { return {TensorMemory::Kind::kCuda, device_, nullptr}; }

  std::byte* Allocate(std::size_t bytes) override {
    const OnDevice here(device_);
    void* data = nullptr;
    if (cudaMalloc(&data, bytes) == cudaSuccess) return static_cast<std::byte*>(data);
    (void)cudaGetLastError();  // otherwise the next caller would get this error
    return nullptr;
  }
  void Free(std::byte* data) override {
    const OnDevice here(device_);
    (void)cudaFree(data);
  }

  std::byte* AllocatePinned(std::size_t bytes) override {
    const OnDevice here(device_);
    void* data = nullptr;
    if (cudaHostAlloc(&data, bytes, cudaHostAllocPortable) == cudaSuccess) {
      return static_cast<std::byte*>(data);
    }
    (void)cudaGetLastError();
    return nullptr;
  }
  void FreePinned(std::byte* data) override {
    const OnDevice here(device_);
    (void)cudaFreeHost(data);
  }

  Status RegisterReadOnly(std::span<const std::byte> bytes) override {
    if (!registers_read_only_) {
      return Unimplemented(fmt::format("{} cannot register memory that may only be read", name_));
    }
    const OnDevice here(device_);
    const cudaError_t error = cudaHostRegister(
        const_cast<std::byte*>(bytes.data()), bytes.size(),
        cudaHostRegisterReadOnly | cudaHostRegisterMapped | cudaHostRegisterPortable);
    if (error != cudaSuccess) (void)cudaGetLastError();
    return ToStatus(error, "registering shared memory");
  }
  void Unregister(std::span<const std::byte> bytes) override {
    const OnDevice here(device_);
    (void)cudaHostUnregister(const_cast<std::byte*>(bytes.data()));
  }

  Status CopyIn(std::byte* to, std::span<const std::byte> from) override {
    const OnDevice here(device_);
    return ToStatus(cudaMemcpyAsync(to, from.data(), from.size(), cudaMemcpyHostToDevice, side_),
                    "copying a batch");
  }
  Status Expand(const kernel::Launch& launch) override {
    const OnDevice here(device_);
    return ToStatus(kernel::LaunchExpand(launch, side_), "expanding a batch");
  }
  Status Compute(const kernel::ComputeLaunch& launch) override {
    const OnDevice here(device_);
    return ToStatus(kernel::LaunchCompute(launch, side_), "computing tensors");
  }
  Status WaitFor(const Event& event) override {
    const OnDevice here(device_);
    return ToStatus(cudaStreamWaitEvent(side_, CudaEvent::Of(event), 0), "waiting for an event");
  }
  Result<std::shared_ptr<Event>> Record() override {
    const OnDevice here(device_);
    return CudaEvent::Record(side_);
  }

  Result<std::shared_ptr<Event>> RecordOn(StreamHandle stream) override {
    const OnDevice here(device_);
    // 1 and 2, as DLPack numbers streams, are also CUDA's own handles of the default streams.
    return CudaEvent::Record(reinterpret_cast<cudaStream_t>(stream));
  }
  bool Passed(const Event& event) override {
    const OnDevice here(device_);
    return cudaEventQuery(CudaEvent::Of(event)) != cudaErrorNotReady;
  }
  Status Synchronize(const Event& event) override {
    const OnDevice here(device_);
    return ToStatus(cudaEventSynchronize(CudaEvent::Of(event)), name_);
  }

 private:
  const int device_;
  const std::string name_;
  const std::string model_;
  const bool registers_read_only_;
  const cudaStream_t side_;
};

}  // namespace

int CudaDevices() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) == cudaSuccess) return devices;
  (void)cudaGetLastError();
  return 0;
}

Result<std::shared_ptr<Accelerator>> MakeCudaAccelerator(int number) {
  int devices = 0;
  const cudaError_t counted = cudaGetDeviceCount(&devices);
  if (counted != cudaSuccess) {
    (void)cudaGetLastError();
    return NotFound(fmt::format("device cuda:{}: no GPU can be used here: {}", number,
                                cudaGetErrorString(counted)));
  }
  if (number < 0 || number >= devices) {
    return NotFound(fmt::format("device cuda:{}: this process sees {} of them", number, devices));
  }
  const OnDevice here(number);
  cudaDeviceProp properties{};
  MILLRACE_RETURN_IF_ERROR(
      ToStatus(cudaGetDeviceProperties(&properties, number), fmt::format("cuda:{}", number)));
  int read_only = 0;
  MILLRACE_RETURN_IF_ERROR(
      ToStatus(cudaDeviceGetAttribute(&read_only, cudaDevAttrHostRegisterReadOnlySupported, number),
               fmt::format("cuda:{}", number)));
  cudaStream_t side = nullptr;
  MILLRACE_RETURN_IF_ERROR(ToStatus(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking),
                                    fmt::format("a stream of cuda:{}", number)));
  return std::shared_ptr<Accelerator>(
      std::make_shared<CudaAccelerator>(number, properties.name, read_only != 0, side));
}

}  // namespace millrace
