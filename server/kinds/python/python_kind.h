// Plugins, and folders that plugins read, as datasets.
//
// A pipeline without `dataset:` draws from the dataset plugin:NAME, which is the plugin itself: its
// digest covers the plugin's files, so that a worker without the plugin, or with another one, gets
// no work of it. With `dataset: ID`, and ID=python:DIR, the plugin gets the folder.
#pragma once

#include <memory>

#include "server/plugin/plugin_registry.h"
#include "server/source/dataset_kind.h"

namespace millrace {

/// `plugins` may be null: pipelines can then be read, but not compiled.
std::shared_ptr<const DatasetKind> MakePythonKind(std::shared_ptr<PluginRegistry> plugins);

}  // namespace millrace
