// One tensor of a batch, as Python sees it.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include <nanobind/nanobind.h>

#include "client/python/src/batch.h"

namespace millrace::python {

/// One tensor of a batch, or several at equal distances that are the rows of this one.
class Tensor {
 public:
  Tensor(std::shared_ptr<HeldBatch> batch, const DeliveredTensor& tensor)
      : batch_(std::move(batch)),
        tensor_(tensor),
        shape_(tensor.shape.begin(), tensor.shape.end()),
        strides_(shape_.size()) {
    Py_ssize_t stride = DTypeSize(tensor.dtype);
    for (std::size_t d = shape_.size(); d-- > 0;) {
      strides_[d] = stride;
      stride *= shape_[d];
    }
    batch_->Lend(tensor_.path);
  }
  /// `rows` tensors like `first`. Each begins `row_bytes` bytes after the start of the one before.
  Tensor(std::shared_ptr<HeldBatch> batch, const DeliveredTensor& first, Py_ssize_t rows,
         Py_ssize_t row_bytes)
      : Tensor(std::move(batch), first) {
    contiguous_ = row_bytes == static_cast<Py_ssize_t>(first.bytes);
    shape_.insert(shape_.begin(), rows);
    strides_.insert(strides_.begin(), row_bytes);
  }
  ~Tensor() { batch_->TakeBack(tensor_.path); }
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;

  const DeliveredTensor& tensor() const { return tensor_; }
  const std::vector<Py_ssize_t>& shape() const { return shape_; }
  const std::vector<Py_ssize_t>& strides() const { return strides_; }
  bool contiguous() const { return contiguous_; }
  Py_ssize_t bytes() const {
    Py_ssize_t bytes = DTypeSize(tensor_.dtype);
    for (const Py_ssize_t extent : shape_) bytes *= extent;
    return bytes;
  }
  // Frameworks may write to the memory: it is the session's own, and nobody else reads it.
  void* data() const { return const_cast<std::byte*>(tensor_.data); }

 private:
  const std::shared_ptr<HeldBatch> batch_;
  const DeliveredTensor& tensor_;  // lives in batch_
  std::vector<Py_ssize_t> shape_;
  std::vector<Py_ssize_t> strides_;  // in bytes
  bool contiguous_ = true;
};

/// Registers Tensor.
void BindTensor(nanobind::module_& module);

}  // namespace millrace::python
