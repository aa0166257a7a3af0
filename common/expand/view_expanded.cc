// Views of batches, expanded or packed: which tensors they have, and where these lie.
#include <string>
#include <utility>
#include <vector>

#include "common/expand/computation.h"
#include "common/expand/expand.h"

namespace millrace {
namespace {

/// The description of a batch that consists of these rows.
BatchInfo InfoOf(const PackedBatch& packed, RowRange rows) {
  const BatchInfo& all = packed.info();
  if (rows.count == packed.examples()) return all;
  BatchInfo info = all;
  const auto first = all.example_ids.begin() + static_cast<std::ptrdiff_t>(rows.first);
  info.example_ids.assign(first, first + static_cast<std::ptrdiff_t>(rows.count));
  if (rows.first > 0) {
    info.dropped.clear();
    info.lost_pieces.clear();
  }
  info.planned_examples = static_cast<std::uint32_t>(rows.count + info.dropped.size());
  return info;
}

DeliveredTensor Described(const TensorSpec& spec, DType dtype,
                          const std::vector<std::uint64_t>& shape) {
  DeliveredTensor tensor;
  tensor.path = spec.path;
  tensor.kind = spec.kind;
  tensor.dtype = dtype;
  tensor.shape = shape;
  tensor.dimensions = {spec.dimension};
  for (std::size_t axis = 1; axis < shape.size(); ++axis) {
    tensor.dimensions.push_back(std::to_string(shape[axis]));
  }
  tensor.splits = spec.splits;
  tensor.node_splits = spec.node_splits;
  return tensor;
}

}  // namespace

std::shared_ptr<const DeliveredBatch> ViewExpanded(const PackedBatch& packed,
                                                   const ExpandLayout& layout,
                                                   std::span<std::byte> out,
                                                   std::shared_ptr<const void> owner,
                                                   const TensorMemory& memory) {
  std::vector<DeliveredTensor> tensors;
  const auto add = [&](DeliveredTensor tensor, std::uint64_t offset, std::uint64_t bytes) {
    tensor.data = out.data() + offset;
    tensor.bytes = bytes;
    tensor.memory = memory;
    tensors.push_back(std::move(tensor));
  };
  const auto add_expanded = [&](std::size_t i) {
    add(Described(packed.tensors()[i].spec, layout.dtypes[i], layout.shapes[i]), layout.offsets[i],
        layout.tensor_bytes(i));
  };
  const auto add_place = [&](const TensorSpec& spec, const ComputedPlace& place) {
    add(Described(spec, place.dtype, place.shape), place.offset, place.bytes());
  };
  if (layout.computation == nullptr) {
    for (std::size_t i = 0; i < layout.offsets.size(); ++i) add_expanded(i);
  } else {
    for (const auto& [kind, number] : layout.computation->order()) {
      switch (kind) {
        case internal::DeliveredPlace::Kind::kExpanded:
          add_expanded(number);
          break;
        case internal::DeliveredPlace::Kind::kComputed:
          add_place(layout.computation->computed()[number], layout.computed[number]);
          break;
        case internal::DeliveredPlace::Kind::kMask:
          add_place(layout.computation->masks()[number], layout.masks[number]);
          break;
      }
    }
  }
  return std::make_shared<DeliveredBatch>(InfoOf(packed, layout.rows), std::move(tensors), out,
                                          std::move(owner));
}

std::shared_ptr<const DeliveredBatch> ViewPacked(std::shared_ptr<const PackedBatch> packed) {
  std::vector<DeliveredTensor> tensors;
  for (std::size_t i = 0; i < packed->tensors().size(); ++i) {
    const TensorPlace& place = packed->tensors()[i];
    std::vector<std::uint64_t> shape = {place.rows};
    shape.insert(shape.end(), place.spec.inner.begin(), place.spec.inner.end());
    DeliveredTensor tensor = Described(place.spec, place.spec.dtype, shape);
    tensor.data = packed->tensor_bytes(i).data();
    tensor.bytes = place.bytes;
    tensors.push_back(std::move(tensor));
  }
  const std::span<std::byte> nothing_to_expand;
  return std::make_shared<DeliveredBatch>(packed->info(), std::move(tensors), nothing_to_expand,
                                          packed);
}

}  // namespace millrace
