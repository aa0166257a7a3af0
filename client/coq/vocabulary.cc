#include "client/coq/vocabulary.h"

#include <utility>

#include <fmt/core.h>
#include <fmt/ranges.h>

namespace millrace {

Result<std::shared_ptr<const CoqVocabulary>> CoqVocabulary::Decode(
    std::shared_ptr<const NamedTables> tables) {
  const std::shared_ptr<CoqVocabulary> vocabulary(new CoqVocabulary(std::move(tables)));
  if (Status status = vocabulary->ReadNames(); !status.ok()) {
    if (status.code() != StatusCode::kNotFound) return status;
    std::vector<std::string_view> names;
    for (const NamedTable& table : vocabulary->tables_->all()) names.push_back(table.spec.name);
    return FailedPrecondition(fmt::format(
        "only Coq datasets have a vocabulary and contexts, and {}: read the tables of "
        "this plan by their names ({})",
        status.message(), names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))));
  }
  if (vocabulary->tables_->Find("contexts") != nullptr) {
    if (Status status = vocabulary->ReadContexts(); !status.ok()) {
      return DataLoss(status.message()).WithContext("static tables");
    }
    MILLRACE_RETURN_IF_ERROR(vocabulary->CheckContexts());
  }
  return std::shared_ptr<const CoqVocabulary>(vocabulary);
}

Status CoqVocabulary::ReadNames() {
  const NamedTables& tables = *tables_;
  MILLRACE_ASSIGN_OR_RETURN(node_label_names_, tables.Texts("node_labels", "name"));
  MILLRACE_ASSIGN_OR_RETURN(node_label_idents_, tables.Signed("node_labels", "ident"));
  MILLRACE_ASSIGN_OR_RETURN(edge_label_names_, tables.Texts("edge_labels", "name"));
  MILLRACE_ASSIGN_OR_RETURN(files_, tables.Texts("files", "name"));
  MILLRACE_ASSIGN_OR_RETURN(labels_of_file_, tables.Unsigned("files", "labels"));
  MILLRACE_ASSIGN_OR_RETURN(const auto idents, tables.Signed("tactics", "ident"));
  MILLRACE_ASSIGN_OR_RETURN(const TextColumn* const texts, tables.Texts("tactics", "text"));
  MILLRACE_ASSIGN_OR_RETURN(const auto arguments, tables.Unsigned("tactics", "arguments"));
  MILLRACE_ASSIGN_OR_RETURN(const auto counts, tables.Unsigned("tactics", "count"));
  for (std::size_t i = 0; i < idents.size(); ++i) {
    tactics_.push_back({idents[i], (*texts)[i], arguments[i], counts[i]});
  }
  std::uint64_t left = node_label_names_->size();
  for (std::size_t file = 0; file < labels_of_file_.size(); ++file) {
    if (labels_of_file_[file] > left) {
      return DataLoss(
          fmt::format("static tables: file {} and those before it have more labels than "
                      "the {} that there are",
                      file, node_label_names_->size()));
    }
    left -= labels_of_file_[file];
  }
  classes_ = left;
  return OkStatus();
}

Status CoqVocabulary::ReadContexts() {
  const NamedTables& tables = *tables_;
  MILLRACE_ASSIGN_OR_RETURN(previous_, tables.Unsigned("node_labels", "previous"));
  MILLRACE_ASSIGN_OR_RETURN(representative_, tables.Unsigned("files", "representative"));
  MILLRACE_ASSIGN_OR_RETURN(list_parent_, tables.Unsigned("context_lists", "parent"));
  MILLRACE_ASSIGN_OR_RETURN(list_file_, tables.Unsigned("context_lists", "file"));
  MILLRACE_ASSIGN_OR_RETURN(context_list_, tables.Unsigned("contexts", "list"));
  MILLRACE_ASSIGN_OR_RETURN(context_start_, tables.Unsigned("contexts", "start"));
  return OkStatus();
}

Status CoqVocabulary::CheckContexts() const {
  const auto is_definition = [this](std::uint64_t label) {
    return label == 0 || (label > classes_ && label <= previous_.size());
  };
  const auto bad = [](const char* what, std::size_t at) {
    return DataLoss(fmt::format("static tables: {} {} refers to what does not exist", what, at));
  };
  for (std::size_t i = 0; i < previous_.size(); ++i) {
    if (!is_definition(previous_[i])) return bad("label", i);
  }
  for (std::size_t i = 0; i < representative_.size(); ++i) {
    if (!is_definition(representative_[i])) return bad("file", i);
  }
  for (std::size_t i = 1; i < list_parent_.size(); ++i) {
    // A list's parent comes before it, so that no list is its own ancestor.
    if (list_parent_[i] >= i || list_file_[i] >= representative_.size()) return bad("list", i);
  }
  for (std::size_t i = 0; i < context_list_.size(); ++i) {
    if (context_list_[i] >= list_parent_.size()) return bad("context", i);
    if (!is_definition(context_start_[i])) return bad("context", i);
  }
  // Every chain has to end. Each label is visited once, and marked with the start of the walk that
  // visits it. A walk that meets its own mark has found a cycle.
  std::vector<std::uint64_t> seen(previous_.size(), 0);
  for (std::size_t first = 0; first < seen.size(); ++first) {
    std::uint64_t at = first;
    while (seen[at] == 0) {
      seen[at] = first + 1;
      if (previous_[at] == 0) break;
      at = previous_[at] - 1;
      if (seen[at] == first + 1) return bad("the chain of label", first);
    }
  }
  return OkStatus();
}

void CoqVocabulary::AppendChain(std::uint64_t start, std::vector<std::uint32_t>& labels) const {
  for (std::uint64_t label = start; label != 0; label = previous_[label - 1]) {
    labels.push_back(static_cast<std::uint32_t>(label - 1));
  }
}

Result<std::vector<std::uint32_t>> CoqVocabulary::Context(std::uint64_t id) const {
  if (id >= contexts()) {
    return OutOfRange(fmt::format("there is no context {}: this plan has {}", id, contexts()));
  }
  std::vector<std::uint64_t> files;
  for (std::uint64_t list = context_list_[id]; list != 0; list = list_parent_[list]) {
    files.push_back(list_file_[list]);
  }
  std::vector<std::uint32_t> labels;
  for (auto file = files.rbegin(); file != files.rend(); ++file) {
    AppendChain(representative_[*file], labels);
  }
  AppendChain(context_start_[id], labels);
  return labels;
}

std::vector<std::uint32_t> CoqVocabulary::SpineLabels() const {
  std::vector<std::uint32_t> labels;
  for (const std::uint64_t representative : representative_) AppendChain(representative, labels);
  return labels;
}

}  // namespace millrace
