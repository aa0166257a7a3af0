#include "client/cli/offline/example_digest.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <fmt/core.h>

namespace millrace::cli {
namespace {

/// A tensor's values. Empty if the batch does not have the tensor.
std::span<const std::int32_t> Values(const DeliveredBatch& batch, std::string_view path) {
  const DeliveredTensor* tensor = batch.Find(path);
  if (tensor == nullptr) return {};
  return tensor->values<std::int32_t>();
}

std::string DigestOf(std::initializer_list<std::span<const std::int32_t>> arrays) {
  StreamDigest digest;
  for (const std::span<const std::int32_t> array : arrays) digest.AddArray(array);
  return digest.Finish();
}

Json ToJson(std::span<const std::int32_t> values) {
  return Json(std::vector<std::int32_t>(values.begin(), values.end()));
}

/// The offset at which each group of edges begins, without the first group.
Json EdgeOffsets(std::span<const std::int32_t> labels, std::uint32_t groups) {
  std::vector<std::uint32_t> offsets(groups - 1, 0);
  std::size_t edge = 0;
  for (std::uint32_t group = 1; group < groups; ++group) {
    while (edge < labels.size() && labels[edge] < static_cast<std::int32_t>(group)) ++edge;
    offsets[group - 1] = static_cast<std::uint32_t>(edge);
  }
  return Json(offsets);
}

}  // namespace

StreamDigest::StreamDigest() : state_(XXH64_createState()) {
  XXH64_reset(static_cast<XXH64_state_t*>(state_), 0);
}
StreamDigest::~StreamDigest() { XXH64_freeState(static_cast<XXH64_state_t*>(state_)); }

void StreamDigest::AddBytes(const void* data, std::size_t size) {
  XXH64_update(static_cast<XXH64_state_t*>(state_), data, size);
}

void StreamDigest::AddText(std::string_view text) {
  AddUint32(static_cast<std::uint32_t>(text.size()));
  AddBytes(text.data(), text.size());
}

void StreamDigest::AddArray(std::span<const std::int32_t> values) {
  AddUint32(static_cast<std::uint32_t>(values.size()));
  AddBytes(values.data(), values.size_bytes());
}

std::string StreamDigest::Finish() const {
  return fmt::format("{:016x}", XXH64_digest(static_cast<const XXH64_state_t*>(state_)));
}

Json ExampleLine(const DeliveredBatch& batch, const ExpandSpec& expand,
                 const ExampleDescription& description, std::string_view kind, std::uint64_t id,
                 std::uint32_t split, bool full) {
  const auto node_label = Values(batch, "node_label");
  const auto edge_source = Values(batch, "edge_source");
  const auto edge_target = Values(batch, "edge_target");
  const auto edge_label = Values(batch, "edge_label");
  const auto local_context = Values(batch, "local_context");
  const auto global_context = Values(batch, "global_context");
  const auto tactic = Values(batch, "tactic");
  const auto local_args = Values(batch, "local_args");
  const auto global_args = Values(batch, "global_args");
  const bool is_definition = kind == "definition";

  Json line = Json::Object{{"kind", kind}, {"id", id}, {"split", split}};
  line["nodes"] = node_label.size();
  line["edges"] = edge_source.size();
  if (!is_definition) line["global_context_size"] = global_context.size();
  line["graph"] = DigestOf({node_label, edge_source, edge_target, edge_label});
  if (is_definition) {
    line["num_definitions"] = Values(batch, "num_definitions")[0];
    const ExampleFact::Value* const members = description.Find("members");
    line["names"] = members == nullptr ? std::vector<std::string>{}
                                       : std::get<std::vector<std::string>>(*members);
  } else {
    line["context"] = DigestOf({local_context, global_context});
    line["action"] = DigestOf({tactic, local_args, global_args});
    line["step"] = Values(batch, "proof_step")[0];
    line["faithful"] = Values(batch, "faithful")[0] != 0;
    line["name"] = description.title;
  }
  if (!full) return line;
  Json& arrays = line["full"];
  arrays["node_label"] = ToJson(node_label);
  arrays["edge_source"] = ToJson(edge_source);
  arrays["edge_target"] = ToJson(edge_target);
  arrays["edge_label"] = ToJson(edge_label);
  arrays["edge_offsets"] = EdgeOffsets(edge_label, expand.edge_labels());
  if (!is_definition) {
    arrays["local_context"] = ToJson(local_context);
    arrays["global_context"] = ToJson(global_context);
    arrays["tactic"] = tactic[0];
    arrays["local_args"] = ToJson(local_args);
    arrays["global_args"] = ToJson(global_args);
  }
  return line;
}

}  // namespace millrace::cli
