#include "client/session/run/static_tables.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

namespace millrace::client {

Result<std::shared_ptr<const StaticTables>> StaticTables::Parse(std::string_view bytes,
                                                                std::uint64_t base_node_labels) {
  v1::Static tables;
  if (bytes.size() > std::size_t{1} << 31 ||
      !tables.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return DataLoss(fmt::format("{} bytes that are no static tables", bytes.size()));
  }
  const v1::Vocabulary& from = tables.vocabulary();
  VocabularyTable vocabulary;
  vocabulary.node_label_names.assign(from.node_label_names().begin(),
                                     from.node_label_names().end());
  vocabulary.node_label_idents.assign(from.node_label_idents().begin(),
                                      from.node_label_idents().end());
  vocabulary.edge_label_names.assign(from.edge_label_names().begin(),
                                     from.edge_label_names().end());
  for (const v1::Tactic& tactic : from.tactics()) {
    vocabulary.tactics.push_back(
        {tactic.ident(), tactic.base_text(), tactic.arguments(), tactic.count()});
  }
  vocabulary.files.assign(from.files().begin(), from.files().end());
  vocabulary.labels_of_file.assign(from.labels_of_file().begin(), from.labels_of_file().end());
  const std::shared_ptr<const StaticTables> parsed(
      new StaticTables(std::move(vocabulary), std::move(*tables.mutable_contexts()),
                       static_cast<std::uint32_t>(base_node_labels)));
  MILLRACE_RETURN_IF_ERROR(parsed->Check());
  return parsed;
}

Status StaticTables::Check() const {
  const auto lists = static_cast<std::uint32_t>(contexts_.list_parent_size());
  const auto files = static_cast<std::uint32_t>(contexts_.file_representative_size());
  const std::uint64_t labels = base_ + static_cast<std::uint64_t>(contexts_.previous_label_size());
  // `label` is the label of a node plus 1, or 0 for none.
  const auto is_definition = [&](std::uint32_t label) {
    return label == 0 || (label > base_ && label <= labels);
  };
  const auto bad = [](const char* what, int at) {
    return DataLoss(fmt::format("static tables: {} {} refers to what does not exist", what, at));
  };
  if (vocabulary_.files.size() != vocabulary_.labels_of_file.size()) {
    return DataLoss(fmt::format("static tables: {} files, but numbers of labels for {}",
                                vocabulary_.files.size(), vocabulary_.labels_of_file.size()));
  }
  if (contexts_.list_file_size() != contexts_.list_parent_size() ||
      contexts_.context_start_size() != contexts_.context_list_size()) {
    return DataLoss("static tables: columns of one table differ in length");
  }
  for (int i = 0; i < contexts_.previous_label_size(); ++i) {
    if (!is_definition(contexts_.previous_label(i))) return bad("definition", i);
  }
  for (int i = 0; i < contexts_.file_representative_size(); ++i) {
    if (!is_definition(contexts_.file_representative(i))) return bad("file", i);
  }
  for (int i = 1; i < contexts_.list_parent_size(); ++i) {
    // A list's parent comes before it, so that no list is its own ancestor.
    if (contexts_.list_parent(i) >= static_cast<std::uint32_t>(i)) return bad("list", i);
    if (contexts_.list_file(i) >= files) return bad("list", i);
  }
  for (int i = 0; i < contexts_.context_list_size(); ++i) {
    if (contexts_.context_list(i) >= lists) return bad("context", i);
    if (!is_definition(contexts_.context_start(i))) return bad("context", i);
  }
  // Every chain has to end. Each definition is visited once, and marked with the start of the walk
  // that visits it. A walk that meets its own mark has found a cycle.
  std::vector<std::uint32_t> seen(static_cast<std::size_t>(contexts_.previous_label_size()), 0);
  for (std::uint32_t first = 0; first < seen.size(); ++first) {
    std::uint32_t at = first;
    while (seen[at] == 0) {
      seen[at] = first + 1;
      const std::uint32_t before = contexts_.previous_label(static_cast<int>(at));
      if (before == 0) break;
      at = before - 1 - base_;
      if (seen[at] == first + 1) return bad("the chain of definition", static_cast<int>(first));
    }
  }
  return OkStatus();
}

void StaticTables::AppendChain(std::uint32_t start, std::vector<std::uint32_t>& labels) const {
  for (std::uint32_t label = start; label != 0;
       label = contexts_.previous_label(static_cast<int>(label - 1 - base_))) {
    labels.push_back(label - 1);
  }
}

Result<std::vector<std::uint32_t>> StaticTables::Context(std::uint64_t id) const {
  if (id >= contexts()) {
    return OutOfRange(fmt::format("there is no context {}: this plan has {}", id, contexts()));
  }
  std::vector<std::uint32_t> files;
  for (std::uint32_t list = contexts_.context_list(static_cast<int>(id)); list != 0;
       list = contexts_.list_parent(static_cast<int>(list))) {
    files.push_back(contexts_.list_file(static_cast<int>(list)));
  }
  std::reverse(files.begin(), files.end());
  std::vector<std::uint32_t> labels;
  for (const std::uint32_t file : files) {
    AppendChain(contexts_.file_representative(static_cast<int>(file)), labels);
  }
  AppendChain(contexts_.context_start(static_cast<int>(id)), labels);
  return labels;
}

std::vector<std::uint32_t> StaticTables::SpineLabels() const {
  std::vector<std::uint32_t> labels;
  for (const std::uint32_t representative : contexts_.file_representative()) {
    AppendChain(representative, labels);
  }
  return labels;
}

}  // namespace millrace::client
