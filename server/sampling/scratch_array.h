// An array for hot loops that is filled and read again and again. Room is made for many elements at
// once. Elements are then written through a pointer, without a check for each, and the memory is
// kept.
//
// Not thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

namespace millrace {

template <class T>
class ScratchArray {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  std::size_t size() const { return size_; }
  const T* data() const { return data_.get(); }
  T* data() { return data_.get(); }
  std::span<const T> span() const { return {data_.get(), size_}; }

  std::size_t capacity() const { return capacity_; }
  /// Makes room for `count` elements in all, and keeps the elements below size(). Pointers to
  /// elements are valid until the next call.
  void Reserve(std::size_t count) {
    if (count <= capacity_) return;
    const std::size_t capacity = std::max<std::size_t>(2 * count, 1024);
    std::unique_ptr<T[]> data(new T[capacity]);
    std::copy(data_.get(), data_.get() + size_, data.get());
    data_ = std::move(data);
    capacity_ = capacity;
  }
  /// Sets how many elements the caller has written. REQUIRES: size <= capacity().
  void SetSize(std::size_t size) { size_ = size; }

 private:
  std::unique_ptr<T[]> data_;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace millrace
