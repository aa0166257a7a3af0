// DLPack's view of tensors that may be outside the host's memory.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include <nanobind/nanobind.h>

#include "common/batch/batch.h"

namespace millrace::python {

/// (device type, device number), as DLPack numbers them.
std::pair<int, int> DLPackDevice(const TensorMemory& memory);

/// The device's name in PyTorch: "cpu", "cuda:0".
std::string DeviceText(const TensorMemory& memory);

/// Raises BufferError if the host cannot read the tensor. The message says what to do instead.
void RequireHostMemory(const DeliveredTensor& tensor);

/// True if a consumer's __dlpack__(copy=…, dl_device=…) asks for a copy. Raises BufferError if it
/// asks for another device, or for a copy of a tensor that the host cannot read.
bool CopyWanted(const DeliveredTensor& tensor, const nanobind::kwargs& arguments);

/// Notes in the ledger of the tensor's memory the stream of a consumer's __dlpack__(stream=…). No
/// stream has to wait, because the tensor is complete. Raises ValueError for a stream that DLPack
/// forbids. Does nothing for a tensor in the host's memory.
void NoteStream(const DeliveredTensor& tensor, const nanobind::kwargs& arguments);

}  // namespace millrace::python
