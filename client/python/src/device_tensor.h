// Tensors outside the host's memory, as DLPack has them.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include <nanobind/nanobind.h>

#include "common/batch/batch.h"

namespace millrace::python {

/// (device type, device number), as DLPack numbers them.
std::pair<int, int> DLPackDevice(const TensorMemory& memory);

/// As PyTorch names it: "cpu", "cuda:0".
std::string DeviceText(const TensorMemory& memory);

/// Raises BufferError where the host cannot read the tensor, with what to do instead.
void RequireHostMemory(const DeliveredTensor& tensor);

/// Whether a consumer's __dlpack__(copy=…, dl_device=…) asks for memory of its own. Raises
/// BufferError for another device, and for a copy of what the host cannot read.
bool CopyWanted(const DeliveredTensor& tensor, const nanobind::kwargs& arguments);

/// What a consumer's __dlpack__(stream=…) asks for. The tensor is complete, so that no stream has
/// to wait for it; the batch's ledger is told of the stream. Raises for a stream that DLPack
/// forbids.
void NoteStream(const DeliveredTensor& tensor, const nanobind::kwargs& arguments);

}  // namespace millrace::python
