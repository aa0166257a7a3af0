// What a reader has for Coq datasets alone: their tables, decoded.
#include <string>
#include <utility>
#include <vector>

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "client/coq/vocabulary.h"
#include "client/python/src/options.h"
#include "client/python/src/reader.h"

namespace nb = nanobind;

namespace millrace::python {
namespace {

nb::dict VocabularyDict(const CoqVocabulary& vocabulary) {
  nb::list tactics;
  for (const TacticEntry& tactic : vocabulary.tactics()) {
    nb::dict one;
    one["ident"] = tactic.ident;
    one["base_text"] = TableText(tactic.base_text);
    one["arguments"] = tactic.arguments;
    one["count"] = tactic.count;
    tactics.append(one);
  }
  nb::dict dict;
  dict["node_label_names"] = TableTexts(vocabulary.node_label_names());
  dict["node_label_idents"] = TableNumbers(vocabulary.node_label_idents());
  dict["edge_label_names"] = TableTexts(vocabulary.edge_label_names());
  dict["tactics"] = tactics;
  dict["files"] = TableTexts(vocabulary.files());
  dict["labels_of_file"] = TableNumbers(vocabulary.labels_of_file());
  return dict;
}

}  // namespace

std::shared_ptr<const CoqVocabulary> Reader::Names() {
  BatchReader& reader = Get();
  if (names_ == nullptr) {
    names_ = Run([&]() -> Result<std::shared_ptr<const CoqVocabulary>> {
      MILLRACE_ASSIGN_OR_RETURN(auto tables, reader.tables(PythonSignals()));
      return CoqVocabulary::Decode(std::move(tables));
    });
  }
  return names_;
}

nb::dict Reader::Vocabulary() { return VocabularyDict(*Names()); }

std::vector<std::uint32_t> Reader::Context(nb::handle number) {
  Get();
  const auto id = ReadOption<std::uint64_t>("context", number);
  return ValueOrRaise(Names()->Context(id));
}

std::vector<std::uint32_t> Reader::SpineLabels() { return Names()->SpineLabels(); }

}  // namespace millrace::python
