#include "tests/support/dataset_fixture.h"

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include <capnp/any.h>
#include <capnp/message.h>
#include <capnp/serialize.h>

#include "millrace/v1/dataset.capnp.h"

namespace millrace::test {
namespace {

// Works for every group and struct that has setDepIndex and setNodeIndex.
template <class Builder>
void SetRef(Builder builder, const FixtureRef& ref) {
  builder.setDepIndex(static_cast<std::uint16_t>(ref.dependency));
  builder.setNodeIndex(ref.node);
}

void FillOutcome(schema::Outcome::Builder outcome, const FixtureOutcome& from) {
  auto before = outcome.initBefore();
  SetRef(before.getRoot(), from.root);
  auto context = before.initContext(static_cast<unsigned>(from.context.size()));
  for (unsigned i = 0; i < from.context.size(); ++i) SetRef(context[i], from.context[i]);
  before.setText(from.text);
  SetRef(outcome.getTerm(), from.root);
  auto arguments = outcome.initTacticArguments(static_cast<unsigned>(from.arguments.size()));
  for (unsigned i = 0; i < from.arguments.size(); ++i) {
    if (from.arguments[i]) {
      SetRef(arguments[i].initTerm(), *from.arguments[i]);
    } else {
      arguments[i].setUnresolvable();
    }
  }
}

void FillSteps(capnp::List<schema::ProofStep>::Builder steps,
               const std::vector<FixtureStep>& from) {
  for (unsigned s = 0; s < from.size(); ++s) {
    if (from[s].known) {
      auto tactic = steps[s].getTactic().initKnown();
      tactic.setIdent(from[s].ident);
      tactic.setText(from[s].text);
      tactic.setBaseText(from[s].base_text);
      tactic.setIntermText(from[s].interm_text);
    } else {
      steps[s].getTactic().setUnknown();
    }
    auto outcomes = steps[s].initOutcomes(static_cast<unsigned>(from[s].outcomes.size()));
    for (unsigned o = 0; o < from[s].outcomes.size(); ++o) {
      FillOutcome(outcomes[o], from[s].outcomes[o]);
    }
  }
}

void FillDefinition(schema::Definition::Builder definition, const FixtureDefinition& from,
                    std::uint32_t nodes) {
  definition.setName(from.name);
  definition.setPrevious(from.previous.value_or(nodes));
  auto external =
      definition.initExternalPrevious(static_cast<unsigned>(from.external_previous.size()));
  for (unsigned i = 0; i < from.external_previous.size(); ++i) {
    external.set(i, from.external_previous[i]);
  }
  if (from.discharged) definition.getStatus().setDischarged(*from.discharged);
  if (from.substituted) SetRef(definition.getStatus().initSubstituted(), *from.substituted);
  const auto steps = static_cast<unsigned>(from.steps.size());
  switch (from.kind) {
    case DefinitionKind::kInductive:
      return definition.setInductive(from.cluster);
    case DefinitionKind::kConstructor:
      return definition.setConstructor(from.cluster);
    case DefinitionKind::kProjection:
      return definition.setProjection(from.cluster);
    case DefinitionKind::kManualConstant:
      return definition.setManualConstant();
    case DefinitionKind::kTacticalConstant:
      return FillSteps(definition.initTacticalConstant(steps), from.steps);
    case DefinitionKind::kManualSectionConstant:
      return definition.setManualSectionConstant();
    case DefinitionKind::kTacticalSectionConstant:
      return FillSteps(definition.initTacticalSectionConstant(steps), from.steps);
  }
}

void SetTag(schema::Graph::Node::Builder node, std::uint32_t tag) {
  // Classes without a value differ only in their number, which has no setter of its own.
  capnp::AnyStruct::Builder words(kj::mv(node));
  words.getDataSection()[0] = static_cast<kj::byte>(tag & 0xFF);
  words.getDataSection()[1] = static_cast<kj::byte>(tag >> 8);
}

}  // namespace

std::vector<std::byte> Serialize(const FixtureFile& file) {
  capnp::MallocMessageBuilder message(file.segment_words, capnp::AllocationStrategy::FIXED_SIZE);
  auto root = message.initRoot<schema::Dataset>();
  const auto node_count = static_cast<unsigned>(file.nodes.size());

  auto dependencies = root.initDependencies(static_cast<unsigned>(file.dependencies.size()) + 1);
  dependencies.set(0, file.own_name.value_or(file.name));
  for (unsigned i = 0; i < file.dependencies.size(); ++i) {
    dependencies.set(i + 1, file.dependencies[i]);
  }

  unsigned edge_count = 0;
  for (const FixtureNode& node : file.nodes) {
    edge_count += static_cast<unsigned>(node.children.size());
  }
  auto graph = root.initGraph();
  auto nodes = graph.initNodes(node_count);
  auto edges = graph.initEdges(edge_count);
  unsigned next_edge = 0;
  for (unsigned n = 0; n < node_count; ++n) {
    SetTag(nodes[n], file.nodes[n].tag);
    nodes[n].setIdentity(file.nodes[n].identity);
    nodes[n].setChildrenIndex(next_edge);
    nodes[n].setChildrenCount(static_cast<std::uint16_t>(file.nodes[n].children.size()));
    for (const FixtureEdge& edge : file.nodes[n].children) {
      edges[next_edge].setLabel(static_cast<schema::EdgeClassification>(edge.label));
      SetRef(edges[next_edge++].getTarget(), edge.target);
    }
  }

  std::vector<std::uint32_t> list;
  for (const FixtureDefinition& definition : file.definitions) {
    FillDefinition(nodes[definition.node].getLabel().initDefinition(), definition, node_count);
    list.push_back(definition.node);
  }
  if (file.definition_list) list = *file.definition_list;
  auto definitions = root.initDefinitions(static_cast<unsigned>(list.size()));
  for (unsigned i = 0; i < list.size(); ++i) definitions.set(i, list[i]);
  root.setRepresentative(file.representative.value_or(node_count));
  root.setModuleName("Test");
  root.initDataVersion().setMajor(file.version);

  const auto words = capnp::messageToFlatArray(message);
  const auto bytes = words.asBytes();
  const auto* begin = reinterpret_cast<const std::byte*>(bytes.begin());
  return {begin, begin + bytes.size()};
}

FixtureFile SampleFile(const std::string& name, const std::vector<std::string>& dependencies) {
  const FixtureRef elsewhere = dependencies.empty() ? FixtureRef{0, 1} : FixtureRef{1, 1};
  FixtureFile file{.name = name, .dependencies = dependencies};
  // Nodes 0 to 2 are an inductive with two constructors, 3 to 5 are constants, and from 6 on there
  // are terms and proof states.
  file.nodes = {
      {.children = {{9, {0, 6}}, {10, {0, 1}}, {10, {0, 2}}}, .identity = 100},
      {.children = {{13, {0, 0}}}, .identity = 101},
      {.children = {{13, {0, 7}}}, .identity = 102},
      {.children = {{4, {0, 6}}, {6, elsewhere}}, .identity = 103},
      {.children = {{4, {0, 7}}, {7, {0, 8}}}, .identity = 104},
      {.identity = 105},
      {.tag = 8, .identity = 106},
      {.tag = 13, .children = {{16, {0, 6}}, {17, {0, 0}}}, .identity = 107},
      {.tag = 0, .children = {{0, {0, 9}}, {1, {0, 7}}}, .identity = 108},
      {.tag = 2, .children = {{2, {0, 6}}}, .identity = 109},
  };
  const FixtureOutcome outcome{.root = {0, 8},
                               .context = {{0, 9}},
                               .arguments = {FixtureRef{0, 9}, elsewhere, std::nullopt},
                               .text = "H : T |- " + name};
  file.definitions = {
      {.node = 0,
       .name = name + ".T",
       .previous = 1,
       .kind = DefinitionKind::kInductive,
       .cluster = 0},
      {.node = 1,
       .name = name + ".A",
       .previous = 2,
       .kind = DefinitionKind::kConstructor,
       .cluster = 0},
      {.node = 2, .name = name + ".B", .kind = DefinitionKind::kConstructor, .cluster = 0},
      {.node = 3, .name = name + ".c", .previous = 0},
      {.node = 4,
       .name = name + ".theorem",
       .previous = 3,
       .kind = DefinitionKind::kTacticalConstant,
       .steps =
           {{.ident = 7, .text = "intros @x", .base_text = "intros", .interm_text = "intros x"},
            {.ident = 9, .outcomes = {outcome, outcome}},
            {.known = false, .outcomes = {outcome}},
            {.ident = 7, .interm_text = "other", .outcomes = {outcome}}}},
      {.node = 5, .name = name + ".off", .previous = 3, .discharged = 4},
  };
  if (!dependencies.empty()) file.definitions[3].external_previous = {1};
  for (const FixtureDefinition& definition : file.definitions) file.nodes[definition.node].tag = 3;
  file.representative = 4;
  return file;
}

void WriteBytes(const std::filesystem::path& path, const std::vector<std::byte>& bytes) {
  std::filesystem::create_directories(path.parent_path());
  // The old file is removed, not cut to length 0, because ext4 then waits for the disk.
  std::filesystem::remove(path);
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char*>(bytes.data()),
            static_cast<std::streamsize>(bytes.size()));
  if (!out.good()) throw std::runtime_error("cannot write " + path.string());
}

std::vector<std::byte> ReadBytes(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in.good()) throw std::runtime_error("cannot read " + path.string());
  const std::string all((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const auto* begin = reinterpret_cast<const std::byte*>(all.data());
  return {begin, begin + all.size()};
}

void WriteFixture(const std::filesystem::path& dir, const FixtureFile& file) {
  WriteBytes(dir / file.name, Serialize(file));
}

TempDir::TempDir() {
  std::string name = (std::filesystem::temp_directory_path() / "millrace-test-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
  path_ = name;
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace millrace::test
