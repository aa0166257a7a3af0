#include "common/expand/delivery.h"

#include <utility>

#include "common/expand/computation.h"

namespace millrace {

Result<Delivery> Delivery::Make(std::vector<TensorSpec> tensors, ConsumerProgram program,
                                DType index_dtype) {
  Delivery delivery(index_dtype);
  MILLRACE_ASSIGN_OR_RETURN(
      delivery.computation_,
      internal::Computation::Make(std::move(tensors), std::move(program), index_dtype));
  return delivery;
}

std::span<const std::string> Delivery::phases() const {
  if (computation_ == nullptr) return {};
  return computation_->phases();
}

Delivery Delivery::WatchedBy(ProgramObserver* observer) const {
  Delivery watched = *this;
  watched.observer_ = observer;
  return watched;
}

std::optional<GraphPad> Delivery::graph_pad() const {
  if (computation_ == nullptr || !computation_->padding()) return std::nullopt;
  return computation_->padding()->pad();
}

std::vector<DeliveryTensor> Delivery::Tensors(std::span<const TensorSpec> tensors) const {
  std::vector<DeliveryTensor> delivered;
  const auto add_expanded = [&](const TensorSpec& tensor) {
    const bool kept = tensor.expansion == Expansion::kKeep;
    delivered.push_back({tensor, kept ? tensor.dtype : index_dtype_});
  };
  if (computation_ == nullptr) {
    for (const TensorSpec& tensor : tensors) add_expanded(tensor);
    return delivered;
  }
  using Kind = internal::DeliveredPlace::Kind;
  for (const auto& [kind, number] : computation_->order()) {
    if (kind == Kind::kExpanded) {
      add_expanded(tensors[number]);
    } else {
      const auto& made = kind == Kind::kMask ? computation_->masks() : computation_->computed();
      delivered.push_back({made[number], made[number].dtype, true});
    }
    if (computation_->padding()) {
      delivered.back().rows = computation_->padding()->RowsOf(delivered.back().packed);
    }
  }
  return delivered;
}

}  // namespace millrace
