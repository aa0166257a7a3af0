#include "server/kinds/coq/context_table.h"

#include <rapidcheck.h>
#include <catch2/catch.hpp>

#include <algorithm>
#include <map>
#include <set>

#include <rapidcheck/catch.h>

#include "tests/unit/server/kinds/coq/fake_index.h"

namespace millrace::test {
namespace {

/// The global context of a definition, computed as the reference page describes it.
class PlainContexts {
 public:
  PlainContexts(const FakeIndex& index, const NodeLabels& labels)
      : index_(index), labels_(labels) {}

  std::vector<std::uint32_t> Of(std::uint32_t definition) {
    std::vector<std::uint32_t> chain;
    for (std::uint32_t d = definition; d != kNoRef; d = At(d).previous) chain.push_back(d);
    files_.clear();
    seen_.clear();
    for (auto d = chain.rbegin(); d != chain.rend(); ++d) AddRequired(*d);
    std::vector<std::uint32_t> context;
    for (const std::uint32_t file : files_) {
      for (std::uint32_t d = index_.files()[file].representative; d != kNoRef; d = At(d).previous) {
        context.push_back(labels_.Label(d));
      }
    }
    const bool of_cluster = At(definition).kind == DefinitionKind::kInductive;
    std::uint32_t d = of_cluster ? index_.clusters()[At(definition).cluster].representative
                                 : At(definition).previous;
    for (; d != kNoRef; d = At(d).previous) context.push_back(labels_.Label(d));
    return context;
  }

 private:
  const DefinitionRecord& At(std::uint32_t d) const { return index_.definitions()[d]; }
  void AddRequired(std::uint32_t definition) {
    const Slice required = At(definition).required_files;
    for (std::uint32_t i = 0; i < required.count; ++i) {
      AddFile(index_.required_files()[required.first + i]);
    }
  }
  void AddFile(std::uint32_t file) {
    if (!seen_.insert(file).second) return;
    files_.push_back(file);
    for (std::uint32_t d = index_.files()[file].representative; d != kNoRef; d = At(d).previous) {
      AddRequired(d);
    }
  }

  const FakeIndex& index_;
  const NodeLabels& labels_;
  std::vector<std::uint32_t> files_;
  std::set<std::uint32_t> seen_;
};

std::vector<FakeFile> RandomFiles() {
  std::vector<FakeFile> files(*rc::gen::inRange<std::size_t>(1, 7));
  for (std::uint32_t f = 0; f < files.size(); ++f) {
    files[f].definitions.resize(*rc::gen::inRange<std::size_t>(0, 6));
    for (std::uint32_t d = 0; d < files[f].definitions.size(); ++d) {
      FakeDefinition& definition = files[f].definitions[d];
      // The forest is mostly a chain, with branches and second trees.
      if (d > 0 && *rc::gen::inRange(0, 6) > 0) {
        definition.previous = *rc::gen::inRange(0, 4) > 0 ? d - 1 : *rc::gen::inRange(0u, d);
      }
      const auto required = f == 0 ? 0 : *rc::gen::inRange(0, 3);
      for (int r = 0; r < required; ++r) definition.required.push_back(*rc::gen::inRange(0u, f));
      if (*rc::gen::inRange(0, 6) == 0) definition.kind = DefinitionKind::kInductive;
    }
    const auto count = static_cast<std::uint32_t>(files[f].definitions.size());
    if (count > 0 && *rc::gen::inRange(0, 6) > 0) {
      files[f].representative =
          *rc::gen::inRange(0, 3) > 0 ? count - 1 : *rc::gen::inRange(0u, count);
    }
  }
  return files;
}

TEST_CASE("contexts, their numbers and positions are those of the plain evaluation", "[context]") {
  rc::prop("on random forests and requirements", [] {
    const FakeIndex index(RandomFiles());
    const bool spine = *rc::gen::arbitrary<bool>();
    const NodeLabels labels(index, spine);
    std::vector<std::uint32_t> definitions;
    for (std::uint32_t d = 0; d < index.definitions().size(); ++d) {
      if (labels.Label(d) != kNoRef && *rc::gen::inRange(0, 3) > 0) definitions.push_back(d);
    }
    if (*rc::gen::arbitrary<bool>()) std::reverse(definitions.begin(), definitions.end());
    const ContextTable table(index, labels, definitions);
    PlainContexts plain(index, labels);

    std::map<std::vector<std::uint32_t>, std::uint32_t> numbers;
    std::size_t longest = 0;
    for (const std::uint32_t d : definitions) {
      const std::vector<std::uint32_t> expected = plain.Of(d);
      longest = std::max(longest, expected.size());
      const auto number = numbers.emplace(expected, numbers.size()).first->second;
      RC_ASSERT(table.Id(d) == number);
      RC_ASSERT(table.Length(number) == expected.size());
      std::vector<std::uint32_t> got;
      table.AppendLabels(number, &got);
      RC_ASSERT(got == expected);
      for (std::uint32_t other = 0; other < index.definitions().size(); ++other) {
        const auto at = std::find(expected.begin(), expected.end(), labels.Label(other));
        const bool in = labels.Label(other) != kNoRef && at != expected.end();
        RC_ASSERT(table.Position(number, other) ==
                  (in ? static_cast<std::uint32_t>(at - expected.begin()) : kNoRef));
      }
    }
    RC_ASSERT(table.size() == numbers.size());
    RC_ASSERT(table.max_length() == longest);
  });
}

TEST_CASE("the served table gives every context by its own rules", "[context]") {
  rc::prop("on random forests and requirements", [] {
    const FakeIndex index(RandomFiles());
    const NodeLabels labels(index, *rc::gen::arbitrary<bool>());
    std::vector<std::uint32_t> definitions;
    for (std::uint32_t d = 0; d < index.definitions().size(); ++d) {
      if (labels.Label(d) != kNoRef) definitions.push_back(d);
    }
    const ContextTable table(index, labels, definitions);
    using Numbers = std::vector<std::uint64_t>;
    const auto append = [](Numbers& to) {
      return [&to](std::uint64_t value) { to.push_back(value); };
    };
    Numbers previous, representative, parent, list_file, list, start;
    table.EachPrevious(append(previous));
    table.EachRepresentative(append(representative));
    table.EachListParent(append(parent));
    table.EachListFile(append(list_file));
    table.EachContextList(append(list));
    table.EachContextStart(append(start));
    RC_ASSERT(previous.size() == labels.size());
    RC_ASSERT(representative.size() == index.files().size());
    RC_ASSERT(parent.size() == table.lists());
    RC_ASSERT(list.size() == table.size());
    RC_ASSERT(parent.at(0) == 0u);
    RC_ASSERT(list_file.at(0) == 0u);
    for (std::uint32_t c = 0; c < table.size(); ++c) {
      Numbers files;
      for (std::uint64_t l = list[c]; l != 0; l = parent[l]) {
        files.insert(files.begin(), list_file[l]);
      }
      std::vector<std::uint32_t> got;
      const auto walk = [&](std::uint64_t from) {
        for (std::uint64_t next = from; next != 0; next = previous[next - 1]) {
          got.push_back(static_cast<std::uint32_t>(next - 1));
        }
      };
      for (const std::uint64_t file : files) walk(representative[file]);
      walk(start[c]);
      std::vector<std::uint32_t> expected;
      table.AppendLabels(c, &expected);
      RC_ASSERT(got == expected);
    }
  });
}

TEST_CASE("two ways to the same labels are one context", "[context]") {
  // The second file requires the first and begins a new chain. A branch of the first comes after
  // its spine.
  std::vector<FakeFile> files(2);
  files[0].definitions = {{}, {.previous = 0}, {.previous = 1}};
  files[0].representative = 1;
  files[1].definitions = {{.required = {0}}};
  const FakeIndex index(files);
  const NodeLabels labels(index, false);
  const std::vector<std::uint32_t> definitions = {2, 3};
  const ContextTable table(index, labels, definitions);
  CHECK(table.size() == 1);
  CHECK(table.Id(2) == table.Id(3));
}

}  // namespace
}  // namespace millrace::test
