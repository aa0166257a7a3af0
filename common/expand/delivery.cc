#include "common/expand/delivery.h"

#include <utility>

#include "common/expand/computation.h"

namespace millrace {

Result<Delivery> Delivery::Make(std::vector<TensorSpec> tensors, TensorGraphText program,
                                DType index_dtype) {
  Delivery delivery(index_dtype);
  MILLRACE_ASSIGN_OR_RETURN(
      delivery.computation_,
      internal::Computation::Make(std::move(tensors), std::move(program), index_dtype));
  return delivery;
}

std::span<const std::string> Delivery::parts() const {
  if (computation_ == nullptr) return {};
  return computation_->parts();
}

Delivery Delivery::WatchedBy(ProgramObserver* observer) const {
  Delivery watched = *this;
  watched.observer_ = observer;
  return watched;
}

std::vector<DeliveryTensor> Delivery::Tensors(std::span<const TensorSpec> tensors) const {
  std::vector<DeliveryTensor> delivered;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (computation_ != nullptr && !computation_->expanded()[i]) continue;
    const bool kept = tensors[i].expansion == Expansion::kKeep;
    delivered.push_back({tensors[i], kept ? tensors[i].dtype : index_dtype_});
  }
  if (computation_ == nullptr) return delivered;
  for (const TensorSpec& tensor : computation_->computed()) {
    delivered.push_back({tensor, tensor.dtype, true});
  }
  return delivered;
}

}  // namespace millrace
