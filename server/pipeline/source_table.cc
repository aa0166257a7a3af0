#include "server/pipeline/source_table.h"

#include <utility>

#include <fmt/core.h>

#include "server/dataset/coq/source/coq_source.h"

namespace millrace {

const SourceTable& SourceTable::Default() {
  static const SourceTable table = SourceTable()
                                       .With("proof_states", MakeProofStateSource)
                                       .With("definitions", MakeDefinitionSource);
  return table;
}

SourceTable SourceTable::With(std::string name, SourceFactory factory) const {
  SourceTable table = *this;
  table.factories_[std::move(name)] = std::move(factory);
  return table;
}

Result<std::shared_ptr<const Source>> SourceTable::Make(std::shared_ptr<const Dataset> dataset,
                                                        const PlanDraft& draft) const {
  const auto found = factories_.find(draft.source);
  if (found != factories_.end()) return found->second(std::move(dataset), draft);
  std::string known;
  for (const auto& [name, factory] : factories_) known += (known.empty() ? "" : ", ") + name;
  return InvalidArgument(fmt::format("source: expected one of {}, got '{}'", known, draft.source));
}

}  // namespace millrace
