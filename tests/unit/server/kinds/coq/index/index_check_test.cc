// Wrong records of an index whose checksums are right.
#include <catch2/catch.hpp>

#include <functional>
#include <string>
#include <vector>

#include "server/kinds/coq/index/index_builder.h"
#include "server/kinds/coq/index/index_check.h"
#include "tests/support/dataset_fixture.h"

namespace millrace {
namespace {

/// A copy of an index whose records can be changed.
class EditedIndex final : public DatasetIndex {
 public:
  explicit EditedIndex(const DatasetIndex& from)
      : files(Copy(from.files())),
        definitions_of(Copy(from.definitions())),
        clusters_of(Copy(from.clusters())),
        tactics_of(Copy(from.tactics())),
        steps_of(Copy(from.steps())),
        outcomes_of(Copy(from.outcomes())),
        required(Copy(from.required_files())),
        spine(Copy(from.spines())),
        members(Copy(from.cluster_members())),
        context(Copy(from.context_nodes())),
        arguments_of(Copy(from.arguments())),
        limits(from.bounds()) {
    files_ = files;
    definitions_ = definitions_of;
    clusters_ = clusters_of;
    tactics_ = tactics_of;
    steps_ = steps_of;
    outcomes_ = outcomes_of;
    required_files_ = required;
    spines_ = spine;
    cluster_members_ = members;
    context_nodes_ = context;
    DatasetIndex::arguments_ = arguments_of;
    bounds_ = &limits;
  }
  Status Verify() const override { return OkStatus(); }

  template <class T>
  static std::vector<T> Copy(std::span<const T> all) {
    return {all.begin(), all.end()};
  }

  std::vector<FileRecord> files;
  std::vector<DefinitionRecord> definitions_of;
  std::vector<ClusterRecord> clusters_of;
  std::vector<TacticRecord> tactics_of;
  std::vector<StepRecord> steps_of;
  std::vector<OutcomeRecord> outcomes_of;
  std::vector<std::uint32_t> required;
  std::vector<std::uint32_t> spine;
  std::vector<std::uint32_t> members;
  std::vector<NodeRef> context;
  std::vector<NodeRef> arguments_of;
  IndexBounds limits;
};

struct Indexed {
  Indexed() {
    test::WriteFixture(dir.path(), test::SampleFile("a.bin"));
    test::WriteFixture(dir.path(), test::SampleFile("b.bin", {"a.bin"}));
    REQUIRE(BuildIndex(dir.path(), dir / "index", {.threads = 1}).ok());
    index = *DatasetIndex::Open(dir / "index");
  }
  test::TempDir dir;
  std::shared_ptr<const DatasetIndex> index;
};

/// The last definition that follows another one.
DefinitionRecord& Follower(EditedIndex& index) {
  DefinitionRecord* found = nullptr;
  for (DefinitionRecord& d : index.definitions_of) {
    if (d.previous != kNoRef) found = &d;
  }
  REQUIRE(found != nullptr);
  return *found;
}

TEST_CASE("the records of an index that was built are right", "[index_check]") {
  const Indexed indexed;
  const Status status = indexed.index->CheckRecords();
  INFO(status.ToString());
  CHECK(status.ok());
  CHECK(CheckRecords(EditedIndex(*indexed.index)).ok());
}

TEST_CASE("a record that refers to what is not there is named", "[index_check]") {
  using Edit = std::function<void(EditedIndex&)>;
  const auto [section, edit] = GENERATE(table<std::string, Edit>({
      {"files", [](auto& i) { i.files[1].definitions.first -= 1; }},
      {"files", [](auto& i) { i.files[1].representative = i.files[0].representative; }},
      {"files", [](auto& i) { i.limits.max_file_nodes = 1; }},
      {"files", [](auto& i) { i.files[0].spine.count -= 1; }},
      {"definitions", [](auto& i) { i.files[1].definitions.count -= 1; }},
      {"definitions", [](auto& i) { i.definitions_of[0].file = 1; }},
      {"definitions", [](auto& i) { i.definitions_of[0].node = i.files[0].node_count; }},
      {"definitions", [](auto& i) { i.definitions_of[0].enter = 1u << 30; }},
      {"definitions", [](auto& i) { i.definitions_of[1].enter = i.definitions_of[0].enter; }},
      {"definitions", [](auto& i) { ++i.definitions_of[0].exit; }},
      {"definitions", [](auto& i) { ++i.definitions_of[0].depth; }},
      {"definitions", [](auto& i) { Follower(i).previous = 0; }},
      {"definitions", [](auto& i) { Follower(i).previous = 1u << 30; }},
      {"definitions", [](auto& i) { Follower(i).previous = kNoRef; }},
      {"definitions", [](auto& i) { i.definitions_of[0].cluster = 1u << 30; }},
      {"definitions", [](auto& i) { i.definitions_of[0].kind = static_cast<DefinitionKind>(99); }},
      {"definitions", [](auto& i) { i.definitions_of[0].required_files = {1u << 30, 1}; }},
      {"definitions", [](auto& i) { i.definitions_of.back().steps = {0, 1}; }},
      {"definitions", [](auto& i) { i.steps_of[0].definition = 1u << 30; }},
      {"clusters", [](auto& i) { i.clusters_of[0].representative = 1u << 30; }},
      {"clusters", [](auto& i) { i.clusters_of[0].file = 1u << 30; }},
      {"clusters", [](auto& i) { i.clusters_of[0].members.first += 1; }},
      {"clusters", [](auto& i) { i.limits.max_cluster = 0; }},
      {"steps", [](auto& i) { i.steps_of[0].tactic = 1u << 30; }},
      {"steps", [](auto& i) { i.steps_of[0].outcomes.count += 1; }},
      {"steps", [](auto& i) { i.steps_of.back().step = 1u << 30; }},
      {"steps", [](auto& i) { i.outcomes_of[0].step = 1u << 30; }},
      {"outcomes", [](auto& i) { i.outcomes_of[0].context_count = 1u << 30; }},
      {"outcomes", [](auto& i) { i.outcomes_of[0].first_argument = std::uint64_t{1} << 63; }},
      {"outcomes", [](auto& i) { i.limits.max_context = 0; }},
      {"outcomes", [](auto& i) { i.limits.max_arguments = 0; }},
      {"required_files", [](auto& i) { i.required.back() = 1u << 30; }},
      {"cluster_members", [](auto& i) { i.members.back() = 1u << 30; }},
  }));
  const Indexed indexed;
  EditedIndex index(*indexed.index);
  edit(index);
  const Status status = index.CheckRecords();
  INFO(status.ToString());
  CHECK(status.code() == StatusCode::kDataLoss);
  CHECK(status.message().find("of `" + section + "`") != std::string::npos);
  CHECK(status.message().find("build it again") != std::string::npos);
}

}  // namespace
}  // namespace millrace
