#include "common/expr/lexer.h"

#include <array>
#include <charconv>
#include <system_error>

#include <fmt/format.h>

namespace millrace::expr_internal {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsWordStart(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool IsWord(char c) { return IsWordStart(c) || IsDigit(c); }
bool IsSpace(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

/// Longer symbols stand before their beginnings.
constexpr std::array<std::string_view, 20> kSymbols = {"&&", "||", "==", "!=", "<=", ">=", "//",
                                                       "<",  ">",  "+",  "-",  "*",  "/",  "%",
                                                       "!",  "?",  ":",  "(",  ")",  ","};

/// The character at the beginning of a text, printable.
std::string Shown(std::string_view text) {
  const auto byte = static_cast<unsigned char>(text[0]);
  if (byte >= 0x20 && byte < 0x7f) return std::string(text.substr(0, 1));
  return fmt::format("\\x{:02x}", byte);
}

}  // namespace

Status ErrorAt(std::size_t column, std::string_view message) {
  return InvalidArgument(fmt::format("column {}: {}", column, message));
}

Token Lexer::Next() {
  while (at_ < text_.size() && IsSpace(text_[at_])) ++at_;
  Token token;
  token.column = at_ + 1;
  const std::string_view rest = text_.substr(at_);
  if (rest.empty()) return token;
  if (IsDigit(rest[0]) || (rest[0] == '.' && rest.size() > 1 && IsDigit(rest[1]))) {
    return Number(token);
  }
  if (IsWordStart(rest[0])) {
    std::size_t length = 1;
    while (length < rest.size() &&
           (IsWord(rest[length]) ||
            (rest[length] == '.' && length + 1 < rest.size() && IsWordStart(rest[length + 1])))) {
      ++length;
    }
    token.kind = TokenKind::kName;
    token.text = rest.substr(0, length);
    at_ += length;
    return token;
  }
  for (const std::string_view symbol : kSymbols) {
    if (!rest.starts_with(symbol)) continue;
    token.kind = TokenKind::kSymbol;
    token.text = symbol;
    at_ += symbol.size();
    return token;
  }
  token.kind = TokenKind::kError;
  const bool doubled = rest[0] == '=' || rest[0] == '&' || rest[0] == '|';
  token.error = doubled ? fmt::format("unexpected '{0}'; write '{0}{0}'", rest[0])
                        : fmt::format("unexpected '{}'", Shown(rest));
  return token;
}

Token Lexer::Number(Token token) {
  std::size_t end = at_;
  const auto digits = [&] {
    while (end < text_.size() && IsDigit(text_[end])) ++end;
  };
  token.kind = TokenKind::kInteger;
  digits();
  if (end < text_.size() && text_[end] == '.') {
    token.kind = TokenKind::kFloat;
    ++end;
    digits();
  }
  if (end < text_.size() && (text_[end] == 'e' || text_[end] == 'E')) {
    const std::size_t mark = end++;
    if (end < text_.size() && (text_[end] == '+' || text_[end] == '-')) ++end;
    const std::size_t first = end;
    digits();
    if (end == first) end = mark;  // no exponent: the letter is an error below
    if (end != mark) token.kind = TokenKind::kFloat;
  }
  token.text = text_.substr(at_, end - at_);
  const char* const begin = token.text.data();
  const char* const last = begin + token.text.size();
  if (end < text_.size() && (IsWord(text_[end]) || text_[end] == '.')) {
    token.kind = TokenKind::kError;
    token.column = end + 1;
    token.error = fmt::format("unexpected '{}' after a number", text_[end]);
  } else if (token.kind == TokenKind::kInteger) {
    if (std::from_chars(begin, last, token.integer).ec != std::errc()) {
      token.kind = TokenKind::kError;
      token.error = "the number does not fit into int64; with '.0' after it, it is a float64";
    }
  } else if (std::from_chars(begin, last, token.number).ec != std::errc()) {
    token.kind = TokenKind::kError;
    token.error = "the number is too large or too small for float64";
  }
  if (token.kind != TokenKind::kError) at_ = end;
  return token;
}

}  // namespace millrace::expr_internal
