#include "server/kinds/coq/context_table.h"

#include <algorithm>

#include "server/kinds/coq/context_table_builder.h"

namespace millrace {

ContextTable::ContextTable(const DatasetIndex& index, const NodeLabels& labels,
                           std::span<const std::uint32_t> definitions)
    : index_(&index), labels_(&labels) {
  Builder(this, definitions).Run();
}

std::uint64_t ContextTable::Length(Context context) const {
  const std::uint64_t own =
      context.start == kNoRef ? 0 : std::uint64_t{index_->definitions()[context.start].depth} + 1;
  return lists_[context.list].length + own;
}

bool ContextTable::IsBefore(std::uint32_t ancestor, std::uint32_t definition) const {
  const DefinitionRecord& a = index_->definitions()[ancestor];
  const DefinitionRecord& d = index_->definitions()[definition];
  return a.file == d.file && a.enter <= d.enter && d.enter < a.exit;
}

std::uint32_t ContextTable::FindInList(std::uint32_t list, std::uint32_t file) const {
  // On the way from a list to the root, a file occurs only once. So the lists that end with this
  // file cover disjoint parts of the walk.
  const auto first = lists_of_file_.begin() + first_list_of_file_[file];
  const auto last = lists_of_file_.begin() + first_list_of_file_[file + 1];
  const std::uint32_t enter = lists_[list].enter;
  const auto after = std::upper_bound(
      first, last, enter, [this](std::uint32_t e, std::uint32_t l) { return e < lists_[l].enter; });
  if (after == first) return kNoRef;
  const std::uint32_t found = *(after - 1);
  return enter < lists_[found].exit ? found : kNoRef;
}

std::uint32_t ContextTable::Position(std::uint32_t context, std::uint32_t definition) const {
  const auto [list, start] = contexts_[context];
  const std::span<const DefinitionRecord> definitions = index_->definitions();
  if (start != kNoRef && IsBefore(definition, start)) {
    return static_cast<std::uint32_t>(lists_[list].length + definitions[start].depth -
                                      definitions[definition].depth);
  }
  const std::uint32_t file = definitions[definition].file;
  const std::uint32_t found = FindInList(list, file);
  if (found == kNoRef) return kNoRef;
  const std::uint32_t representative = index_->files()[file].representative;
  if (!IsBefore(definition, representative)) return kNoRef;
  return static_cast<std::uint32_t>(lists_[lists_[found].parent].length +
                                    definitions[representative].depth -
                                    definitions[definition].depth);
}

void ContextTable::AppendLabels(Context context, std::vector<std::uint32_t>* out) const {
  const std::size_t begin = out->size();
  const std::uint64_t length = Length(context);
  out->resize(begin + length);
  // A list is linked from its end to its start.
  for (std::uint32_t l = context.list; l != 0; l = lists_[l].parent) {
    std::uint32_t* to = out->data() + begin + lists_[lists_[l].parent].length;
    for (const std::uint32_t definition :
         Sub(index_->spines(), index_->files()[lists_[l].file].spine)) {
      *to++ = labels_->Label(definition);
    }
  }
  std::uint32_t* to = out->data() + begin + lists_[context.list].length;
  for (std::uint32_t d = context.start; d != kNoRef; d = index_->definitions()[d].previous) {
    *to++ = labels_->Label(d);
  }
}

}  // namespace millrace
