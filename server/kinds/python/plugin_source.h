// The source `{python: "module:Class", args: {…}}`: examples that a user's class builds.
#pragma once

#include <memory>

#include "common/batch/layout/layout.h"
#include "server/plugin/plugin_registry.h"
#include "server/source/source_table.h"

namespace millrace {

/// The plugin raised an exception that `drop` names.
inline constexpr DropReason kDroppedByPlugin{1};

/// The object that a pipeline with this source names. InvalidArgument.
Result<PluginObject> PluginObjectOf(const PlanParts& parts);

/// `plugins` may be null: the source can then be read, but not made.
SourceTable PluginSources(std::shared_ptr<PluginRegistry> plugins);

}  // namespace millrace
