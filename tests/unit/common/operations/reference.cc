#include "tests/unit/common/operations/reference.h"

#include <cmath>
#include <cstring>
#include <limits>

namespace millrace::test {
namespace {

__extension__ using Int128 = __int128;

std::uint64_t Mask(DType dtype) {
  const unsigned bits = 8 * DTypeSize(dtype);
  return bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
}

Int128 AsInteger(std::uint64_t bits, DType dtype) {
  if (dtype == DType::kBool) return bits != 0 ? 1 : 0;
  const Int128 value = bits & Mask(dtype);
  const Int128 range = Int128{1} << (8 * DTypeSize(dtype));
  return IsSigned(dtype) && value >= range / 2 ? value - range : value;
}

/// Exact: a long double has the 64 bits of the widest integer.
long double SmallFloat(std::uint64_t bits, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = static_cast<int>(bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const auto mantissa = static_cast<long double>(bits & ((std::uint64_t{1} << mantissa_bits) - 1));
  const long double sign = (bits >> 15 & 1) != 0 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) {
    return mantissa != 0 ? std::nanl("") : sign * std::numeric_limits<long double>::infinity();
  }
  const long double one = std::ldexp(1.0L, mantissa_bits);
  if (exponent == 0) return sign * std::ldexp(mantissa / one, 1 - bias);
  return sign * std::ldexp(1 + mantissa / one, exponent - bias);
}

long double AsReal(std::uint64_t bits, DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return SmallFloat(bits, 5, 10);
    case DType::kBFloat16:
      return SmallFloat(bits, 8, 7);
    case DType::kFloat32: {
      float value = 0;
      std::memcpy(&value, &bits, sizeof value);
      return value;
    }
    case DType::kFloat64: {
      double value = 0;
      std::memcpy(&value, &bits, sizeof value);
      return value;
    }
    default:
      return static_cast<long double>(AsInteger(bits, dtype));
  }
}

template <class T>
std::uint64_t BitsOf(T value) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}

/// The nearest by its distance from all values of the type.
std::uint64_t ToSmallFloat(long double value, int exponent_bits, int mantissa_bits) {
  const std::uint64_t sign = std::signbit(value) ? 0x8000 : 0;
  const std::uint64_t infinity = ((std::uint64_t{1} << exponent_bits) - 1) << mantissa_bits;
  if (std::isnan(value)) return sign | infinity | std::uint64_t{1} << (mantissa_bits - 1);
  const long double magnitude = std::fabs(value);
  // From here on, values round to infinity: half a step beyond the greatest.
  const long double greatest = SmallFloat(infinity - 1, exponent_bits, mantissa_bits);
  const long double step = greatest - SmallFloat(infinity - 2, exponent_bits, mantissa_bits);
  if (magnitude >= greatest + step / 2) return sign | infinity;
  std::uint64_t low = 0;
  std::uint64_t high = infinity;
  while (high - low > 1) {
    const std::uint64_t middle = (low + high) / 2;
    (SmallFloat(middle, exponent_bits, mantissa_bits) <= magnitude ? low : high) = middle;
  }
  if (high == infinity) return sign | low;
  const long double down = magnitude - SmallFloat(low, exponent_bits, mantissa_bits);
  const long double up = SmallFloat(high, exponent_bits, mantissa_bits) - magnitude;
  return sign | (up < down || (up == down && low % 2 == 1) ? high : low);
}

std::uint64_t FromReal(long double value, DType to) {
  switch (to) {
    case DType::kBool:
      return value != 0 ? 1 : 0;
    case DType::kFloat16:
      return ToSmallFloat(value, 5, 10);
    case DType::kBFloat16:
      return ToSmallFloat(value, 8, 7);
    case DType::kFloat32:
      return BitsOf(static_cast<float>(value));
    case DType::kFloat64:
      return BitsOf(static_cast<double>(value));
    default:
      break;
  }
  if (std::isnan(value)) return 0;
  const auto least = static_cast<long double>(DTypeMin(to));
  const auto most = static_cast<long double>(DTypeMax(to));
  if (value <= least) return static_cast<std::uint64_t>(DTypeMin(to)) & Mask(to);
  if (value >= most) return DTypeMax(to);
  return static_cast<std::uint64_t>(static_cast<Int128>(std::trunc(value))) & Mask(to);
}

/// Calls f(unit, place) for the values of the output; the result is the place of a value of the
/// input's unit.
template <class F>
PlainTensor Move(const PlainTensor& in, const TensorType& type, const F& f) {
  PlainTensor out{type, in.rows, in.splits, {}};
  const std::uint64_t from = in.type.UnitElements();
  const std::uint64_t to = type.UnitElements();
  for (std::uint64_t unit = 0; unit * from < in.values.size(); ++unit) {
    for (std::uint64_t place = 0; place < to; ++place) {
      out.values.push_back(in.values[unit * from + f(place)]);
    }
  }
  return out;
}

std::vector<std::uint64_t> Coordinates(std::uint64_t place,
                                       const std::vector<std::uint32_t>& inner) {
  std::vector<std::uint64_t> at(inner.size());
  for (std::size_t i = inner.size(); i-- > 0; place /= inner[i]) at[i] = place % inner[i];
  return at;
}

std::uint64_t Place(const std::vector<std::uint64_t>& at, const std::vector<std::uint32_t>& inner) {
  std::uint64_t place = 0;
  for (std::size_t i = 0; i < inner.size(); ++i) place = place * inner[i] + at[i];
  return place;
}

}  // namespace

PlainTensor PlainTensor::From(const Tensor& tensor) {
  PlainTensor plain{tensor.type, tensor.rows, tensor.splits, {}};
  const std::size_t size = DTypeSize(tensor.type.dtype);
  for (std::size_t at = 0; at < tensor.bytes; at += size) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, tensor.data() + at, size);
    plain.values.push_back(bits);
  }
  return plain;
}

Tensor PlainTensor::ToTensor() const {
  Tensor tensor{type, rows};
  tensor.splits = splits;
  const std::size_t size = DTypeSize(type.dtype);
  tensor.Resize(values.size() * size);
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::memcpy(tensor.data() + i * size, &values[i], size);
  }
  return tensor;
}

std::uint64_t PlainConvert(std::uint64_t bits, DType from, DType to) {
  if (from == to) return bits;
  if (IsFloat(from) || IsFloat(to) || to == DType::kBool) return FromReal(AsReal(bits, from), to);
  return static_cast<std::uint64_t>(AsInteger(bits, from)) & Mask(to);
}

std::uint64_t PlainScale(std::uint64_t value, std::uint64_t scale, std::uint64_t offset,
                         DType compute) {
  if (compute == DType::kFloat32) {
    const volatile float product =
        static_cast<float>(AsReal(value, compute)) * static_cast<float>(AsReal(scale, compute));
    return BitsOf(static_cast<float>(product + static_cast<float>(AsReal(offset, compute))));
  }
  if (compute == DType::kFloat64) {
    const volatile double product =
        static_cast<double>(AsReal(value, compute)) * static_cast<double>(AsReal(scale, compute));
    return BitsOf(product + static_cast<double>(AsReal(offset, compute)));
  }
  return (value * scale + offset) & Mask(compute);
}

PlainTensor PlainBits(const PlainTensor& in, bool lowest_first) {
  PlainTensor out{in.type, in.rows, in.splits, {}};
  if (in.type.inner.empty()) {
    for (std::int64_t& split : out.splits) split *= 8;
  } else {
    out.type.inner.back() *= 8;
  }
  for (const std::uint64_t byte : in.values) {
    for (int i = 0; i < 8; ++i) out.values.push_back(byte >> (lowest_first ? i : 7 - i) & 1);
  }
  return out;
}

PlainTensor PlainTake(const PlainTensor& in, std::size_t axis,
                      const std::vector<std::int64_t>& index) {
  TensorType type = in.type;
  type.inner[axis] = static_cast<std::uint32_t>(index.size());
  const auto extent = static_cast<std::int64_t>(in.type.inner[axis]);
  return Move(in, type, [&](std::uint64_t place) {
    std::vector<std::uint64_t> at = Coordinates(place, type.inner);
    const std::int64_t wanted = index[at[axis]];
    at[axis] = static_cast<std::uint64_t>(wanted < 0 ? wanted + extent : wanted);
    return Place(at, in.type.inner);
  });
}

PlainTensor PlainTranspose(const PlainTensor& in, const std::vector<std::size_t>& axes) {
  TensorType type = in.type;
  for (std::size_t i = 0; i < axes.size(); ++i) type.inner[i] = in.type.inner[axes[i]];
  return Move(in, type, [&](std::uint64_t place) {
    const std::vector<std::uint64_t> at = Coordinates(place, type.inner);
    std::vector<std::uint64_t> from(axes.size());
    for (std::size_t i = 0; i < axes.size(); ++i) from[axes[i]] = at[i];
    return Place(from, in.type.inner);
  });
}

PlainTensor PlainView(const PlainTensor& in, DType dtype) {
  Tensor tensor = in.ToTensor();
  const std::uint32_t from = DTypeSize(in.type.dtype);
  tensor.type.dtype = dtype;
  if (!tensor.type.inner.empty()) {
    tensor.type.inner.back() = tensor.type.inner.back() * from / DTypeSize(dtype);
  }
  return PlainTensor::From(tensor);
}

PlainTensor PlainCast(const PlainTensor& in, DType dtype) {
  PlainTensor out = in;
  out.type.dtype = dtype;
  for (std::uint64_t& value : out.values) value = PlainConvert(value, in.type.dtype, dtype);
  return out;
}

}  // namespace millrace::test
