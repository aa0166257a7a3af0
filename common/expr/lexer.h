// From the text of an expression to its tokens.
//
// Thread-compatible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace millrace::expr_internal {

enum class TokenKind : std::uint8_t { kEnd, kInteger, kFloat, kName, kSymbol, kError };

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string_view text;
  std::size_t column = 1;  // counted from 1
  std::int64_t integer = 0;
  double number = 0;
  std::string error;  // what is wrong, if the kind is kError
};

/// InvalidArgument, with "column N: " before the message.
Status ErrorAt(std::size_t column, std::string_view message);

class Lexer {
 public:
  /// The text has to outlive the lexer and its tokens.
  explicit Lexer(std::string_view text) : text_(text) {}

  /// After the last token, kEnd each time.
  Token Next();

 private:
  Token Number(Token token);

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace millrace::expr_internal
