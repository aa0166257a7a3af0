#include "server/files/npy_header.h"

#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "common/base/parse_number.h"
#include "common/base/quoted.h"

namespace millrace {
namespace {

constexpr std::string_view kNpyMagic = "\x93NUMPY";
// No header that numpy writes for plain numbers has a tenth of this.
constexpr std::uint64_t kMaxNpyHeader = std::uint64_t{1} << 16;
constexpr std::size_t kAlignment = 64;

Status Malformed(std::string_view what) {
  return DataLoss(fmt::format("has a .npy header that cannot be read: {}", what));
}

/// The three entries of a header.
struct Entries {
  std::optional<std::string_view> descr;
  std::optional<bool> fortran_order;
  std::optional<std::vector<std::uint64_t>> shape;
};

/// Reads the dict literal of a header: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }.
class HeaderReader {
 public:
  explicit HeaderReader(std::string_view text) : rest_(text) {}

  Result<Entries> Read() {
    Entries entries;
    if (!Take('{')) return Malformed("expected '{'");
    while (!Take('}')) {
      MILLRACE_ASSIGN_OR_RETURN(const std::string_view key, String());
      if (!Take(':')) return Malformed("expected ':' after a key");
      MILLRACE_RETURN_IF_ERROR(Value(key, entries));
      if (!Take(',') && Peek() != '}') return Malformed("expected ',' or '}' after a value");
    }
    SkipSpace();
    if (!rest_.empty()) return Malformed("something follows the '}'");
    return entries;
  }

 private:
  Status Value(std::string_view key, Entries& entries) {
    if (key == "descr" && !entries.descr) {
      if (Peek() == '[') {
        return DataLoss(
            "holds records: expected an array of plain numbers; write one array a field");
      }
      MILLRACE_ASSIGN_OR_RETURN(entries.descr, String());
      return OkStatus();
    }
    if (key == "fortran_order" && !entries.fortran_order) {
      entries.fortran_order = Word("True");
      if (*entries.fortran_order || Word("False")) return OkStatus();
      return Malformed("expected True or False after 'fortran_order'");
    }
    if (key == "shape" && !entries.shape) {
      MILLRACE_ASSIGN_OR_RETURN(entries.shape, Tuple());
      return OkStatus();
    }
    return Malformed(fmt::format("the key {} is unknown or there twice", Quoted(key)));
  }

  Result<std::string_view> String() {
    const char quote = Peek();
    if (quote != '\'' && quote != '"') return Malformed("expected a text in quotes");
    const std::size_t end = rest_.find(quote, 1);
    if (end == std::string_view::npos) return Malformed("a text does not end");
    const std::string_view text = rest_.substr(1, end - 1);
    if (text.find('\\') != std::string_view::npos) return Malformed("a text has a backslash");
    rest_.remove_prefix(end + 1);
    return text;
  }

  Result<std::vector<std::uint64_t>> Tuple() {
    std::vector<std::uint64_t> shape;
    if (!Take('(')) return Malformed("expected '(' after 'shape'");
    while (!Take(')')) {
      SkipSpace();
      const std::size_t digits = std::min(rest_.find_first_not_of("0123456789"), rest_.size());
      const auto extent = ParseNumber<std::uint64_t>(rest_.substr(0, digits));
      if (!extent.ok()) return Malformed(extent.status().WithContext("'shape'").message());
      if (shape.size() == kMaxArrayDimensions) {
        return DataLoss(fmt::format("has more than {} dimensions", kMaxArrayDimensions));
      }
      shape.push_back(*extent);
      rest_.remove_prefix(digits);
      if (!Take(',') && Peek() != ')') return Malformed("expected ',' or ')' in 'shape'");
    }
    return shape;
  }

  void SkipSpace() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\n\r"), rest_.size()));
  }
  /// The next character that is no space; 0 at the end.
  char Peek() {
    SkipSpace();
    return rest_.empty() ? '\0' : rest_.front();
  }
  bool Take(char wanted) {
    if (Peek() != wanted || wanted == '\0') return false;
    rest_.remove_prefix(1);
    return true;
  }
  bool Word(std::string_view wanted) {
    SkipSpace();
    if (!rest_.starts_with(wanted)) return false;
    rest_.remove_prefix(wanted.size());
    return true;
  }

  std::string_view rest_;
};

/// numpy's name of a type without the mark of its byte order.
struct TypeCode {
  std::string_view code;
  DType dtype;
};
constexpr std::array<TypeCode, 12> kTypeCodes = {{{"u1", DType::kUint8},
                                                  {"u2", DType::kUint16},
                                                  {"u4", DType::kUint32},
                                                  {"u8", DType::kUint64},
                                                  {"i1", DType::kInt8},
                                                  {"i2", DType::kInt16},
                                                  {"i4", DType::kInt32},
                                                  {"i8", DType::kInt64},
                                                  {"b1", DType::kBool},
                                                  {"f2", DType::kFloat16},
                                                  {"f4", DType::kFloat32},
                                                  {"f8", DType::kFloat64}}};

/// The reason why no array of a dataset may hold values of a type.
std::string_view RefusedKind(char kind) {
  switch (kind) {
    case 'c':
      return "complex numbers";
    case 'O':
      return "Python objects";
    case 'S':
    case 'U':
    case 'a':
      return "texts";
    case 'V':
      return "raw bytes or bfloat16 (give bfloat16 as uint16: array.view(numpy.uint16))";
    case 'M':
    case 'm':
      return "times";
    default:
      return "values of a type that is not supported";
  }
}

Result<DType> DTypeOfDescr(std::string_view descr) {
  char order = '|';
  std::string_view code = descr;
  if (!code.empty() && std::string_view("<>|=").find(code.front()) != std::string_view::npos) {
    order = code.front();
    code.remove_prefix(1);
  }
  for (const TypeCode& type : kTypeCodes) {
    if (type.code != code) continue;
    if (DTypeSize(type.dtype) > 1 && order == '>') {
      return DataLoss(fmt::format("is big endian ({}), expected little endian", Quoted(descr)));
    }
    if (DTypeSize(type.dtype) > 1 && order != '<') {
      return Malformed(
          fmt::format("the type {} does not say that it is little endian", Quoted(descr)));
    }
    return type.dtype;
  }
  return DataLoss(fmt::format("holds {} (dtype {}), expected bool, integers or floats",
                              RefusedKind(code.empty() ? '\0' : code.front()), Quoted(descr)));
}

/// The text of the header, and where it ends.
Result<std::pair<std::string_view, std::uint64_t>> HeaderText(std::span<const std::byte> file) {
  const std::string_view text = TextOfBytes(file);
  if (text.starts_with("PK\x03\x04")) {
    return DataLoss("is a .npz or another zip archive, expected a .npy file: unpack it");
  }
  if (!text.starts_with(kNpyMagic))
    return DataLoss("is no .npy file: it does not begin with \\x93NUMPY");
  if (text.size() < 10) return DataLoss("is cut off within its .npy header");
  const auto byte = [&](std::size_t at) { return std::to_integer<std::uint64_t>(file[at]); };
  const std::uint64_t major = byte(6);
  if (major < 1 || major > 3 || byte(7) != 0) {
    return DataLoss(
        fmt::format("has .npy version {}.{}, expected 1.0, 2.0 or 3.0", major, byte(7)));
  }
  const std::uint64_t begin = major == 1 ? 10 : 12;
  if (text.size() < begin) return DataLoss("is cut off within its .npy header");
  std::uint64_t length = byte(8) | byte(9) << 8;
  if (major > 1) length |= byte(10) << 16 | byte(11) << 24;
  if (length > text.size() - begin) {
    return DataLoss(fmt::format("says that its .npy header has {} bytes, but only {} follow",
                                length, text.size() - begin));
  }
  if (length > kMaxNpyHeader) {
    return DataLoss(
        fmt::format("has a .npy header of {} bytes, expected at most {}", length, kMaxNpyHeader));
  }
  return std::make_pair(text.substr(begin, length), begin + length);
}

}  // namespace

Result<StoredArray> ReadNpyHeader(std::span<const std::byte> file) {
  MILLRACE_ASSIGN_OR_RETURN(const auto header, HeaderText(file));
  MILLRACE_ASSIGN_OR_RETURN(Entries entries, HeaderReader(header.first).Read());
  if (!entries.descr || !entries.fortran_order || !entries.shape) {
    return Malformed("expected the keys 'descr', 'fortran_order' and 'shape'");
  }
  StoredArray array{.type = {}, .offset = header.second};
  MILLRACE_ASSIGN_OR_RETURN(array.type.dtype, DTypeOfDescr(*entries.descr));
  array.type.shape = *std::move(entries.shape);
  if (const Status shape = CheckShape(array.type); !shape.ok()) return DataLoss(shape.message());
  if (*entries.fortran_order && array.type.shape.size() > 1) {
    return DataLoss("is in Fortran order, expected row-major order (numpy.ascontiguousarray)");
  }
  const std::uint64_t expected = array.offset + *array.type.Bytes();
  if (file.size() != expected) {
    return DataLoss(
        fmt::format("has {} bytes, expected {} for {} after a header of {} bytes: it {}",
                    file.size(), expected, array.type.ToString(), array.offset,
                    file.size() < expected ? "is cut off" : "is too long"));
  }
  return array;
}

std::string NpyTypeText(DType dtype) {
  std::string_view code;
  for (const TypeCode& known : kTypeCodes) {
    if (known.dtype == NpyDType(dtype)) code = known.code;
  }
  return fmt::format("{}{}", DTypeSize(dtype) == 1 ? '|' : '<', code);
}

std::string MakeNpyHeader(const ArrayType& type) {
  std::string dict = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}",
                                 NpyTypeText(type.dtype), fmt::join(type.shape, ", "),
                                 type.shape.size() == 1 ? "," : "");
  constexpr std::size_t kBefore = 10;
  const std::size_t whole = (kBefore + dict.size() + 1 + kAlignment - 1) / kAlignment * kAlignment;
  dict.append(whole - kBefore - dict.size() - 1, ' ');
  dict += '\n';
  std::string header(kNpyMagic);
  header +=
      {'\x01', '\x00', static_cast<char>(dict.size() & 0xFF), static_cast<char>(dict.size() >> 8)};
  return header + dict;
}

DType NpyDType(DType dtype) { return dtype == DType::kBFloat16 ? DType::kUint16 : dtype; }

}  // namespace millrace
