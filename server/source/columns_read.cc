#include "server/source/columns_read.h"

#include <string_view>
#include <vector>

#include <fmt/core.h>

#include "common/expr/expression.h"
#include "server/source/order_parts.h"

namespace millrace {

std::string LengthColumnOf(std::string_view tensor) { return fmt::format("{}.length", tensor); }

std::set<std::string> ColumnsReadBy(const PlanParts& parts) {
  std::vector<std::string_view> texts = {parts.Get<FilterPart>().where};
  std::set<std::string> columns;
  if (const std::string& packed = parts.Get<PackPart>().tensor; !packed.empty()) {
    columns.insert(LengthColumnOf(packed));
  } else {
    // Beside packs, these read columns of rows, which follow from the lengths of documents.
    texts.emplace_back(parts.Get<BalancePart>().by);
    if (const auto& bucket = parts.Get<BatchPart>().bucket) texts.emplace_back(bucket->by);
  }
  if (const std::string& cut = parts.Get<ChunkPart>().tensor; !cut.empty()) {
    columns.insert(LengthColumnOf(cut));
  }
  for (const std::string_view text : texts) {
    const auto names = Expression::Names(text);
    if (!names.ok()) continue;
    for (const ExpressionName& name : *names) columns.insert(name.name);
  }
  return columns;
}

}  // namespace millrace
