// Operations: each makes one tensor from others. An operation is one file in this folder and one
// line in the table (operation_table.cc). It has a name, inputs, parameters with bounds and help, a
// version, and its code.
//
// Binding an operation to the types of its inputs gives the output's type, and every possible error
// except for values. A bound operation is steps of a loop, or a kernel. Steps of several operations
// that follow one another are fused into one loop (loop.h); a kernel needs its inputs in memory.
// After any operation come, in this order, squeeze, shape, scale and offset, and dtype, if the user
// wrote them (after_steps.h). They are steps.
//
// Operations work on whole batches, row by row, also if there are no rows. The same inputs give the
// same bytes everywhere.
//
// Errors of binding are InvalidArgument. The message begins with the name of the parameter at fault
// and ": ", or with the operation's name if an input is at fault.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/base/dtype.h"
#include "common/base/result.h"
#include "common/operations/device_form.h"
#include "common/parameters/params.h"
#include "common/tensor/tensor_view.h"

namespace millrace {

/// Every byte becomes eight values 0 or 1.
struct BitsStep {
  bool lowest_first = false;
};

/// Value o of the output's unit is value map[o] of the input's unit. If the map is empty, units
/// stay as they are and have other extents only.
struct MapStep {
  std::vector<std::uint32_t> map;
};

/// Converts values. With a scale or an offset they are computed in `compute`: the product is
/// rounded, then the offset is added; without an offset +0 is added. Integers wrap.
struct ValueStep {
  /// The CommonType (after_steps.h) of the types before and after the step: never float16 or
  /// bfloat16. It has no meaning without scale and offset.
  DType compute = DType::kFloat64;
  std::vector<ParamNumber> scale;   // empty: no scale; one, or one for each value of a unit
  std::vector<ParamNumber> offset;  // likewise
};

/// The bytes stay as they are and are values of another type.
struct ViewStep {};

struct LoopStep {
  TensorType output;  // after the step
  std::variant<BitsStep, MapStep, ValueStep, ViewStep> what;
};

/// Makes a tensor from others in memory. Immutable; thread-safe.
class Kernel {
 public:
  virtual ~Kernel() = default;
  /// The output's rows. By default as many as the first input's. Called before Splits and Run, and
  /// reads what Splits may read.
  virtual Result<std::uint64_t> Rows(std::span<const TensorView> inputs) const;
  /// Sets the output's splits. Called only if the output is ragged. By default they are the first
  /// input's splits. Reads no values, which may be absent, except where the operation is of_rows:
  /// its inputs are tensors of the source.
  virtual Status Splits(std::span<const TensorView> inputs,
                        std::vector<std::int64_t>& splits) const;
  /// Whether a row of a ragged output has as many elements as the row of each ragged input.
  virtual bool keeps_lengths() const { return true; }
  /// The work of devices in place of Run.
  virtual DeviceForm device_form() const { return {}; }
  /// Bytes of memory that Run needs for intermediate values.
  virtual std::size_t scratch_bytes() const { return 0; }
  /// Fills `out`, which has room for the output's values. `splits` are the output's; `scratch` has
  /// scratch_bytes() or more, aligned to 8.
  virtual Status Run(std::span<const TensorView> inputs, std::span<const std::int64_t> splits,
                     std::span<std::byte> scratch, std::span<std::byte> out) const = 0;
};

/// A bound operation: its kernel, if it has one, and then its steps.
struct BoundOperation {
  std::shared_ptr<const Kernel> kernel;
  TensorType kernel_output;     // if there is a kernel
  std::vector<LoopStep> steps;  // read the kernel's output, or otherwise the only input
  TensorType output;            // of the whole operation
};

/// Tables and arrays of a dataset that `lookup` reads, by name. Their memory has to outlive what is
/// bound to them.
using LookupTables = std::map<std::string, TensorView, std::less<>>;

/// The types, parameters and tables that an operation is bound to. Parameters are checked, and
/// their defaults filled in.
struct BindContext {
  std::span<const TensorType> inputs;
  const Params& params;
  const LookupTables& tables;
};

/// A kind of operation: one line of the table.
struct OperationType {
  std::string name;
  std::string help;           // one line
  std::uint32_t version = 1;  // raised when the same parameters give other values
  /// 0: a use without inputs is bound to one tensor of the batch, which gives the number of rows.
  std::size_t min_inputs = 1;
  std::size_t max_inputs = 1;
  std::vector<Parameter> parameters = {};  // except the parameters of after_steps.h
  /// Names of parameters of which a use has exactly one; empty: no such rule.
  std::vector<std::string> one_of = {};
  /// Names of steps after the operation that have to be written: `dtype` of a cast.
  std::vector<std::string> required_after = {};
  /// Only a worker can run it, because only a worker has its data.
  bool worker_only = false;
  /// It makes one of the tensors of packed rows (pack_kernels.h). Plans make its uses, and users
  /// cannot write them. It reads tensors of the source as they travel, so it costs nothing to leave
  /// it to the consumer. With a parameter `dtype`, its result is delivered in the session's index
  /// type, and read as int64.
  bool of_rows = false;
  std::function<Result<BoundOperation>(const BindContext&)> bind;
  /// The inputs' names, if they follow from parameters (expr). Then a user writes the parameter
  /// with the operation's own name in place of the inputs. Errors as for bind.
  std::function<Result<std::vector<std::string>>(const Params&)> inputs_of = {};
};

/// The table of operations. Tests extend it.
class OperationTable {
 public:
  /// The table of all operations of the product.
  static const OperationTable& Default();
  /// `of_rows`: the operations that are of_rows.
  explicit OperationTable(std::vector<OperationType> operations,
                          std::vector<OperationType> of_rows = {})
      : operations_(std::move(operations)), of_rows_(std::move(of_rows)) {}

  /// Those that users can write.
  std::span<const OperationType> operations() const { return operations_; }
  /// The operation with this name, or nullptr.
  const OperationType* Find(std::string_view name) const;
  /// The same, of those that users can write.
  const OperationType* FindWritten(std::string_view name) const;
  /// Returns this table with one more operation.
  OperationTable With(OperationType operation) const;

 private:
  std::vector<OperationType> operations_;
  std::vector<OperationType> of_rows_;
};

/// All parameters that a use of the operation can have, including the steps after it.
std::vector<Parameter> AllParameters(const OperationType& operation);

/// Checks parameters and inputs, and binds the operation with the steps after it.
Result<BoundOperation> BindOperation(const OperationType& operation,
                                     std::span<const TensorType> inputs, const Params& params,
                                     const LookupTables& tables = {});

}  // namespace millrace
