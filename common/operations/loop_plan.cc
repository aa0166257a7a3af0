#include "common/operations/loop_plan.h"

#include <cstring>
#include <type_traits>
#include <utility>

#include "common/tensor/dtype_visit.h"

namespace millrace {
namespace {

template <class T>
std::vector<T> Moved(const std::vector<T>& values, const std::vector<std::uint32_t>& map) {
  std::vector<T> moved;
  moved.reserve(map.size());
  for (const std::uint32_t place : map) moved.push_back(values[place]);
  return moved;
}

bool StaysInPlace(const std::vector<std::uint32_t>& map, std::uint64_t values) {
  if (map.size() != values) return false;
  for (std::size_t i = 0; i < map.size(); ++i) {
    if (map[i] != i) return false;
  }
  return true;
}

}  // namespace

std::vector<std::byte> RepeatedNumbers(std::span<const ParamNumber> numbers, int absent,
                                       DType compute, std::size_t count) {
  std::vector<std::byte> bytes(count * DTypeSize(compute));
  VisitValues(compute, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_arithmetic_v<T>) {
      for (std::size_t i = 0; i < count; ++i) {
        auto value = static_cast<T>(absent);
        if (!numbers.empty()) {
          value = std::visit([](auto number) { return ConvertValue<T>(number); },
                             numbers[i % numbers.size()]);
        }
        std::memcpy(bytes.data() + i * sizeof value, &value, sizeof value);
      }
    }
  });
  return bytes;
}

bool LoopPlan::Append(const LoopStep& step) {
  if (std::holds_alternative<ViewStep>(step.what)) {
    if (!only_views()) return false;
    source_ = step.output;
  } else if (const auto* bits = std::get_if<BitsStep>(&step.what)) {
    if (bits_ || converts()) return false;
    AppendBits(*bits);
    if (output_.inner.empty()) split_factor_ = 8;
  } else if (const auto* move = std::get_if<MapStep>(&step.what)) {
    if (!move->map.empty() && !AppendMap(move->map)) return false;
  } else {
    values_.push_back({std::get<ValueStep>(step.what), output_.dtype, step.output.dtype});
  }
  output_ = step.output;
  return true;
}

void LoopPlan::AppendBits(const BitsStep& step) {
  const std::uint64_t bytes = output_.UnitElements();
  std::vector<std::uint32_t> map;
  map.reserve(8 * bytes);
  for (std::uint64_t i = 0; i < bytes; ++i) {
    const std::uint32_t first = 8 * (map_.empty() ? static_cast<std::uint32_t>(i) : map_[i]);
    for (std::uint32_t bit = 0; bit < 8; ++bit) {
      map.push_back(first + (step.lowest_first ? bit : 7 - bit));
    }
  }
  map_ = std::move(map);
  bits_ = true;
}

std::vector<LoopPass> LoopPlan::Passes() const {
  std::vector<LoopPass> passes;
  const auto convert = [&](DType from, DType to) {
    if (from != to) passes.push_back({from, to});
  };
  for (const Values& values : values_) {
    const ValueStep& step = values.step;
    if (step.scale.empty() && step.offset.empty()) {
      convert(values.input, values.output);
      continue;
    }
    convert(values.input, step.compute);
    passes.push_back({step.compute, step.compute, &step});
    convert(step.compute, values.output);
  }
  return passes;
}

bool LoopPlan::AppendMap(const std::vector<std::uint32_t>& map) {
  if (split_factor_ != 1) return false;
  map_ = map_.empty() ? map : Moved(map_, map);
  for (Values& values : values_) {
    if (values.step.scale.size() > 1) values.step.scale = Moved(values.step.scale, map);
    if (values.step.offset.size() > 1) values.step.offset = Moved(values.step.offset, map);
  }
  if (!bits_ && StaysInPlace(map_, source_.UnitElements())) map_.clear();
  return true;
}

}  // namespace millrace
