// Values of rows, from a list.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "server/plan/order/row_values.h"

namespace millrace::test {

class ListValues final : public RowValues {
 public:
  explicit ListValues(std::vector<std::uint64_t> values) : values_(std::move(values)) {}

  void Read(std::span<const std::uint64_t> rows, std::span<std::uint64_t> values) const override {
    for (std::size_t i = 0; i < rows.size(); ++i) values[i] = values_.at(rows[i]);
  }

 private:
  std::vector<std::uint64_t> values_;
};

}  // namespace millrace::test
