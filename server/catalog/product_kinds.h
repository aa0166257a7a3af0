// The kinds of datasets that this product knows.
//
// Free functions; thread-safe.
#pragma once

#include <memory>

#include "server/plugin/plugin_registry.h"
#include "server/source/dataset_kind.h"
#include "server/source/stage.h"

namespace millrace {

/// `plugins`: runs the code that pipelines name; null: such pipelines can be read, but not
/// compiled.
DatasetKinds ProductKinds(std::shared_ptr<PluginRegistry> plugins = nullptr);

/// The stages of pipelines over datasets of these kinds.
const StageTable& ProductStages();

}  // namespace millrace
