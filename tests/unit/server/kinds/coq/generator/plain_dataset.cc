#include "tests/unit/server/kinds/coq/generator/plain_dataset.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <set>
#include <stdexcept>

#include <capnp/serialize.h>

namespace millrace::test {
namespace {

class FileReader {
 public:
  FileReader(PlainFile& file, const std::map<std::string, std::uint32_t>& numbers,
             std::uint32_t number)
      : file_(file), numbers_(numbers), number_(number) {}

  void Read(schema::Dataset::Reader dataset) {
    for (auto name : dataset.getDependencies()) {
      file_.dependencies.push_back(numbers_.at(std::string(name.cStr(), name.size())));
    }
    file_.representative = dataset.getRepresentative();
    for (auto node : dataset.getGraph().getNodes()) {
      file_.labels.push_back(node.getLabel().which());
      file_.identities.push_back(node.getIdentity());
      auto& children = file_.children.emplace_back();
      for (std::uint32_t i = 0; i < node.getChildrenCount(); ++i) {
        auto edge = dataset.getGraph().getEdges()[node.getChildrenIndex() + i];
        children.push_back({edge.getLabel(), Node(edge.getTarget())});
      }
    }
    for (std::uint32_t node : dataset.getDefinitions()) {
      ReadDefinition(node, dataset.getGraph().getNodes()[node].getLabel().getDefinition());
    }
  }

 private:
  template <class Reference>
  PlainNode Node(Reference reference) const {
    return {file_.dependencies.at(reference.getDepIndex()), reference.getNodeIndex()};
  }

  void ReadDefinition(std::uint32_t node, schema::Definition::Reader reader) {
    PlainDefinition& definition = file_.definitions[node];
    definition.node = node;
    definition.previous = reader.getPrevious();
    definition.tag = reader.which();
    definition.status = reader.getStatus().which();
    definition.cluster = node;
    for (auto d : reader.getExternalPrevious()) {
      definition.required.push_back(file_.dependencies.at(d));
    }
    switch (reader.which()) {
      case schema::Definition::INDUCTIVE:
        definition.cluster = reader.getInductive();
        break;
      case schema::Definition::CONSTRUCTOR:
        definition.cluster = reader.getConstructor();
        break;
      case schema::Definition::PROJECTION:
        definition.cluster = reader.getProjection();
        break;
      case schema::Definition::TACTICAL_CONSTANT:
        ReadSteps(node, reader.getTacticalConstant());
        break;
      case schema::Definition::TACTICAL_SECTION_CONSTANT:
        ReadSteps(node, reader.getTacticalSectionConstant());
        break;
      default:
        break;
    }
  }

  void ReadSteps(std::uint32_t definition, capnp::List<schema::ProofStep>::Reader list) {
    for (auto reader : list) {
      PlainStep& step = file_.steps.emplace_back();
      step.known = reader.getTactic().isKnown();
      if (step.known) {
        auto tactic = reader.getTactic().getKnown();
        step.ident = tactic.getIdent();
        step.text = tactic.getText().cStr();
        step.interm_text = tactic.getIntermText().cStr();
      }
      for (auto from : reader.getOutcomes()) {
        PlainOutcome& outcome = step.outcomes.emplace_back();
        outcome.file = number_;
        outcome.definition = definition;
        outcome.root = Node(from.getBefore().getRoot());
        for (auto node : from.getBefore().getContext()) outcome.context.push_back(Node(node));
        for (auto argument : from.getTacticArguments()) {
          outcome.arguments.emplace_back(argument.isTerm(), PlainNode{});
          if (argument.isTerm()) outcome.arguments.back().second = Node(argument.getTerm());
        }
      }
    }
  }

  PlainFile& file_;
  const std::map<std::string, std::uint32_t>& numbers_;
  const std::uint32_t number_;
};

// Follows a message's pointers from the root and counts the far ones. It walks over the encoding
// (https://capnproto.org/encoding.html) and does not use the readers.
class FarCounter {
 public:
  FarCounter(kj::ArrayPtr<const kj::ArrayPtr<const capnp::word>> segments, PlainFile& file)
      : segments_(segments), file_(file) {}

  void Walk(std::uint32_t segment, std::size_t at) {
    const std::uint64_t pointer = Word(segment, at);
    if (pointer == 0) return;
    switch (pointer & 3) {
      case 2: {
        const auto target = static_cast<std::uint32_t>(pointer >> 32);
        const std::size_t offset = (pointer & 0xFFFFFFFF) >> 3;
        ++file_.far_pointers;
        if ((pointer & 4) == 0) return Walk(target, offset);
        ++file_.double_far_pointers;
        const std::uint64_t pad = Word(target, offset);
        return Follow(static_cast<std::uint32_t>(pad >> 32), (pad & 0xFFFFFFFF) >> 3,
                      Word(target, offset + 1));
      }
      case 0:
      case 1: {
        const auto offset = static_cast<std::int32_t>(pointer & 0xFFFFFFFC) / 4;
        return Follow(segment, static_cast<std::size_t>(static_cast<std::int64_t>(at) + 1 + offset),
                      pointer);
      }
      default:
        return;
    }
  }

 private:
  std::uint64_t Word(std::uint32_t segment, std::size_t at) const {
    if (segment >= segments_.size() || at >= segments_[segment].size()) {
      throw std::runtime_error("a pointer leaves its segment");
    }
    std::uint64_t word;
    std::memcpy(&word, &segments_[segment][at], sizeof word);
    return word;
  }

  void Struct(std::uint32_t segment, std::size_t at, std::uint64_t data, std::uint64_t pointers) {
    for (std::uint64_t i = 0; i < pointers; ++i) Walk(segment, at + data + i);
  }

  void Follow(std::uint32_t segment, std::size_t at, std::uint64_t pointer) {
    if ((pointer & 3) == 0) {
      return Struct(segment, at, (pointer >> 32) & 0xFFFF, pointer >> 48);
    }
    const std::uint64_t size = (pointer >> 32) & 7;
    const std::uint64_t count = pointer >> 35;
    if (size == 6) {
      for (std::uint64_t i = 0; i < count; ++i) Walk(segment, at + i);
    } else if (size == 7) {
      const std::uint64_t tag = Word(segment, at);
      const std::uint64_t data = (tag >> 32) & 0xFFFF;
      const std::uint64_t pointers = tag >> 48;
      for (std::uint64_t i = 0; i < (tag & 0xFFFFFFFF) >> 2; ++i) {
        Struct(segment, at + 1 + i * (data + pointers), data, pointers);
      }
    }
  }

  kj::ArrayPtr<const kj::ArrayPtr<const capnp::word>> segments_;
  PlainFile& file_;
};

void CountFarPointers(kj::ArrayPtr<const capnp::word> words, PlainFile& file) {
  const auto* table = reinterpret_cast<const std::uint32_t*>(words.begin());
  file.segments = table[0] + 1;
  std::size_t at = (file.segments + 2) / 2;
  std::vector<kj::ArrayPtr<const capnp::word>> segments;
  for (std::uint32_t i = 0; i < file.segments; ++i) {
    segments.push_back(words.slice(at, at + table[i + 1]));
    at += table[i + 1];
  }
  if (at != words.size()) throw std::runtime_error(file.name + ": bytes behind the message");
  FarCounter(kj::arrayPtr(segments.data(), segments.size()), file).Walk(0, 0);
}

void ReadFile(const std::filesystem::path& path, std::uint32_t number,
              const std::map<std::string, std::uint32_t>& numbers, PlainFile& file) {
  std::ifstream in(path, std::ios::binary);
  std::vector<char> bytes{std::istreambuf_iterator<char>(in), {}};
  std::vector<capnp::word> words(bytes.size() / sizeof(capnp::word));
  std::memcpy(static_cast<void*>(words.data()), bytes.data(), bytes.size());
  const kj::ArrayPtr<const capnp::word> message = kj::arrayPtr(words.data(), words.size());
  CountFarPointers(message, file);
  capnp::ReaderOptions options;
  options.traversalLimitInWords = ~std::uint64_t{0};
  capnp::FlatArrayMessageReader reader(message, options);
  auto dataset = reader.getRoot<schema::Dataset>();
  if (dataset.getDataVersion().getMajor() != 15) throw std::runtime_error(file.name + ": version");
  FileReader(file, numbers, number).Read(dataset);
}

}  // namespace

std::vector<const PlainOutcome*> PlainDataset::Examples() const {
  std::vector<const PlainOutcome*> examples;
  for (const PlainFile& file : files) {
    for (const PlainStep& step : file.steps) {
      if (!step.known) continue;
      for (const PlainOutcome& outcome : step.outcomes) examples.push_back(&outcome);
    }
  }
  return examples;
}

std::vector<PlainNode> PlainDataset::Closure(PlainNode root) const {
  std::vector<PlainNode> found{root};
  std::set<PlainNode> seen{root};
  for (std::size_t i = 0; i < found.size(); ++i) {
    const PlainNode node = found[i];
    if (i > 0 && label(node) == NodeLabel::DEFINITION) continue;
    for (const PlainEdge& edge : children(node)) {
      if (edge.label == EdgeLabel::CONST_OPAQUE_DEF) continue;
      if (seen.insert(edge.target).second) found.push_back(edge.target);
    }
  }
  return found;
}

PlainDataset ReadPlainDataset(const std::filesystem::path& dir) {
  std::map<std::string, std::uint32_t> numbers;
  PlainDataset dataset;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(dir)) {
    if (entry.path().extension() == ".bin") {
      numbers[entry.path().lexically_relative(dir).generic_string()] = 0;
    }
  }
  for (auto& [name, number] : numbers) {
    number = static_cast<std::uint32_t>(dataset.files.size());
    dataset.files.emplace_back().name = name;
  }
  for (std::uint32_t i = 0; i < dataset.files.size(); ++i) {
    ReadFile(dir / dataset.files[i].name, i, numbers, dataset.files[i]);
  }
  for (const PlainFile& file : dataset.files) {
    for (const auto& children : file.children) {
      for (const PlainEdge& edge : children) {
        if (edge.target.second >= dataset.files[edge.target.first].labels.size()) {
          throw std::runtime_error(file.name + ": an edge leads to no node");
        }
      }
    }
  }
  return dataset;
}

}  // namespace millrace::test
