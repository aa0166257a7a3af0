#include "common/operations/graph_pad.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/parameters/make_parameter.h"
#include "common/parameters/params.h"
#include "common/tensor/tensor_view.h"

namespace millrace {
namespace {

Parameter Count(std::string name, std::string help, std::int64_t min) {
  return Required(IntParameter(std::move(name), std::move(help), min, kMaxExtent));
}

}  // namespace

bool GraphPad::IsMask(std::string_view name) {
  return std::find(kMasks.begin(), kMasks.end(), name) != kMasks.end();
}

const std::vector<Parameter>& GraphPad::Parameters() {
  static const std::vector<Parameter> parameters = {
      Count("nodes", "nodes of every batch; at least one of them is padding", 1),
      Count("edges", "edges of every batch, with reversed and self edges", 0),
      Count("graphs", "graphs of every batch; the last one is padding", 1),
  };
  return parameters;
}

Result<GraphPad> GraphPad::Bind(const Params& params) {
  MILLRACE_ASSIGN_OR_RETURN(const Params normal, WithDefaults(Parameters(), params));
  const auto count = [&](std::string_view name) {
    return static_cast<std::uint32_t>(normal.GetInt(name));
  };
  return GraphPad{count("nodes"), count("edges"), count("graphs")};
}

Params GraphPad::params() const {
  return Params({{"nodes", std::int64_t{nodes}},
                          {"edges", std::int64_t{edges}},
                          {"graphs", std::int64_t{graphs}}});
}

}  // namespace millrace
