// An expression as it stands in a pipeline: types of four inputs, numbers of rows, the text up to a
// zero byte, and bytes for the columns.
#include "common/expr/expression.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/input.h"

namespace {

using namespace millrace;

/// Runs the expression over rows [first, last) of columns with two values in a row that is not
/// scalar.
std::vector<std::byte> RunRows(const Expression& expression,
                               const std::vector<std::vector<std::byte>>& columns,
                               std::size_t first, std::size_t last) {
  std::vector<std::span<const std::byte>> in;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const ExpressionInput& input = expression.inputs()[i];
    const std::size_t row = DTypeSize(input.dtype) * (input.scalar ? 1 : 2);
    in.push_back(std::span(columns[i]).subspan(first * row, (last - first) * row));
  }
  const ExpressionRows rows = {.rows = last - first, .width = 2};
  std::vector<std::byte> out(expression.Count(rows) * DTypeSize(expression.type()));
  std::vector<std::byte> scratch(expression.scratch_bytes());
  expression.Run(in, rows, scratch, out);
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input in(data, size);
  std::vector<ExpressionInput> inputs;
  for (const char* name : {"a", "b", "data", "data.length"}) {
    const std::uint8_t byte = in.Byte();
    inputs.push_back({name, static_cast<DType>(byte % kDTypes), byte < 128});
  }
  const std::size_t rows = in.Number(2) % 600;
  const std::string text(in.TakeTo('\0'));
  const ExpressionConstants constants = {{"K", std::int64_t{400}}, {"A", 0.9}};
  const auto expression = Expression::Compile(text, inputs, constants);
  if (!expression.ok()) {
    const Status& status = expression.status();
    fuzz::Require(status.code() == StatusCode::kInvalidArgument,
                  "a wrong expression gives InvalidArgument");
    fuzz::Require(status.message().starts_with("column "), "an error has a column");
    fuzz::Require(status.message().size() < 1024, "a message is no copy of a text");
    return 0;
  }
  std::vector<std::vector<std::byte>> columns;
  for (const ExpressionInput& input : expression->inputs()) {
    auto& column = columns.emplace_back(rows * DTypeSize(input.dtype) * (input.scalar ? 1 : 2));
    for (std::size_t i = 0; i < column.size(); ++i) column[i] = std::byte{in.Byte()};
  }
  const std::vector<std::byte> whole = RunRows(*expression, columns, 0, rows);
  std::vector<std::byte> joined;
  const std::size_t step = rows / 3 + 1;
  for (std::size_t first = 0; first < rows; first += step) {
    const auto values = RunRows(*expression, columns, first, std::min(first + step, rows));
    joined.insert(joined.end(), values.begin(), values.end());
  }
  fuzz::Require(whole == joined, "a row's values depend on the row alone: " + text);
  if (expression->type() == DType::kBool) {
    fuzz::Require(std::all_of(whole.begin(), whole.end(),
                              [](std::byte value) { return value <= std::byte{1}; }),
                  "a bool is 0 or 1: " + text);
  }
  return 0;
}

std::vector<std::string> millrace::fuzz::Seeds() {
  const auto seed = [](std::vector<std::uint8_t> types, std::uint64_t rows,
                       const std::string& text) {
    std::string bytes(types.begin(), types.end());
    bytes += NumberBytes(rows, 2) + text + '\0';
    for (int i = 0; i < 300; ++i) bytes += static_cast<char>(i * i + i / 7);
    return bytes;
  };
  return {
      seed({12, 8, 128, 7}, 20,
           "b ? sign(a) * (A + (1 - A) / (50 - 1) * max(0, 50 - abs(a))) : A * tanh(a / K)"),
      seed({4, 9, 128 + 11, 6}, 300, "ceil(100 * data) + a // 7 % data.length - int64(b)"),
      seed({3, 10, 131, 2}, 3, "a < b == (b >= data) && !data || data.length != 9007199254740993"),
      seed({0, 1, 133, 5}, 7, "exp(-a * b) + log(data) * sin(1e300) - cos(data.length) ** 2"),
      seed({12, 11, 140, 8}, 260, "min(floor(a), round(b)) ? sqrt(data) : float32(a) + float64(b)"),
      seed({7, 7, 7, 7}, 1, "1 < a < 3"),
      seed({7, 7, 7, 7}, 1, std::string(300, '(') + "a"),
      seed({7, 7, 7, 7}, 0, "99999999999999999999 + .5e-3 $"),
      seed({7, 8, 135, 7}, 9,
           "-(a % (max(!data.length, (b ? a : data)) - (9007199254740993 ? 3 : b)))")};
}
