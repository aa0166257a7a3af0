#include "common/transport/convert/status_json.h"

#include <google/protobuf/util/json_util.h>

namespace millrace {

Result<std::string> StatusJson(const v1::ServiceStatus& status, bool one_line) {
  google::protobuf::util::JsonPrintOptions print;
  print.add_whitespace = !one_line;
  print.always_print_primitive_fields = true;
  print.preserve_proto_field_names = true;
  std::string text;
  if (!google::protobuf::util::MessageToJsonString(status, &text, print).ok()) {
    return Internal("the answer cannot be written as JSON");
  }
  return text;
}

}  // namespace millrace
