#include "server/plan/tensors/document_tensors.h"

#include <algorithm>
#include <set>
#include <utility>

#include "server/plan/tensors/needed_definitions.h"

namespace millrace {
namespace {

/// InvalidArgument, with its place, if a definition is called `pack`.
Status CheckNoPack(const TensorsPart& part) {
  for (const TensorDefinition& definition : part.definitions) {
    if (definition.name != "pack") continue;
    return AtOrigin(part,
                    InvalidArgument("pack: expected another name, because tensors of rows are "
                                    "called pack.lengths and so on"));
  }
  return OkStatus();
}

}  // namespace

Result<DocumentTensors> PartTensors(const TensorsPart& part,
                                    const std::vector<std::string>& packed) {
  MILLRACE_RETURN_IF_ERROR(CheckNoPack(part));
  const NamedDefinitions definitions = DefinitionsOf(part);
  std::set<std::string> of_documents;
  for (const std::string& name : packed) AddNeeded(definitions, name, of_documents);
  // To rows, the packed tensors are tensors of their source.
  NamedDefinitions of_rows = definitions;
  for (const std::string& name : packed) {
    const TensorDefinition* const maker = MakerOf(definitions, name);
    if (maker != nullptr) of_rows.erase(maker->name);
  }
  std::set<std::string> read;
  for (const TensorDefinition& definition : part.definitions) {
    if (!of_documents.contains(definition.name)) AddNeeded(of_rows, definition.name, read);
  }
  for (const std::string& name : part.outputs.value_or(std::vector<std::string>())) {
    AddNeeded(of_rows, name, read);
  }
  DocumentTensors parted;
  parted.of_rows = part;
  std::erase_if(parted.of_rows.definitions, [&](const TensorDefinition& definition) {
    return !read.contains(definition.name);
  });
  parted.of_documents.operations = part.operations;
  parted.of_documents.origins = part.origins;
  for (const TensorDefinition& definition : part.definitions) {
    if (of_documents.contains(definition.name)) {
      parted.of_documents.definitions.push_back(definition);
    }
  }
  return parted;
}

}  // namespace millrace
