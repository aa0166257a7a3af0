// The steps of a loop: operations that follow one another, fused so that each value is read and
// written once. All steps that move values fold into one map from the output's unit to the input's;
// steps that convert values are passes over the values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/operations/operation.h"

namespace millrace {

/// One pass over the values of a loop.
struct LoopPass {
  DType from;
  DType to;
  /// Null: values are converted. Otherwise they are multiplied and added to, in the type `to`,
  /// which is `from`.
  const ValueStep* scaled = nullptr;
};

/// The numbers as values of `compute`, repeated until there are `count`. A value that no number
/// gives is `absent`.
std::vector<std::byte> RepeatedNumbers(std::span<const ParamNumber> numbers, int absent,
                                       DType compute, std::size_t count);

/// Value type.
class LoopPlan {
 public:
  explicit LoopPlan(const TensorType& input) : source_(input), output_(input) {}

  /// Adds a step after the others. False if this loop cannot have it: then another loop has to read
  /// this one's output.
  bool Append(const LoopStep& step);

  /// The input, as the views at the beginning see it.
  const TensorType& source() const { return source_; }
  const TensorType& output() const { return output_; }
  /// Value i of the output's unit is value map[i] of the input's unit. Empty: values stay where
  /// they are.
  const std::vector<std::uint32_t>& map() const { return map_; }
  /// The map's places are bits: place 8 b + s is bit s of byte b, s = 0 being the least
  /// significant.
  bool bits() const { return bits_; }
  /// The passes over the fetched values. They refer to the plan.
  std::vector<LoopPass> Passes() const;
  /// Values of a unit of the output.
  std::uint64_t unit_values() const { return map_.empty() ? source_.UnitElements() : map_.size(); }

  /// The loop would only copy its input.
  bool only_views() const { return map_.empty() && values_.empty(); }
  bool converts() const { return !values_.empty(); }
  /// The output's splits are the input's, multiplied by this.
  std::int64_t split_factor() const { return split_factor_; }

 private:
  struct Values {
    ValueStep step;
    DType input;
    DType output;
  };

  void AppendBits(const BitsStep& step);
  bool AppendMap(const std::vector<std::uint32_t>& map);

  TensorType source_;
  TensorType output_;
  bool bits_ = false;
  std::vector<std::uint32_t> map_;
  std::vector<Values> values_;
  std::int64_t split_factor_ = 1;
};

}  // namespace millrace
