#include "server/kinds/tokens/tokens_options.h"

#include <string>
#include <string_view>
#include <variant>

#include <fmt/format.h>

#include "common/json/json.h"
#include "server/kinds/tokens/format/token_type.h"

namespace millrace {
namespace {

constexpr const char* kKeysOfTokens = "dtype, eos, bos and vocab";

Result<DType> ReadTokenType(const Json& value) {
  if (value.is_string()) {
    const std::optional<DType> dtype = DTypeFromName(value.AsString());
    if (dtype && IsTokenType(*dtype)) return *dtype;
  }
  return InvalidArgument(fmt::format("expected {}, got {}", kTokenTypes, value.ToText()));
}

Result<std::uint64_t> ReadTokenNumber(const Json& value, std::uint64_t least, std::uint64_t most) {
  if (value.is_unsigned() && value.AsUnsigned() >= least && value.AsUnsigned() <= most) {
    return value.AsUnsigned();
  }
  return InvalidArgument(
      fmt::format("expected an integer from {} to {}, got {}", least, most, value.ToText()));
}

Status ReadKey(std::string_view key, const Json& value, TokensOptions& options) {
  if (key == "dtype") {
    MILLRACE_ASSIGN_OR_RETURN(options.dtype, ReadTokenType(value));
    return OkStatus();
  }
  if (key == "vocab") {
    MILLRACE_ASSIGN_OR_RETURN(options.vocab, ReadTokenNumber(value, 1, kLargestToken + 1));
    return OkStatus();
  }
  if (key == "eos" || key == "bos") {
    MILLRACE_ASSIGN_OR_RETURN(const std::uint64_t token, ReadTokenNumber(value, 0, kLargestToken));
    if (options.mark) {
      return InvalidArgument(
          "expected either eos, which ends each document, or bos, which begins it, got both");
    }
    options.mark = DocumentMark{key == "eos", token};
    return OkStatus();
  }
  return InvalidArgument(fmt::format("unknown key; expected {}", kKeysOfTokens));
}

}  // namespace

Result<TokensOptions> ReadTokensOptions(const ParamValue& value) {
  TokensOptions options;
  if (std::holds_alternative<std::monostate>(value)) return options;
  MILLRACE_ASSIGN_OR_RETURN(const Json tree, Json::Parse(std::get<ParamTree>(value).json));
  if (!tree.is_object()) {
    return InvalidArgument("expected a map, such as {dtype: uint16, eos: 50256}");
  }
  for (const auto& [key, below] : tree.AsObject()) {
    if (below.is_null()) continue;
    MILLRACE_RETURN_IF_ERROR(ReadKey(key, below, options).WithContext("." + key));
  }
  if (options.mark && options.vocab && options.mark->token >= *options.vocab) {
    return InvalidArgument(fmt::format(".{}: expected a token below vocab, {}, got {}",
                                       options.mark->key(), *options.vocab, options.mark->token));
  }
  return options;
}

}  // namespace millrace
