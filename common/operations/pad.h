// pad: a ragged tensor becomes dense. Every row is filled up to one extent, which depends on the
// batch, so pad is the last step of a delivery and no operation of the table. The operation
// `length` makes another tensor with the former lengths of rows.
//
// Immutable value type.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/parameters/params.h"
#include "common/tensor/tensor_view.h"

namespace millrace {

class Pad {
 public:
  /// Parameters that users write: value (0), multiple (1), to: a number of elements, or `bound`.
  static const std::vector<Parameter>& Parameters();
  /// A parameter that only plans write: length_of().
  static constexpr std::string_view kLengthOf = "length_of";
  /// Errors are as for BindOperation.
  static Result<Pad> Bind(const TensorType& type, const Params& params);

  /// The tensor whose former lengths are delivered beside the output; empty: the output's own.
  const std::string& length_of() const { return length_of_; }
  /// Whether Extent needs the bound of the batch's class.
  bool needs_bound() const { return to_bound_; }
  /// The extent of every batch, if `to` is a number.
  std::optional<std::uint32_t> fixed_extent() const { return to_; }

  /// The elements of each row after padding: `to`, or otherwise as many as the longest row or the
  /// bound of the batch's class, rounded up to the multiple; 0 for a bound if there are no rows.
  /// InvalidArgument if a row has more.
  Result<std::uint32_t> Extent(const TensorView& input, std::optional<std::uint32_t> bound) const;

  /// The filling of rows, repeated to 8 bytes.
  std::span<const std::byte> fill() const { return value_; }

  /// The type of a padded batch. Its first inner extent, which may be 0, is `extent`. `padded` is a
  /// type whose memory is used again.
  static void SetPadded(const TensorType& type, std::uint32_t extent, TensorType& padded);

  /// Writes the padded values. REQUIRES: `extent` is the result of Extent.
  void Run(const TensorView& input, std::uint32_t extent, std::byte* out) const;
  /// Writes rows without any element, only filled up. REQUIRES: `out` is a whole number of rows.
  void Fill(std::span<std::byte> out) const;

 private:
  std::vector<std::byte> value_;  // of the tensor's dtype, repeated to 8 bytes
  std::uint32_t multiple_ = 1;
  std::optional<std::uint32_t> to_;
  bool to_bound_ = false;
  std::string length_of_;
};

}  // namespace millrace
