#include "common/expr/parser.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "common/expr/lexer.h"

namespace millrace::expr_internal {
namespace {

struct FunctionEntry {
  std::string_view name;
  Operation operation;
  std::size_t arguments;
};
constexpr std::array<FunctionEntry, 16> kFunctions = {{{"min", Operation::kMin, 2},
                                                       {"max", Operation::kMax, 2},
                                                       {"abs", Operation::kAbs, 1},
                                                       {"sign", Operation::kSign, 1},
                                                       {"floor", Operation::kFloor, 1},
                                                       {"ceil", Operation::kCeil, 1},
                                                       {"round", Operation::kRound, 1},
                                                       {"exp", Operation::kExp, 1},
                                                       {"log", Operation::kLog, 1},
                                                       {"sqrt", Operation::kSqrt, 1},
                                                       {"tanh", Operation::kTanh, 1},
                                                       {"sin", Operation::kSin, 1},
                                                       {"cos", Operation::kCos, 1},
                                                       {"int64", Operation::kToInt64, 1},
                                                       {"float32", Operation::kToFloat32, 1},
                                                       {"float64", Operation::kToFloat64, 1}}};

// Operators of a higher level bind more tightly.
constexpr int kEqualityLevel = 3;
constexpr int kOrderLevel = 4;
constexpr std::array<std::pair<std::string_view, int>, 14> kLevels = {{{"||", 1},
                                                                       {"&&", 2},
                                                                       {"==", kEqualityLevel},
                                                                       {"!=", kEqualityLevel},
                                                                       {"<", kOrderLevel},
                                                                       {"<=", kOrderLevel},
                                                                       {">", kOrderLevel},
                                                                       {">=", kOrderLevel},
                                                                       {"+", 5},
                                                                       {"-", 5},
                                                                       {"*", 6},
                                                                       {"/", 6},
                                                                       {"//", 6},
                                                                       {"%", 6}}};

/// 0 if the token is no operator between two values.
int LevelOf(const Token& token) {
  if (token.kind != TokenKind::kSymbol) return 0;
  for (const auto& [symbol, level] : kLevels) {
    if (symbol == token.text) return level;
  }
  return 0;
}

std::string Shortened(std::string_view text) {
  constexpr std::size_t kShown = 80;
  return text.size() <= kShown ? std::string(text) : std::string(text.substr(0, kShown)) + "…";
}

class Parser {
 public:
  /// Without `inputs`, any name is one.
  Parser(std::string_view text, std::optional<std::span<const ExpressionInput>> inputs,
         const ExpressionConstants& constants, NanComparison nan)
      : text_(text),
        lexer_(text),
        any_name_(!inputs),
        inputs_(inputs.value_or(std::span<const ExpressionInput>())),
        constants_(constants),
        parsed_{Graph(nan), {}, {}, {}} {}

  Result<Parsed> Run() {
    constexpr std::size_t kMost = Expression::kMaxLength;
    if (text_.size() > kMost) {
      return ErrorAt(kMost + 1, fmt::format("the expression is longer than {} bytes", kMost));
    }
    Take();
    if (token_.kind == TokenKind::kEnd) return ErrorAt(1, "the expression is empty");
    MILLRACE_ASSIGN_OR_RETURN(parsed_.result, Whole());
    if (token_.kind != TokenKind::kEnd) return Unexpected("an operator");
    return std::move(parsed_);
  }

 private:
  /// Counts how deep the functions below call each other.
  class Level {
   public:
    explicit Level(Parser& parser) : parser_(parser) { ++parser_.depth_; }
    ~Level() { --parser_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    Parser& parser_;
  };

  void Take() { token_ = lexer_.Next(); }

  bool Is(std::string_view symbol) const {
    return token_.kind == TokenKind::kSymbol && token_.text == symbol;
  }
  bool TakeIf(std::string_view symbol) {
    if (!Is(symbol)) return false;
    Take();
    return true;
  }

  Status Unexpected(std::string_view expected) const {
    if (token_.kind == TokenKind::kError) return ErrorAt(token_.column, token_.error);
    const std::string got = token_.kind == TokenKind::kEnd
                                ? std::string("the end of the expression")
                                : fmt::format("'{}'", Shortened(token_.text));
    return ErrorAt(token_.column, fmt::format("expected {}, got {}", expected, got));
  }

  Status Expect(std::string_view symbol) {
    if (TakeIf(symbol)) return OkStatus();
    return Unexpected(fmt::format("'{}'", symbol));
  }

  Result<Value> Whole() {
    MILLRACE_ASSIGN_OR_RETURN(const Value condition, Operators(1));
    if (!TakeIf("?")) return condition;
    const Level level(*this);
    MILLRACE_RETURN_IF_ERROR(CheckDepth());
    MILLRACE_ASSIGN_OR_RETURN(const Value yes, Whole());
    MILLRACE_RETURN_IF_ERROR(Expect(":"));
    MILLRACE_ASSIGN_OR_RETURN(const Value no, Whole());
    return parsed_.graph.Select(condition, yes, no);
  }

  /// Values with operators of at least this level between them.
  Result<Value> Operators(int least) {
    MILLRACE_ASSIGN_OR_RETURN(Value left, Operand());
    while (true) {
      const int level = LevelOf(token_);
      if (level < least || level == 0) return left;
      const Token taken = token_;
      Take();
      MILLRACE_ASSIGN_OR_RETURN(const Value right, Operators(level + 1));
      MILLRACE_ASSIGN_OR_RETURN(left, parsed_.graph.Binary(taken.text, left, right, taken.column));
      const bool compares = level == kEqualityLevel || level == kOrderLevel;
      if (compares && LevelOf(token_) == level) {
        return ErrorAt(token_.column,
                       "a chained comparison: write a < b && b < c, or use parentheses");
      }
    }
  }

  Result<Value> Operand() {
    const Level level(*this);
    MILLRACE_RETURN_IF_ERROR(CheckDepth());
    if (TakeIf("-")) {
      MILLRACE_ASSIGN_OR_RETURN(const Value value, Operand());
      return parsed_.graph.Negate(value);
    }
    if (TakeIf("!")) {
      MILLRACE_ASSIGN_OR_RETURN(const Value value, Operand());
      return parsed_.graph.Not(value);
    }
    if (TakeIf("(")) {
      MILLRACE_ASSIGN_OR_RETURN(const Value value, Whole());
      MILLRACE_RETURN_IF_ERROR(Expect(")"));
      return value;
    }
    const Token taken = token_;
    switch (taken.kind) {
      case TokenKind::kInteger:
        Take();
        return parsed_.graph.Constant(taken.integer);
      case TokenKind::kFloat:
        Take();
        return parsed_.graph.Constant(taken.number);
      case TokenKind::kName:
        Take();
        return Is("(") ? Call(taken) : Name(taken);
      default:
        return Unexpected("a value");
    }
  }

  Status CheckDepth() const {
    if (depth_ <= Expression::kMaxDepth) return OkStatus();
    return ErrorAt(token_.column,
                   fmt::format("parts are nested deeper than {}", Expression::kMaxDepth));
  }

  Result<Value> Call(const Token& name) {
    const auto function = std::find_if(kFunctions.begin(), kFunctions.end(),
                                       [&](const auto& one) { return one.name == name.text; });
    if (function == kFunctions.end()) {
      std::string names;
      for (const FunctionEntry& one : kFunctions) {
        names += (names.empty() ? "" : ", ") + std::string(one.name);
      }
      return ErrorAt(name.column, fmt::format("no function is named '{}'; there are {}",
                                              Shortened(name.text), names));
    }
    Take();  // the parenthesis
    std::array<Value, 2> arguments;
    std::size_t count = 0;
    if (!Is(")")) {
      do {
        MILLRACE_ASSIGN_OR_RETURN(const Value value, Whole());
        if (count < arguments.size()) arguments[count] = value;
        ++count;
      } while (TakeIf(","));
    }
    MILLRACE_RETURN_IF_ERROR(Expect(")"));
    if (count != function->arguments) {
      return ErrorAt(
          name.column,
          fmt::format("{} takes {}, got {}", function->name,
                      function->arguments == 1 ? "one argument" : "two arguments", count));
    }
    if (count == 1) return parsed_.graph.Function(function->operation, arguments[0]);
    return parsed_.graph.Extreme(function->operation, arguments[0], arguments[1]);
  }

  Result<Value> Name(const Token& name) {
    const auto constant = constants_.find(name.text);
    const auto input = std::find_if(inputs_.begin(), inputs_.end(),
                                    [&](const auto& one) { return one.name == name.text; });
    if (constant != constants_.end()) {
      if (input != inputs_.end()) {
        return ErrorAt(name.column,
                       fmt::format("'{}' is both a constant and an input", Shortened(name.text)));
      }
      return std::visit([&](auto value) { return parsed_.graph.Constant(value); },
                        constant->second);
    }
    if (any_name_) return Read({std::string(name.text), DType::kInt64, true}, name.column);
    if (input == inputs_.end()) {
      return ErrorAt(name.column, fmt::format("no input or constant is named '{}'{}",
                                              Shortened(name.text), KnownNames()));
    }
    return Read(*input, name.column);
  }

  Value Read(const ExpressionInput& input, std::size_t column) {
    auto& used = parsed_.inputs;
    const auto place = std::find(used.begin(), used.end(), input);
    const auto number = static_cast<std::size_t>(place - used.begin());
    if (place == used.end()) {
      used.push_back(input);
      parsed_.columns.push_back(column);
      if (input.optional) {
        const Value presence =
            Read({.name = input.name, .scalar = input.scalar, .presence = true}, column);
        parsed_.graph.SetPresence(number, presence);
      }
    }
    return parsed_.graph.Input(number, input.dtype);
  }

  std::string KnownNames() const {
    constexpr std::size_t kShown = 12;
    std::vector<std::string> names;
    for (const ExpressionInput& input : inputs_) names.push_back(Shortened(input.name));
    for (const auto& [name, value] : constants_) names.push_back(Shortened(name));
    if (names.empty()) return "; there are none";
    const bool more = names.size() > kShown;
    if (more) names.resize(kShown);
    return fmt::format("; there are {}{}", fmt::join(names, ", "), more ? ", …" : "");
  }

  std::string_view text_;
  Lexer lexer_;
  bool any_name_;
  std::span<const ExpressionInput> inputs_;
  const ExpressionConstants& constants_;
  Token token_;
  int depth_ = 0;
  Parsed parsed_;
};

}  // namespace

Result<Parsed> Parse(std::string_view text, std::span<const ExpressionInput> inputs,
                     const ExpressionConstants& constants, NanComparison nan) {
  return Parser(text, inputs, constants, nan).Run();
}

Result<Parsed> ParseAnyNames(std::string_view text, const ExpressionConstants& constants) {
  return Parser(text, std::nullopt, constants, NanComparison::kIeee).Run();
}

}  // namespace millrace::expr_internal
