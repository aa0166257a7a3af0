#include "server/plan/mix/mix_plan.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "server/plan/mix/mixed_tensors.h"

namespace millrace {
namespace {

std::string ShownEdges(const ExpandSpec& edges) {
  return fmt::format("symmetrization {} and {} self edges",
                     SymmetrizationName(edges.symmetrization),
                     edges.add_self_edges ? "added" : "no added");
}

/// How the mix completes edges. All branches have to do it in the same way.
Result<ExpandSpec> MixEdges(const std::vector<SourceBranch>& branches) {
  ExpandSpec mixed = branches.front().source->expand();
  for (const SourceBranch& branch : branches) {
    const ExpandSpec& own = branch.source->expand();
    if (own.merged) {
      return InvalidArgument(fmt::format(
          "branches: {} has one graph a batch, which no other branch can share: expected `closure: "
          "{{merge: false}}` in it",
          branch.name));
    }
    if (own.symmetrization != mixed.symmetrization || own.add_self_edges != mixed.add_self_edges) {
      return InvalidArgument(fmt::format(
          "branches: {} has edges with {}, and {} with {}: expected the same in all branches",
          branches.front().name, ShownEdges(mixed), branch.name, ShownEdges(own)));
    }
    mixed.base_edge_labels = std::max(mixed.base_edge_labels, own.base_edge_labels);
  }
  return mixed;
}

/// Names of drop reasons, with a number for each that no other name has.
class ReasonList {
 public:
  ReasonList() : names_(kDropReasons) {
    for (const DropReason reason : kNamedDropReasons) {
      names_[static_cast<std::size_t>(reason)] = DropReasonName(reason);
    }
  }

  /// The number in the mix of each reason of a source.
  Result<std::array<DropReason, kDropReasons>> Add(const DropReasonNames& own) {
    std::array<DropReason, kDropReasons> numbers = {};
    for (std::size_t i = 1; i < kDropReasons; ++i) {
      numbers[i] = DropReason{static_cast<std::uint8_t>(i)};
      const std::string name(own.Find(i));
      if (name.empty() || name == names_[i]) continue;
      std::size_t number = names_[i].empty() ? i : Find(name);
      if (number == kDropReasons) number = Find("");
      if (number == kDropReasons) {
        return InvalidArgument(fmt::format(
            "branches: their sources drop examples for more than {} reasons", kDropReasons - 1));
      }
      names_[number] = name;
      numbers[i] = DropReason{static_cast<std::uint8_t>(number)};
    }
    return numbers;
  }

  DropReasonNames names() const { return DropReasonNames({names_.begin() + 1, names_.end()}); }

 private:
  /// The first number with this name; kDropReasons if there is none.
  std::size_t Find(std::string_view name) const {
    return static_cast<std::size_t>(std::find(names_.begin() + 1, names_.end(), name) -
                                    names_.begin());
  }

  std::vector<std::string> names_;  // by number; 0 is no reason
};

/// The number of the table whose rows a tensor's values are.
std::optional<std::size_t> TableOf(const JoinedTables& tables, const std::string& path) {
  const std::vector<SourceTableSpec>& specs = tables.specs();
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const std::vector<std::string>& paths = specs[i].tensors;
    if (std::find(paths.begin(), paths.end(), path) != paths.end()) return i;
  }
  return std::nullopt;
}

bool Ascends(std::span<const std::uint32_t> rows) {
  return std::is_sorted(rows.begin(), rows.end());
}

BranchCopy CopyOf(const BranchProgram& program, const JoinedTables& tables, std::size_t branch,
                  const std::vector<TensorSpec>& mixed, std::span<const std::size_t> numbers) {
  BranchCopy copy;
  const std::vector<TensorSpec>& own = program.tensors();
  std::string sorted_edges;  // the splits of edges that are put in a new order
  for (std::size_t to = 0; to < numbers.size(); ++to) {
    const TensorSpec& from = own[numbers[to]];
    if (from.kind == TensorKind::kSplits) continue;  // the writer makes them
    CopiedTensor tensor;
    tensor.to = to;
    tensor.from = numbers[to];
    tensor.from_type = from.dtype;
    if (!from.splits.empty()) tensor.splits = FindTensor(own, from.splits);
    if (const auto table = TableOf(tables, from.path)) tensor.rows = tables.RowsOf(branch, *table);
    if (from.expansion == Expansion::kEdgeLabel && !Ascends(tensor.rows)) {
      copy.sorted_by = copy.tensors.size();
      sorted_edges = from.splits;
    }
    copy.tensors.push_back(tensor);
  }
  for (CopiedTensor& tensor : copy.tensors) {
    tensor.of_sorted_edges = !sorted_edges.empty() && mixed[tensor.to].splits == sorted_edges;
  }
  return copy;
}

}  // namespace

Result<MixPlan> MixPlan::Make(const std::vector<SourceBranch>& branches,
                              std::vector<BranchProgram> programs, JoinedTables joined) {
  MixPlan plan(std::move(programs), std::move(joined));
  MILLRACE_ASSIGN_OR_RETURN(plan.expand, MixEdges(branches));
  std::vector<BranchTensors> come_to;
  for (std::size_t i = 0; i < branches.size(); ++i) {
    come_to.push_back({branches[i].name, plan.programs[i].tensors()});
  }
  MILLRACE_ASSIGN_OR_RETURN(MixedTensors mixed, MixTensors(come_to));
  for (TensorSpec& tensor : mixed.tensors) {
    const auto table = TableOf(plan.tables, tensor.path);
    if (!table) continue;
    const std::uint64_t rows = plan.tables.specs()[*table].table.rows;
    WidenForRows(rows, tensor);
    if (tensor.expansion != Expansion::kEdgeLabel) continue;
    plan.expand.base_edge_labels =
        std::max(plan.expand.base_edge_labels, static_cast<std::uint32_t>(rows));
  }
  ReasonList reasons;
  for (std::size_t i = 0; i < branches.size(); ++i) {
    plan.copies.push_back(
        CopyOf(plan.programs[i], plan.tables, i, mixed.tensors, mixed.numbers[i]));
    MILLRACE_ASSIGN_OR_RETURN(plan.copies[i].reasons,
                              reasons.Add(branches[i].source->facts().drop_reasons));
  }
  plan.reasons = reasons.names();
  plan.tensors = std::move(mixed.tensors);
  return plan;
}

}  // namespace millrace
