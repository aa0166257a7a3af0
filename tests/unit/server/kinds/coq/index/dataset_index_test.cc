// The content of the indexes of real data and of small datasets.
#include <catch2/catch.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include "server/kinds/coq/coq_dataset.h"
#include "server/kinds/coq/index/index_builder.h"
#include "server/kinds/coq/index/index_store.h"
#include "tests/support/dataset_fixture.h"
#include "tests/support/skip.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;
using test::SampleFile;
using test::TempDir;

std::shared_ptr<const DatasetIndex> MustIndex(const fs::path& dir, const fs::path& file) {
  const Result<IndexReport> report = BuildIndex(dir, file, {});
  INFO(report.status().ToString());
  REQUIRE(report.ok());
  Result<std::shared_ptr<const DatasetIndex>> index = DatasetIndex::Open(file);
  INFO(index.status().ToString());
  REQUIRE(index.ok());
  return *index;
}

// The value after `"key": ` in a line of JSON, in the form that these headers use.
std::string JsonValue(const std::string& line, const std::string& key) {
  const std::size_t at = line.find("\"" + key + "\":");
  REQUIRE(at != std::string::npos);
  std::size_t begin = at + key.size() + 3;
  while (line[begin] == ' ') ++begin;
  const char closing = line[begin] == '[' ? ']' : ',';
  return line.substr(begin, line.find(closing, begin) - begin);
}

std::vector<std::string> JsonStrings(std::string list) {
  std::vector<std::string> strings;
  for (std::size_t at = list.find('"'); at != std::string::npos; at = list.find('"')) {
    const std::size_t end = list.find('"', at + 1);
    strings.push_back(list.substr(at + 1, end - at - 1));
    list = list.substr(end + 1);
  }
  return strings;
}

TEST_CASE("the index of real data has the reference's files, in its order, and its examples",
          "[index][golden]") {
  const fs::path shared = test::SharedDirOrSkip();
  const TempDir temp;
  std::map<std::string, std::shared_ptr<const DatasetIndex>> indexes;
  int compared = 0;
  for (const auto& entry : fs::directory_iterator(shared / "golden")) {
    if (entry.path().extension() != ".jsonl") continue;
    std::ifstream in(entry.path());
    std::string header;
    std::getline(in, header);
    INFO(entry.path().filename());
    std::string dataset = JsonValue(header, "dataset");
    dataset = dataset.substr(1, dataset.size() - 2);
    auto& index = indexes[dataset];
    if (index == nullptr) index = MustIndex(shared / "data" / dataset, temp / dataset);

    std::vector<std::string> names;
    for (std::uint32_t f = 0; f < index->files().size(); ++f) {
      names.emplace_back(index->file_name(f));
    }
    CHECK(names == JsonStrings(JsonValue(header, "files")));
    CHECK(std::to_string(index->clusters().size()) == JsonValue(header, "definition_clusters"));
    ++compared;
    if (JsonValue(header, "restrict_to_spine").substr(0, 4) == "true") continue;
    CHECK(std::to_string(index->outcomes().size()) == JsonValue(header, "proof_states"));
    CHECK(std::to_string(index->definitions().size() + 26) == JsonValue(header, "node_labels"));
    std::vector<std::string> tactics;
    std::string idents;
    for (const TacticRecord& tactic : index->tactics()) {
      tactics.emplace_back(index->string(tactic.base_text));
      idents += (idents.empty() ? "[" : ", ") + std::to_string(tactic.ident);
    }
    CHECK(tactics == JsonStrings(JsonValue(header, "tactic_names")));
    std::string expected = JsonValue(header, "tactic_idents");
    const auto without_spaces = [](std::string text) {
      text.erase(std::remove(text.begin(), text.end(), ' '), text.end());
      return text;
    };
    CHECK(without_spaces(idents) == without_spaces(expected));
  }
  CHECK(compared >= 9);
}

TEST_CASE("an index is the same for every number of threads", "[index]") {
  const fs::path data = fs::path(test::SharedDirOrSkip()) / "data" / "mini_stdlib";
  const TempDir temp;
  BuildOptions one;
  one.threads = 1;
  BuildOptions many;
  many.threads = 7;
  REQUIRE(BuildIndex(data, temp / "one", one).ok());
  REQUIRE(BuildIndex(data, temp / "many", many).ok());
  CHECK(test::ReadBytes(temp / "one") == test::ReadBytes(temp / "many"));
}

TEST_CASE("every link of an index of real data leads to where it should", "[index]") {
  const fs::path data = fs::path(test::SharedDirOrSkip()) / "data" / "mini_stdlib";
  const TempDir temp;
  const auto index = MustIndex(data, temp / "index");
  const auto definitions = index->definitions();
  std::size_t members = 0;
  for (std::uint32_t c = 0; c < index->clusters().size(); ++c) {
    const ClusterRecord& cluster = index->clusters()[c];
    const auto ids = Sub(index->cluster_members(), cluster.members);
    REQUIRE(ids.size() == cluster.members.count);
    REQUIRE(ids[0] == cluster.representative);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      REQUIRE(definitions[ids[i]].cluster == c);
      REQUIRE(definitions[ids[i]].file == cluster.file);
      if (i > 0) REQUIRE(definitions[ids[i - 1]].previous == ids[i]);
    }
    members += ids.size();
  }
  CHECK(members == definitions.size());
  for (std::uint32_t d = 0; d < definitions.size(); ++d) {
    const DefinitionRecord& definition = definitions[d];
    REQUIRE(index->definition_table().Find({definition.file, definition.node}) == d);
    if (definition.previous != kNoRef) {
      const DefinitionRecord& previous = definitions[definition.previous];
      REQUIRE(previous.depth + 1 == definition.depth);
      REQUIRE((previous.enter <= definition.enter && definition.enter < previous.exit));
    }
    for (const StepRecord& step : Sub(index->steps(), definition.steps)) {
      REQUIRE(step.definition == d);
      for (const OutcomeRecord& outcome : Sub(index->outcomes(), step.outcomes)) {
        REQUIRE(&index->steps()[outcome.step] == &step);
        REQUIRE(outcome.root.node < index->files()[outcome.root.file].node_count);
        const auto context =
            Sub(index->context_nodes(), outcome.first_context, outcome.context_count);
        REQUIRE(context.size() == outcome.context_count);
        for (const NodeRef& node : context) {
          REQUIRE(node.node < index->files()[node.file].node_count);
        }
      }
    }
  }
  for (const FileRecord& file : index->files()) {
    const auto by_node = Sub(index->definitions_by_node(), file.definitions);
    REQUIRE(by_node.size() == file.definitions.count);
    for (std::size_t i = 1; i < by_node.size(); ++i) {
      REQUIRE(definitions[by_node[i - 1]].node < definitions[by_node[i]].node);
    }
  }
}

TEST_CASE("the records of a file say what the file says", "[index]") {
  const TempDir dir;
  test::WriteFixture(dir.path(), SampleFile("b.bin", {"a.bin"}));
  test::WriteFixture(dir.path(), SampleFile("a.bin"));
  const auto index = MustIndex(dir.path(), dir / "index");
  REQUIRE(index->files().size() == 2);
  const FileRecord& file = index->files()[1];
  CHECK(index->file_name(1) == "b.bin");
  CHECK(file.node_base == index->files()[0].node_count);
  REQUIRE(index->definitions().size() == 12);
  const std::uint32_t first = file.definitions.first;
  CHECK(index->string(index->definitions()[first + 3].name) == "b.bin.c");
  const auto required =
      Sub(index->required_files(), index->definitions()[first + 3].required_files);
  CHECK(std::vector(required.begin(), required.end()) == std::vector<std::uint32_t>{0});
  const auto spine = Sub(index->spines(), file.spine);
  CHECK(std::vector(spine.begin(), spine.end()) ==
        std::vector<std::uint32_t>{first + 4, first + 3, first, first + 1, first + 2});
  CHECK(index->definitions()[first + 5].on_spine == 0);

  // Tactic 9 has the first outcome. Tactic 7 comes earlier, but without an outcome.
  REQUIRE(index->tactics().size() == 2);
  CHECK(index->tactics()[0].ident == 9);
  CHECK(index->string(index->tactics()[1].base_text) == "auto");

  const auto steps = Sub(index->steps(), index->definitions()[first + 4].steps);
  REQUIRE(steps.size() == 3);
  CHECK(steps[0].outcomes.count == 0);
  CHECK(steps[0].faithful == 1);
  CHECK(steps[2].step == 3);
  CHECK(steps[2].faithful == 0);
  const auto outcomes = Sub(index->outcomes(), steps[1].outcomes);
  REQUIRE(outcomes.size() == 2);
  CHECK(outcomes[0].root == NodeRef{1, 8});
  const auto arguments =
      Sub(index->arguments(), outcomes[1].first_argument, outcomes[1].argument_count);
  CHECK(std::vector(arguments.begin(), arguments.end()) ==
        std::vector<NodeRef>{{1, 9}, {0, 1}, {kNoRef, kNoRef}});
  const auto context =
      Sub(index->context_nodes(), outcomes[1].first_context, outcomes[1].context_count);
  CHECK(std::vector(context.begin(), context.end()) == std::vector<NodeRef>{{1, 9}});
  CHECK(index->bounds().max_cluster == 3);
  CHECK(index->bounds().max_step == 3);
  CHECK(index->bounds().max_arguments == 3);
}

TEST_CASE("a text of the index is read from its file", "[dataset]") {
  const TempDir dir;
  test::WriteFixture(dir.path(), SampleFile("a.bin"));
  const CoqDataset dataset(dir.path(), MustIndex(dir.path(), dir / "index"));
  const Result<std::string_view> text = dataset.Text(FileId(0), dataset.index().outcomes()[0].text);
  REQUIRE(text.ok());
  CHECK(*text == "H : T |- a.bin");
  CHECK(dataset.Text(FileId(0), {.offset = ~std::uint64_t{0}, .bytes = 9, .reserved = 0})
            .status()
            .code() == StatusCode::kDataLoss);
}

TEST_CASE("the dataset's digest does not depend on times or places", "[index]") {
  const TempDir one;
  const TempDir other;
  for (const TempDir* dir : {&one, &other}) {
    test::WriteFixture(dir->path(), SampleFile("x/a.bin"));
    test::WriteFixture(dir->path(), SampleFile("b.bin", {"x/a.bin"}));
  }
  fs::last_write_time(one / "b.bin", fs::file_time_type::clock::now() - std::chrono::hours(5));
  const auto first = MustIndex(one.path(), one / "index");
  const auto second = MustIndex(other.path(), other / "index");
  CHECK(first->digest() == second->digest());
  test::WriteFixture(other.path(), SampleFile("b.bin"));
  CHECK(first->digest() != MustIndex(other.path(), other / "index")->digest());
}

TEST_CASE("no byte of an index can be changed unnoticed", "[index][flip]") {
  const TempDir dir;
  test::WriteFixture(dir.path(), SampleFile("a.bin"));
  const auto good = MustIndex(dir.path(), dir / "index");
  const std::vector<std::byte> bytes = test::ReadBytes(dir / "index");
  std::size_t unnoticed = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::vector<std::byte> flipped = bytes;
    flipped[i] ^= std::byte{0x10};
    test::WriteBytes(dir / "flipped", flipped);
    const auto index = DatasetIndex::Open(dir / "flipped");
    if (index.ok()) {
      // Bytes between sections have no meaning, so a change there is not noticed.
      CHECK(bytes[i] == std::byte{0});
      ++unnoticed;
    } else {
      REQUIRE(index.status().code() == StatusCode::kDataLoss);
    }
  }
  CHECK(unnoticed < 17 * 64);
}

TEST_CASE("an index that is cut off is damaged", "[index]") {
  const TempDir dir;
  test::WriteFixture(dir.path(), SampleFile("a.bin"));
  MustIndex(dir.path(), dir / "index");
  std::vector<std::byte> bytes = test::ReadBytes(dir / "index");
  for (const std::size_t size : {bytes.size() - 1, std::size_t{200}, std::size_t{100}}) {
    bytes.resize(size);
    test::WriteBytes(dir / "cut", bytes);
    const Status status = DatasetIndex::Open(dir / "cut").status();
    CHECK(status.code() == StatusCode::kDataLoss);
    CHECK(status.message().find("cut") != std::string::npos);
  }
  CHECK(DatasetIndex::Open(dir / "nowhere").status().code() == StatusCode::kNotFound);
}

}  // namespace
}  // namespace millrace
