#include "common/tensor/tensor_type.h"

#include <limits>
#include <optional>

#include <fmt/core.h>

#include "common/base/parse_number.h"

namespace millrace {
namespace {

bool IsWordByte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/// Reads a type's text from left to right.
class TypeReader {
 public:
  explicit TypeReader(std::string_view text) : text_(text) {}

  Result<TensorType> Read() {
    SkipSpaces();
    const std::size_t begin = at_;
    const std::string_view name = Word();
    TensorType type;
    if (name == "str") {
      type.ragged = true;
      SkipSpaces();
      if (at_ < text_.size() && text_[at_] == '[') {
        return Error(at_,
                     "expected the end of the type: str is one text; lists of texts, str[*], are "
                     "features of records only");
      }
    } else if (name == "bytes") {
      MILLRACE_RETURN_IF_ERROR(ReadExtents(type));
      if (type.rank() != 2) return Error(begin, "expected bytes[n] or bytes[*]");
    } else {
      const std::optional<DType> dtype = DTypeFromName(name);
      if (!dtype) {
        return Error(begin, fmt::format("expected a type such as float32, bytes or str, got '{}'",
                                        name.empty() ? text_.substr(begin, 1) : name));
      }
      type.dtype = *dtype;
      MILLRACE_RETURN_IF_ERROR(ReadExtents(type));
    }
    SkipSpaces();
    if (at_ != text_.size()) return Error(at_, "expected the end of the type");
    if (Status status = CheckTensorType(type); !status.ok()) return Error(begin, status.message());
    return type;
  }

 private:
  /// Reads `[*, 8, 3]`, or nothing.
  Status ReadExtents(TensorType& type) {
    SkipSpaces();
    if (!Take('[')) return OkStatus();
    do {
      SkipSpaces();
      const std::size_t begin = at_;
      if (Take('*')) {
        if (type.rank() != 1) return Error(begin, "* stands only for the first extent");
        type.ragged = true;
      } else {
        const Result<std::uint32_t> extent = ParseNumber<std::uint32_t>(Word(), {1, kMaxExtent});
        if (!extent.ok()) return Error(begin, "an extent is * or " + extent.status().message());
        type.inner.push_back(*extent);
      }
      SkipSpaces();
    } while (Take(','));
    return Take(']') ? OkStatus() : Error(at_, "expected ',' or ']'");
  }

  void SkipSpaces() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }

  bool Take(char c) {
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  std::string_view Word() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && IsWordByte(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }

  static Status Error(std::size_t at, std::string_view message) {
    return InvalidArgument(fmt::format("column {}: {}", at + 1, message));
  }

  const std::string_view text_;
  std::size_t at_ = 0;
};

std::string WithExtents(const TensorType& type, std::string extents) {
  if (type.ragged) extents += extents.empty() ? "*" : ", *";
  for (const std::uint32_t extent : type.inner) {
    extents += fmt::format("{}{}", extents.empty() ? "" : ", ", extent);
  }
  const std::string_view name = DTypeName(type.dtype);
  return extents.empty() ? std::string(name) : fmt::format("{}[{}]", name, extents);
}

}  // namespace

std::uint64_t TensorType::UnitElements() const {
  std::uint64_t elements = 1;
  for (const std::uint32_t extent : inner) elements *= extent;
  return elements;
}

Result<TensorType> ParseTensorType(std::string_view text) { return TypeReader(text).Read(); }

std::string TensorTypeText(const TensorType& type) { return WithExtents(type, ""); }

std::string DescribeTensorType(const TensorType& type) { return WithExtents(type, type.rows); }

Status CheckTensorType(const TensorType& type) {
  if (type.inner.size() > kMaxInnerAxes) {
    return InvalidArgument(
        fmt::format("expected at most {} fixed axes, got {}", kMaxInnerAxes, type.inner.size()));
  }
  std::uint64_t elements = 1;
  for (const std::uint32_t extent : type.inner) {
    if (extent == 0) return InvalidArgument("a fixed extent is at least 1, got 0");
    if (extent > kMaxUnitElements / elements) {
      return InvalidArgument(
          fmt::format("expected at most {} values in a row or element", kMaxUnitElements));
    }
    elements *= extent;
  }
  return OkStatus();
}

}  // namespace millrace
