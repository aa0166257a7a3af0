// Joins the tables of generated Coq datasets that overlap, and reads them as clients do.
#include <catch2/catch.hpp>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "client/coq/vocabulary.h"
#include "server/catalog/product_kinds.h"
#include "server/kinds/coq/generator/generator.h"
#include "server/plan/mix/joined_tables.h"
#include "server/plan/plan_library.h"
#include "tests/support/dataset_fixture.h"
#include "tests/unit/server/plan/mix/made_up_tables.h"

namespace millrace::test {
namespace {

namespace fs = std::filesystem;

using LabelNames = std::vector<std::pair<std::string, std::int64_t>>;  // name and identity

/// A file with the definitions of SampleFile, and in a larger version with one more behind them.
FixtureFile Revised(bool larger) {
  FixtureFile file = SampleFile("revised.bin");
  if (!larger) return file;
  FixtureDefinition more = file.definitions.back();
  more.name += ".more";
  more.node = static_cast<std::uint32_t>(file.nodes.size());
  more.previous = file.definitions.back().node;
  more.external_previous.clear();
  more.steps.clear();
  more.discharged.reset();
  more.kind = DefinitionKind::kManualConstant;
  file.nodes.push_back({3, {}, 4711});
  file.definitions.push_back(more);
  file.representative = more.node;
  return file;
}

/// The source of a plan, which keeps it.
std::shared_ptr<const Source> SourceIn(const std::shared_ptr<const Plan>& plan) {
  return {plan, plan->source()};
}

/// Two datasets: of the files of a generated one, one lacks the last, the other some that nothing
/// else needs. Both have a file of their own, and one file that was revised between them.
struct Overlapping {
  Overlapping() {
    GeneratorOptions options;
    options.seed = 5;
    options.nodes = 40'000;
    options.files = 30;
    GeneratorReport report;
    REQUIRE(GenerateDataset(a.path(), options, &report).ok());
    fs::copy(a.path(), b.path(), fs::copy_options::recursive);
    fs::remove(a.path() / "generated/p001/f05.bin");
    // The files of package 1 build on those of package 0.
    for (const char* last : {"f05", "f04", "f03"}) {
      fs::remove(b.path() / "generated/p001" / (std::string(last) + ".bin"));
    }
    WriteFixture(a.path(), Revised(false));
    WriteFixture(b.path(), Revised(true));
    WriteFixture(b.path(), SampleFile("aaa.bin", {"revised.bin"}));
    PlanLibraryOptions at;
    at.kinds = ProductKinds();
    at.datasets["a"].dir = a.path();
    at.datasets["b"].dir = b.path();
    library = std::make_unique<PlanLibrary>(at, MakeNullLogger());
  }

  std::shared_ptr<const Source> SourceOf(const std::string& dataset, const std::string& source,
                                         const std::string& more = "") {
    PipelineSource text;
    text.yaml =
        "millrace: 1\ndataset: " + dataset + "\nsource: " + source + "\nbatch: {size: 4}\n" + more;
    const auto plan = library->Compile(text);
    INFO(plan.status().message());
    REQUIRE(plan.ok());
    return SourceIn(*plan);
  }

  TempDir a;
  TempDir b;
  std::unique_ptr<PlanLibrary> library;
};

std::shared_ptr<const CoqVocabulary> Vocabulary(std::shared_ptr<const NamedTables> tables) {
  auto vocabulary = CoqVocabulary::Decode(std::move(tables));
  INFO(vocabulary.status().message());
  REQUIRE(vocabulary.ok());
  return *vocabulary;
}

std::size_t TableNumber(const JoinedTables& joined, const std::string& name) {
  for (std::size_t i = 0; i < joined.specs().size(); ++i) {
    if (joined.specs()[i].table.name == name) return i;
  }
  FAIL("no table " << name);
  return 0;
}

LabelNames NamesOf(const CoqVocabulary& vocabulary, const std::vector<std::uint32_t>& labels) {
  LabelNames names;
  for (const std::uint32_t label : labels) {
    names.emplace_back(vocabulary.node_label_names()[label], vocabulary.node_label_idents()[label]);
  }
  return names;
}

/// The file that a reader finds for a label: files hold consecutive labels, after the classes.
std::string FileOf(const CoqVocabulary& vocabulary, std::uint64_t label) {
  std::uint64_t end = vocabulary.classes();
  for (std::size_t file = 0; file < vocabulary.files().size(); ++file) {
    end += vocabulary.labels_of_file()[file];
    if (label < end) return std::string(vocabulary.files()[file]);
  }
  return "none";
}

/// What every joint table of two Coq sources has to be.
void CheckJoined(const std::vector<std::shared_ptr<const Source>>& sources) {
  const JoinedTables joined = MustJoin(sources);
  const auto all = Vocabulary(ServedTables(joined));
  const std::size_t labels = TableNumber(joined, "node_labels");
  const std::size_t tactics = TableNumber(joined, "tactics");
  std::vector<std::uint64_t> counts(all->tactics().size(), 0);
  std::set<std::uint64_t> told;
  for (std::size_t branch = 0; branch < sources.size(); ++branch) {
    const auto own = Vocabulary(ServedTables(*sources[branch]));
    CHECK(all->classes() == own->classes());
    for (std::uint32_t label = 0; label < own->node_label_names().size(); ++label) {
      const auto at = static_cast<std::uint32_t>(JoinedRow(joined, branch, labels, label));
      if (NamesOf(*all, {at}) != NamesOf(*own, {label}))
        FAIL("label " << label << " has another name");
      if (label < own->classes() || !told.insert(at).second) continue;
      if (FileOf(*all, at) != FileOf(*own, label)) FAIL("label " << label << " has another file");
    }
    for (std::size_t tactic = 0; tactic < own->tactics().size(); ++tactic) {
      const std::uint64_t at = JoinedRow(joined, branch, tactics, tactic);
      const TacticEntry& x = own->tactics()[tactic];
      const TacticEntry& y = all->tactics()[at];
      CHECK(x.ident == y.ident);
      CHECK(x.base_text == y.base_text);
      CHECK(x.arguments == y.arguments);
      counts[at] += x.count;
    }
    for (std::uint64_t context = 0; context < own->contexts(); ++context) {
      const std::vector<std::uint32_t> alone = *own->Context(context);
      const std::vector<std::uint32_t> together =
          *all->Context(JoinedRow(joined, branch, TableNumber(joined, "contexts"), context));
      if (NamesOf(*own, alone) != NamesOf(*all, together)) FAIL("context " << context);
      std::vector<std::uint32_t> moved;
      for (const std::uint32_t label : alone) {
        moved.push_back(static_cast<std::uint32_t>(JoinedRow(joined, branch, labels, label)));
      }
      if (moved != together) FAIL("context " << context << " has other labels");
    }
  }
  for (std::size_t i = 0; i < counts.size(); ++i) CHECK(counts[i] == all->tactics()[i].count);
}

TEST_CASE("every context, label and tactic of two Coq datasets is as in its own tables", "[mix]") {
  Overlapping datasets;
  for (const char* more : {"", "filter: {restrict_to_spine: true}\n"}) {
    const auto a = datasets.SourceOf("a", "proof_states", more);
    const auto b = datasets.SourceOf("b", "proof_states", more);
    REQUIRE(Vocabulary(ServedTables(*a))->contexts() > 10);
    CheckJoined({a, b});
    CheckJoined({b, a});
  }
}

TEST_CASE("definitions of two Coq datasets are as in their own tables", "[mix]") {
  Overlapping datasets;
  CheckJoined({datasets.SourceOf("a", "definitions"), datasets.SourceOf("b", "definitions")});
}

TEST_CASE("branches with all labels and with those of spines are joined", "[mix]") {
  Overlapping datasets;
  const char* const spine = "filter: {restrict_to_spine: true}\n";
  CheckJoined(
      {datasets.SourceOf("a", "proof_states"), datasets.SourceOf("b", "proof_states", spine),
       datasets.SourceOf("a", "proof_states", spine), datasets.SourceOf("b", "proof_states")});
}

TEST_CASE("what two Coq datasets share has one row", "[mix]") {
  Overlapping datasets;
  const auto a = datasets.SourceOf("a", "proof_states");
  const auto b = datasets.SourceOf("b", "proof_states");
  const JoinedTables joined = MustJoin({a, b});
  const auto own_a = ServedTables(*a);
  const auto own_b = ServedTables(*b);
  const auto all = ServedTables(joined);
  const auto rows = [](const NamedTables& tables, const char* table) {
    return tables.Find(table)->spec.rows;
  };
  // Dataset b adds aaa.bin with 5 labels, and a label to the revised file.
  const std::uint64_t more = rows(*all, "node_labels") - rows(*own_a, "node_labels");
  CHECK(more < rows(*own_b, "node_labels") / 10);
  CHECK(more >= 6);
  std::vector<std::string> files;
  const TextColumn& names = **all->Texts("files", "name");
  for (std::size_t i = rows(*own_a, "files"); i < names.size(); ++i) files.emplace_back(names[i]);
  std::sort(files.begin(), files.end());
  CHECK(files == std::vector<std::string>{"aaa.bin", "revised.bin"});
  CHECK(rows(*all, "node_classes") == rows(*own_a, "node_classes"));
  CHECK(rows(*all, "edge_labels") == rows(*own_a, "edge_labels"));
}

TEST_CASE("a definition after another one has its own label", "[mix]") {
  const TempDir a;
  const TempDir b;
  WriteFixture(a.path(), SampleFile("x.bin"));
  FixtureFile changed = SampleFile("x.bin");
  changed.nodes[changed.definitions.front().node].identity += 1;
  WriteFixture(b.path(), changed);
  PlanLibraryOptions at;
  at.kinds = ProductKinds();
  at.datasets["a"].dir = a.path();
  at.datasets["b"].dir = b.path();
  PlanLibrary library(at, MakeNullLogger());
  const auto joint_labels = [&](const std::string& source) {
    std::vector<std::shared_ptr<const Source>> sources;
    for (const char* dataset : {"a", "b"}) {
      PipelineSource text;
      text.yaml = std::string("millrace: 1\ndataset: ") + dataset + "\nsource: " + source +
                  "\nbatch: {size: 1, remainder: keep}\n";
      sources.push_back(SourceIn(*library.Compile(text)));
    }
    const JoinedTables joined = MustJoin(sources);
    return joined.specs()[TableNumber(joined, "node_labels")].table.rows;
  };
  // Alone, one of the 6 definitions differs. With the chain of what comes before each, 4 do.
  CHECK(joint_labels("definitions") == 26 + 6 + 1);
  CHECK(joint_labels("proof_states") == 26 + 6 + 4);
}

}  // namespace
}  // namespace millrace::test
