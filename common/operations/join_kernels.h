// Kernels that put several tensors together, for concat and stack.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/operations/operation.h"

namespace millrace {

/// Takes pieces of the inputs' units in turn: the first piece of every input, then the second one,
/// and so on. If the inputs are ragged, all have to have the same lengths.
class JoinUnits : public Kernel {
 public:
  /// `piece_bytes` has the size of a piece for each input; a unit has `pieces` of them. Errors
  /// begin with `name`.
  JoinUnits(std::string name, std::vector<std::uint64_t> piece_bytes, std::uint64_t pieces)
      : name_(std::move(name)), piece_bytes_(std::move(piece_bytes)), pieces_(pieces) {}

  Status Splits(std::span<const TensorView> inputs,
                std::vector<std::int64_t>& splits) const override;
  Status Run(std::span<const TensorView> inputs, std::span<const std::int64_t> splits,
             std::span<std::byte> scratch, std::span<std::byte> out) const override;

 private:
  const std::string name_;
  const std::vector<std::uint64_t> piece_bytes_;
  const std::uint64_t pieces_;
};

/// Puts the rows of ragged tensors one after another.
class JoinRows : public Kernel {
 public:
  bool keeps_lengths() const override { return false; }
  Status Splits(std::span<const TensorView> inputs,
                std::vector<std::int64_t>& splits) const override;
  Status Run(std::span<const TensorView> inputs, std::span<const std::int64_t> splits,
             std::span<std::byte> scratch, std::span<std::byte> out) const override;
};

}  // namespace millrace
