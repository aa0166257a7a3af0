#include "server/kinds/coq/coq_tables.h"

#include <utility>

#include <fmt/core.h>

#include "server/files/damaged_files.h"
#include "server/kinds/coq/coq_parts.h"
#include "server/sampling/closure_parts.h"
#include "server/source/order_parts.h"

namespace millrace {

Result<CoqTables> CoqTables::Make(std::shared_ptr<const CoqDataset> dataset,
                                  const PlanParts& parts) {
  const DatasetIndex& index = dataset->index();
  MILLRACE_RETURN_IF_ERROR(index.CheckRecords().WithContext(dataset->dir().string()));
  std::vector<bool> excluded(index.files().size(), false);
  for (const std::string& name : parts.Get<ExcludePart>().files) {
    std::uint32_t file = 0;
    while (file < excluded.size() && index.file_name(file) != name) ++file;
    // The dataset has it: whoever compiles a pipeline has looked.
    if (file < excluded.size()) excluded[file] = true;
  }
  const auto& numbering = parts.Get<CoqNumberingPart>();
  const auto& closure = parts.Get<ClosurePart>();
  const auto& edges = parts.Get<EdgesPart>();
  NodeLabels labels(index, numbering.restrict_to_spine);
  TacticTable tactics(index, labels, numbering.required_tactic_occurrence);
  return CoqTables{std::move(dataset),
                   std::move(labels),
                   std::move(tactics),
                   std::move(excluded),
                   closure.options,
                   ExpandSpec{kBaseEdgeLabels, edges.symmetrization, edges.add_self_edges},
                   ChooseKernel(index.nodes(), closure)};
}

Status CoqTables::CheckIntact() const {
  std::vector<std::string> needed;
  std::string what;
  for (const DamagedFile& damage : dataset->Damages()) {
    if (damage.file == DamagedFile::kIndex)
      return DamagedIndexStatus(dataset->dir().string(), damage);
    if (excluded[damage.file]) continue;
    needed.push_back(damage.name);
    what += fmt::format("{}{}: {}", what.empty() ? "" : "; ", damage.name, damage.what);
  }
  if (needed.empty()) return OkStatus();
  std::vector<std::string> excluded_names;
  for (std::uint32_t f = 0; f < excluded.size(); ++f) {
    if (excluded[f]) excluded_names.emplace_back(index().file_name(f));
  }
  return DamagedFilesStatus(dataset->dir().string(), what, excluded_names, needed);
}

}  // namespace millrace
