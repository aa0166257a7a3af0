// A use of the operation `python`: which function of a plugin makes which tensors, and how it is
// called.
//
// Value types and pure functions.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/operations/tensor_graph.h"
#include "common/parameters/params.h"
#include "common/tensor/tensor_type.h"

namespace millrace {

inline constexpr std::string_view kPythonOperation = "python";

struct PythonFunction {
  struct Input {
    std::string argument;  // of the function
    std::string tensor;
  };
  struct Output {
    std::string name;  // the key under which the function returns it; empty: it returns one tensor
    TensorType type;
  };

  std::string object;  // "module:name"
  std::vector<Input> inputs;
  std::vector<Output> outputs;  // at least one
  std::string args;             // a JSON object
  bool per_batch = false;       // called for a whole batch at once
  std::vector<std::string> drop;
  std::int64_t timeout_seconds = 60;
  bool random = false;
  std::optional<std::int64_t> seed;
};

/// The definition to which the name of a tensor belongs: its own, with `.length`, or of one of
/// several tensors. `find` returns the definition of exactly this name, or nullptr. Null: the name
/// belongs to no definition. `/` and `.` are the same.
const TensorDefinition* DefinitionOf(
    std::string_view name, const std::function<const TensorDefinition*(std::string_view)>& find);

/// Reads the parameters of a use, with or without their defaults. InvalidArgument begins with the
/// parameter at fault and ": ".
Result<PythonFunction> ReadPythonFunction(const Params& params);

}  // namespace millrace
