// The facts about an object that its pool knows, and the columns of a source.
//
// Values.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "server/plugin/plugin_config.h"
#include "server/plugin/reply/reply_message.h"
#include "server/plugin/reply/reply_table.h"

namespace millrace {

struct PluginFacts {
  /// The number of examples of a source.
  std::uint64_t length = 0;
  /// The tensors of a source, in the order of spec(), or the outputs of a function.
  std::vector<PluginTensor> tensors;
  /// The columns that a source names. Columns without a type are not known, and have to be
  /// measured.
  struct Column {
    std::string name;
    std::optional<DType> dtype;  // int64 or float64
  };
  std::vector<Column> columns;
  std::optional<std::string> digest;  // of digest()
  bool has_version = false;           // whether a source has version(i)
  /// Whether results depend on keys: a source with example(), a function with `rng` or `rngs`, or
  /// `random`. Examples of such a source change from epoch to epoch.
  bool uses_chance = false;
  /// A line "python 3.11", then sorted lines "NAME VERSION" of every installed distribution that a
  /// loaded module belongs to.
  std::string environment;
  std::string python;  // "3.11.2"
  std::string numpy;
  Digest128 files;  // of the plugin's files
};

/// The tensors that a plugin declares. FailedPrecondition names the one whose type cannot be read
/// or whose name is not `word` or `word/word`.
Result<std::vector<PluginTensor>> ReadSpec(const std::vector<OpenedMessage::Tensor>& spec);

/// The values of a column, one per example, as int64 or float64.
struct PluginColumn {
  std::vector<std::int64_t> integers;  // one of the two is empty
  std::vector<double> floats;
  bool is_float = false;
};

/// Compares columns with built examples: the value of a tensor without extents, or `T.length`, the
/// first extent of a ragged tensor.
class ColumnCheck {
 public:
  /// Whether a column of this name can be compared with the tensor.
  static bool Fits(const std::string& column, const PluginTensor& tensor);

  ColumnCheck(std::size_t tensor, std::string column, TensorType type,
              std::shared_ptr<const PluginColumn> values)
      : tensor_(tensor),
        name_(std::move(column)),
        type_(std::move(type)),
        values_(std::move(values)) {}

  /// The contradiction of an example, in words; empty if the column agrees. `place` is its place in
  /// `memory`. REQUIRES: the column has a value of this example; the place is within the memory.
  std::string Contradiction(std::uint64_t example, const RowPlace& place,
                            std::span<const std::byte> memory) const;
  std::size_t tensor() const { return tensor_; }

 private:
  std::size_t tensor_;
  std::string name_;
  TensorType type_;
  std::shared_ptr<const PluginColumn> values_;
};

}  // namespace millrace
