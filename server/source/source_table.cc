#include "server/source/source_table.h"

#include <utility>

#include <fmt/core.h>

#include "server/source/dataset.h"

namespace millrace {

Result<std::shared_ptr<const Source>> SourceTable::Make(std::string_view name,
                                                        std::shared_ptr<const Dataset> dataset,
                                                        const PlanParts& parts) const {
  std::string known;
  for (const SourceType& source : sources_) {
    if (source.name == name) return source.make(std::move(dataset), parts);
    known += (known.empty() ? "" : ", ") + source.name;
  }
  return InvalidArgument(fmt::format("source: a dataset of kind {} has {}, got '{}'",
                                     dataset->kind(), known.empty() ? "none" : known, name));
}

}  // namespace millrace
