#include "server/plugin/plugin_messages.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/base/json_text.h"
#include "common/tensor/tensor_type.h"

namespace millrace {
namespace {

std::string TensorJson(const PluginTensor& tensor) {
  return fmt::format(R"({{"name": {}, "type": {}, "dtype": "{}", "inner": [{}], "ragged": {}}})",
                     JsonText(tensor.name), JsonText(TensorTypeText(tensor.type)),
                     DTypeName(tensor.type.dtype), fmt::join(tensor.type.inner, ", "),
                     JsonFlag(tensor.type.ragged));
}

std::string TensorsJson(const std::vector<PluginTensor>& tensors) {
  std::vector<std::string> texts;
  for (const PluginTensor& tensor : tensors) texts.push_back(TensorJson(tensor));
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

}  // namespace

std::string_view JsonFlag(bool value) { return value ? "true" : "false"; }

std::string OpenMessage(const PluginObject& object) {
  return fmt::format(
      R"({{"open": {{"kind": "{}", "name": {}, "args": {}, "folder": {}, "per_batch": {}, )"
      R"("random": {}, "drop": {}, "inputs": {}}}}})",
      object.kind == PluginObject::Kind::kSource ? "source" : "function", JsonText(object.name),
      object.args, object.folder.empty() ? "null" : JsonText(object.folder),
      JsonFlag(object.per_batch), JsonFlag(object.random), JsonList(object.drop),
      TensorsJson(object.inputs));
}

std::string OutputsMessage(const std::vector<PluginTensor>& tensors) {
  return fmt::format(R"({{"outputs": {}}})", TensorsJson(tensors));
}

}  // namespace millrace
