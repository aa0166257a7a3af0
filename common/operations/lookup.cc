// lookup: rows of a table, or of an array of the dataset, by number.

#include <algorithm>
#include <cstring>

#include <fmt/core.h>

#include "common/operations/operation.h"
#include "common/parameters/make_parameter.h"
#include "common/tensor/dtype_visit.h"

namespace millrace {
namespace {

class Lookup : public Kernel {
 public:
  Lookup(std::string name, TensorView table) : name_(std::move(name)), table_(table) {}

  Status Run(std::span<const TensorView> inputs, std::span<const std::int64_t>,
             std::span<std::byte>, std::span<std::byte> out) const override {
    const TensorView& input = inputs.front();
    const std::size_t unit = table_.type->UnitBytes();
    const bool bools = table_.type->dtype == DType::kBool;
    return VisitValues(input.type->dtype, [&](auto zero) -> Status {
      using T = decltype(zero);
      if constexpr (std::is_integral_v<T>) {
        const std::span<const T> values = {reinterpret_cast<const T*>(input.values.data()),
                                           input.values.size() / sizeof(T)};
        for (std::size_t i = 0; i < values.size(); ++i) {
          // A negative number becomes one that is beyond any table.
          if (static_cast<std::uint64_t>(values[i]) >= table_.rows) {
            return OutOfRange(fmt::format("lookup: '{}' has {} rows, and a number is {}", name_,
                                          table_.rows, values[i]));
          }
          const std::span<std::byte> row = out.subspan(i * unit, unit);
          std::memcpy(row.data(), table_.values.data() + static_cast<std::size_t>(values[i]) * unit,
                      unit);
          if (bools && std::any_of(row.begin(), row.end(),
                                   [](std::byte bits) { return bits > std::byte{1}; })) {
            return OutOfRange(fmt::format(
                "lookup: row {} of '{}' has a bool that is neither 0 nor 1", values[i], name_));
          }
        }
        return OkStatus();
      } else {
        return Internal("lookup: bound to numbers that are no integers");
      }
    });
  }

 private:
  const std::string name_;
  const TensorView table_;
};

}  // namespace

OperationType LookupOperation() {
  OperationType operation;
  operation.name = "lookup";
  operation.help = "rows of a table or of an array of the dataset, by number";
  operation.worker_only = true;
  operation.parameters = {
      Required(NonEmptyTextParameter("table", "the name of the table or array")),
  };
  operation.bind = [](const BindContext& context) -> Result<BoundOperation> {
    const TensorType& input = context.inputs.front();
    if (!IsInteger(input.dtype)) {
      return InvalidArgument(
          fmt::format("lookup: expected integers, got {}", DescribeTensorType(input)));
    }
    const std::string& name = context.params.GetText("table");
    const auto table = context.tables.find(name);
    if (table == context.tables.end()) {
      return InvalidArgument(fmt::format("table: there is no table or array '{}'", name));
    }
    if (table->second.type->ragged) {
      return InvalidArgument(fmt::format("table: the rows of '{}' are ragged", name));
    }
    BoundOperation bound;
    bound.kernel = std::make_shared<Lookup>(name, table->second);
    bound.kernel_output = input;
    bound.kernel_output.dtype = table->second.type->dtype;
    const std::vector<std::uint32_t>& row = table->second.type->inner;
    bound.kernel_output.inner.insert(bound.kernel_output.inner.end(), row.begin(), row.end());
    return bound;
  };
  return operation;
}

}  // namespace millrace
