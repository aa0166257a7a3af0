// The parts of a plan: settings that stages give, one type for each concern. A part belongs to the
// code that uses it; that code defines its type, with the defaults that hold if no stage gives it.
// Plan::Compile and the sources make a plan of the parts. PartsOfPipeline
// (server/plan/pipeline_parts.h) collects them.
//
// Parts that stages of server/plan give are in order_parts.h, and a few in
// server/sampling/closure_parts.h and server/plan/cache/cache_part.h; those of a kind's stages are
// in the kind's room.
//
// Value type; not thread-safe while it is changed.
#pragma once

#include <any>
#include <functional>
#include <map>
#include <string>
#include <typeindex>
#include <unordered_map>

#include "common/base/result.h"
#include "server/source/stage.h"

namespace millrace {

class PlanParts {
 public:
  /// The part of this type. If no stage gave it, it has its defaults.
  template <class Part>
  const Part& Get() const {
    static const Part defaults{};
    const auto found = parts_.find(std::type_index(typeid(Part)));
    return found == parts_.end() ? defaults : *std::any_cast<Part>(&found->second);
  }
  /// The part of this type, to be changed.
  template <class Part>
  Part& Edit() {
    std::any& part = parts_[std::type_index(typeid(Part))];
    if (!part.has_value()) part.emplace<Part>();
    return *std::any_cast<Part>(&part);
  }

 private:
  std::unordered_map<std::type_index, std::any> parts_;
};

/// Where keys of stages were written, by their names ("closure.order"), in the form that messages
/// use ("file:3:5").
struct OriginsPart {
  std::map<std::string, std::string, std::less<>> keys;
};

/// An error that begins with a key, such as "features: …", with the place in front where the key
/// was written, if the parts know it. Other errors stay as they are.
Status AtKey(const PlanParts& parts, const Status& status);

/// The value of `source:`, which says what an example is.
struct SourcePart {
  std::string name;
  ParamValue argument = {};  // null if the source has no argument
  /// Further values of the source (SourceType::options), by their names; defaults are filled in.
  std::map<std::string, ParamValue, std::less<>> options = {};
};

}  // namespace millrace
