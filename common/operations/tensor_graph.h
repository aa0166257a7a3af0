// A graph of named tensors: the source's tensors, and others that are each computed by one
// operation from tensors of the graph. Binding finds every error except errors of values.
//
// The order in which tensors are defined means nothing. Equal operations on equal inputs are one
// node, so they are computed once. Nodes that no output needs are not in the graph. If X is a
// ragged tensor, X.length is the number of elements of each row, without being defined.
//
// Immutable value type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/operations/operation.h"
#include "common/operations/pad.h"

namespace millrace {

/// Where a user wants a tensor to be computed.
enum class RunPlace : std::uint8_t { kAny, kWorker, kConsumer };

/// A tensor as a user defines it.
struct TensorDefinition {
  std::string name;
  std::string operation;
  std::vector<std::string> inputs;  // a `/` of a tensor's name may be written `.`
  Params params = {};
  RunPlace at = RunPlace::kAny;
};

struct SourceTensor {
  std::string name;
  TensorType type;
  /// An integer whose packed type means nothing to a user, because it is as narrow as the data
  /// allow. Operations read it as int64.
  bool widened = false;
  /// Why no operation can read it, such as "edge_source: its numbers are those of nodes"; empty:
  /// operations can. It may be an output.
  std::string unreadable = {};
  /// It is there for operations, and no output unless it is named.
  bool internal = false;
};

/// Everything that a graph is made of.
struct TensorGraphText {
  std::vector<SourceTensor> sources;
  std::vector<TensorDefinition> definitions;        // names are words, or words joined by dots
  std::optional<std::vector<std::string>> outputs;  // absent: all unread tensors
  std::map<std::string, Params> pads;               // of outputs
  /// The type of a widened source tensor that is padded, int32 or int64.
  DType index_dtype = DType::kInt64;
};

/// One tensor, whatever names it has.
struct TensorNode {
  std::string name;                 // its first name, by bytes
  const OperationType* operation;   // nullptr: the source's
  std::vector<std::size_t> inputs;  // numbers of nodes, all smaller than this node's
  RunPlace at = RunPlace::kAny;
  TensorType type;
  BoundOperation bound;
  Params params = {};  // as they were given
  /// The widened form of a source's tensor. It has the name of that tensor, and is an output only
  /// if it is padded.
  bool implicit = false;
};

/// A tensor that is delivered.
struct TensorOutput {
  std::string name;
  std::size_t node;
  std::optional<Pad> pad;
};

class TensorGraph {
 public:
  /// An error is InvalidArgument. The message begins with the name of the tensor at fault and ": ",
  /// and continues with the error of BindOperation, or about the tensor. An error in an output
  /// begins with "output: ". The table and the tables have to outlive the graph.
  static Result<TensorGraph> Bind(const TensorGraphText& text,
                                  const OperationTable& table = OperationTable::Default(),
                                  const LookupTables& tables = {});

  /// Inputs come before tensors that are computed from them.
  const std::vector<TensorNode>& nodes() const { return nodes_; }
  /// In the order of delivery: the source's tensors, padded or not, then the others by the bytes of
  /// their names.
  const std::vector<TensorOutput>& outputs() const { return outputs_; }
  /// Names that were defined and are not computed, because no output needs them; by bytes.
  const std::vector<std::string>& unused() const { return unused_; }

 private:
  friend class TensorGraphBinder;

  std::vector<TensorNode> nodes_;
  std::vector<TensorOutput> outputs_;
  std::vector<std::string> unused_;
};

}  // namespace millrace
