#include "client/python/src/device_tensor.h"

#include <fmt/core.h>

namespace nb = nanobind;

namespace millrace::python {

std::pair<int, int> DLPackDevice(const TensorMemory& memory) {
  return {static_cast<int>(memory.kind), memory.device};
}

std::string DeviceText(const TensorMemory& memory) {
  return memory.kind == TensorMemory::Kind::kHost ? "cpu" : fmt::format("cuda:{}", memory.device);
}

void RequireHostMemory(const DeliveredTensor& tensor) {
  if (tensor.memory.kind == TensorMemory::Kind::kHost) return;
  throw nb::buffer_error(
      fmt::format("tensor {} lies in memory of {}, which the host cannot read: take "
                  "it with .torch() or another framework's from_dlpack",
                  tensor.path, DeviceText(tensor.memory))
          .c_str());
}

bool CopyWanted(const DeliveredTensor& tensor, const nb::kwargs& arguments) {
  if (arguments.contains("dl_device") && !arguments["dl_device"].is_none()) {
    const auto [kind, device] = DLPackDevice(tensor.memory);
    if (!nb::object(arguments["dl_device"]).equal(nb::make_tuple(kind, device))) {
      throw nb::buffer_error(
          fmt::format("tensor {} lies in memory of {}, and is not moved by DLPack: expected "
                      "dl_device ({}, {}), got {}",
                      tensor.path, DeviceText(tensor.memory), kind, device,
                      nb::repr(arguments["dl_device"]).c_str())
              .c_str());
    }
  }
  const bool wanted =
      arguments.contains("copy") && nb::object(arguments["copy"]).is(nb::bool_(true));
  if (wanted && tensor.memory.kind != TensorMemory::Kind::kHost) {
    throw nb::buffer_error(
        fmt::format("tensor {} lies in memory of {}: take it without copy=True, and copy it there",
                    tensor.path, DeviceText(tensor.memory))
            .c_str());
  }
  return wanted;
}

void NoteStream(const DeliveredTensor& tensor, const nb::kwargs& arguments) {
  const bool none = !arguments.contains("stream") || arguments["stream"].is_none();
  if (tensor.memory.kind == TensorMemory::Kind::kHost) return;
  // No stream means the default stream; -1 means that the consumer sees to the order itself.
  const std::int64_t stream = none ? 1 : nb::cast<std::int64_t>(arguments["stream"]);
  if (stream == 0 || stream < -1) {
    throw nb::value_error(
        fmt::format("__dlpack__: stream {} is ambiguous: expected None, -1, 1 (the "
                    "default stream), 2 (the thread's) or a handle",
                    stream)
            .c_str());
  }
  if (stream > 0 && tensor.memory.ledger != nullptr) {
    tensor.memory.ledger->UsedOn(static_cast<std::uintptr_t>(stream));
  }
}

}  // namespace millrace::python
