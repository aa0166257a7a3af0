#include "server/source/plan_parts.h"

#include <string_view>

namespace millrace {

Status AtKey(const PlanParts& parts, const Status& status) {
  const std::string& message = status.message();
  const auto& keys = parts.Get<OriginsPart>().keys;
  const auto origin = keys.find(std::string_view(message).substr(0, message.find(": ")));
  return origin == keys.end() ? status : status.WithContext(origin->second);
}

}  // namespace millrace
