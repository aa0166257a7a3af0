// Which definitions of a pipeline's tensors a tensor needs.
//
// Pure functions.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "common/operations/python_function.h"
#include "server/source/tensors_part.h"

namespace millrace {

/// Definitions by their names.
using NamedDefinitions = std::map<std::string, const TensorDefinition*, std::less<>>;

/// The definitions of a part, which has to outlive them.
inline NamedDefinitions DefinitionsOf(const TensorsPart& part) {
  NamedDefinitions definitions;
  for (const TensorDefinition& definition : part.definitions) {
    definitions.emplace(definition.name, &definition);
  }
  return definitions;
}

/// The definition that makes a tensor; nullptr if the source has it.
inline const TensorDefinition* MakerOf(const NamedDefinitions& definitions, std::string_view name) {
  return DefinitionOf(name, [&](std::string_view one) {
    const auto found = definitions.find(one);
    return found == definitions.end() ? nullptr : found->second;
  });
}

/// Adds the names of all definitions that a tensor needs to `needed`, its own too.
inline void AddNeeded(const NamedDefinitions& definitions, std::string_view name,
                      std::set<std::string>& needed) {
  const TensorDefinition* const maker = MakerOf(definitions, name);
  if (maker == nullptr || !needed.insert(maker->name).second) return;
  for (const std::string& input : maker->inputs) AddNeeded(definitions, input, needed);
}

}  // namespace millrace
