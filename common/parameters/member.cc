#include "common/parameters/member.h"

#include "common/base/log_level_names.h"

namespace millrace {

ParamValue AsParamValue(DType member) { return std::string(DTypeName(member)); }
ParamValue AsParamValue(LogLevel member) { return std::string(LogLevelName(member)); }

void FromParamValue(const ParamValue& value, DType& member) {
  member = *DTypeFromName(std::get<std::string>(value));
}

void FromParamValue(const ParamValue& value, LogLevel& member) {
  member = *ParseLogLevel(std::get<std::string>(value));
}

}  // namespace millrace
