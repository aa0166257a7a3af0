#include "common/expr/kernels.h"

#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include "common/math/arrays.h"
#include "common/tensor/convert.h"

namespace millrace::expr_internal {
namespace {

// Integers wrap, so they are computed without their signs.
template <class T>
using Wrapping = std::conditional_t<std::is_integral_v<T>, std::uint64_t, T>;

template <class T>
Wrapping<T> Wrap(T x) {
  return static_cast<Wrapping<T>>(x);
}

struct Add {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(Wrap(a) + Wrap(b));
  }
};
struct Subtract {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(Wrap(a) - Wrap(b));
  }
};
struct Multiply {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(Wrap(a) * Wrap(b));
  }
};
struct Divide {
  template <class T>
  T operator()(T a, T b) const {
    return a / b;
  }
};
struct FloorDivide {
  std::int64_t operator()(std::int64_t a, std::int64_t b) const {
    if (b == 0) return 0;
    if (b == -1) return static_cast<std::int64_t>(0 - Wrap(a));  // the quotient may not fit
    const std::int64_t quotient = a / b;
    return quotient - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
  }
};
struct Modulo {
  std::int64_t operator()(std::int64_t a, std::int64_t b) const {
    if (b == 0 || b == -1) return 0;
    const std::int64_t rest = a % b;
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
  }
};
struct Min {
  template <class T>
  T operator()(T a, T b) const {
    return a < b || a != a ? a : b;
  }
};
struct Max {
  template <class T>
  T operator()(T a, T b) const {
    return a > b || a != a ? a : b;
  }
};
struct Less {
  template <class T>
  std::int64_t operator()(T a, T b) const {
    return a < b ? 1 : 0;
  }
};
struct LessOrEqual {
  template <class T>
  std::int64_t operator()(T a, T b) const {
    return a <= b ? 1 : 0;
  }
};
struct Equal {
  template <class T>
  std::int64_t operator()(T a, T b) const {
    return a == b ? 1 : 0;
  }
};
struct NotEqual {
  template <class T>
  std::int64_t operator()(T a, T b) const {
    return a != b ? 1 : 0;
  }
};
struct And {
  std::int64_t operator()(std::int64_t a, std::int64_t b) const { return a & b; }
};
struct Or {
  std::int64_t operator()(std::int64_t a, std::int64_t b) const { return a | b; }
};
struct IsZero {
  template <class T>
  std::int64_t operator()(T a) const {
    return a == 0 ? 1 : 0;
  }
};
struct NotZero {
  template <class T>
  std::int64_t operator()(T a) const {
    return a != 0 ? 1 : 0;
  }
};
struct Negate {
  template <class T>
  T operator()(T a) const {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(0 - Wrap(a));
    } else {
      return -a;
    }
  }
};
struct Abs {
  template <class T>
  T operator()(T a) const {
    if constexpr (std::is_integral_v<T>) {
      return a < 0 ? static_cast<T>(0 - Wrap(a)) : a;
    } else {
      return std::fabs(a);
    }
  }
};
struct Sign {
  template <class T>
  T operator()(T a) const {
    const T of_number = a > 0 ? T{1} : a < 0 ? T{-1} : T{0};
    return a != a ? a : of_number;
  }
};

template <class T>
using BitsOf = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;

template <class T>
T WithSignOf(T magnitude, T sign) {
  constexpr auto kSign = BitsOf<T>{1} << (sizeof(T) * 8 - 1);
  return std::bit_cast<T>((std::bit_cast<BitsOf<T>>(magnitude) & ~kSign) |
                          (std::bit_cast<BitsOf<T>>(sign) & kSign));
}

// Additions, because oldest processors have no instruction for it that loops could use.
struct Round {
  template <class T>
  T operator()(T a) const {
    constexpr T kWhole = T{1} / std::numeric_limits<T>::epsilon();  // from here on all are whole
    const T magnitude = std::fabs(a);
    const T rounded = (magnitude + kWhole) - kWhole;
    return WithSignOf(magnitude < kWhole ? rounded : a, a);
  }
};
struct Floor {
  template <class T>
  T operator()(T a) const {
    const T rounded = Round()(a);
    return WithSignOf(rounded > a ? rounded - 1 : rounded, a);
  }
};
struct Ceil {
  template <class T>
  T operator()(T a) const {
    const T rounded = Round()(a);
    return WithSignOf(rounded < a ? rounded + 1 : rounded, a);
  }
};
struct Sqrt {
  template <class T>
  T operator()(T a) const {
    return std::sqrt(a);
  }
};
template <class To>
struct Convert {
  template <class T>
  To operator()(T a) const {
    return ConvertValue<To>(a);
  }
};

template <class F, class T>
void ApplyOne(void* out, const void* a, const void*, const void*, std::size_t count) {
  using Out = decltype(F()(T{}));
  auto* __restrict to = static_cast<Out*>(out);
  const auto* __restrict from = static_cast<const T*>(a);
  for (std::size_t i = 0; i < count; ++i) to[i] = F()(from[i]);
}

template <class F, class T>
void ApplyTwo(void* out, const void* a, const void* b, const void*, std::size_t count) {
  using Out = decltype(F()(T{}, T{}));
  auto* __restrict to = static_cast<Out*>(out);
  const auto* left = static_cast<const T*>(a);
  const auto* right = static_cast<const T*>(b);
  for (std::size_t i = 0; i < count; ++i) to[i] = F()(left[i], right[i]);
}

template <class T>
void Select(void* out, const void* a, const void* b, const void* c, std::size_t count) {
  auto* __restrict to = static_cast<T*>(out);
  const auto* condition = static_cast<const std::int64_t*>(a);
  const auto* yes = static_cast<const T*>(b);
  const auto* no = static_cast<const T*>(c);
  for (std::size_t i = 0; i < count; ++i) to[i] = condition[i] != 0 ? yes[i] : no[i];
}

template <class T, void (*kOfEach)(const T*, T*, std::size_t)>
void ApplyArray(void* out, const void* a, const void*, const void*, std::size_t count) {
  kOfEach(static_cast<const T*>(a), static_cast<T*>(out), count);
}

/// The loops that all types have.
template <class T>
Kernel FindCommon(Operation operation) {
  switch (operation) {
    case Operation::kAdd:
      return ApplyTwo<Add, T>;
    case Operation::kSubtract:
      return ApplyTwo<Subtract, T>;
    case Operation::kMultiply:
      return ApplyTwo<Multiply, T>;
    case Operation::kMin:
      return ApplyTwo<Min, T>;
    case Operation::kMax:
      return ApplyTwo<Max, T>;
    case Operation::kLess:
      return ApplyTwo<Less, T>;
    case Operation::kLessOrEqual:
      return ApplyTwo<LessOrEqual, T>;
    case Operation::kEqual:
      return ApplyTwo<Equal, T>;
    case Operation::kNotEqual:
      return ApplyTwo<NotEqual, T>;
    case Operation::kSelect:
      return Select<T>;
    case Operation::kIsZero:
      return ApplyOne<IsZero, T>;
    case Operation::kNotZero:
      return ApplyOne<NotZero, T>;
    case Operation::kNegate:
      return ApplyOne<Negate, T>;
    case Operation::kAbs:
      return ApplyOne<Abs, T>;
    case Operation::kSign:
      return ApplyOne<Sign, T>;
    case Operation::kToInt64:
      return ApplyOne<Convert<std::int64_t>, T>;
    case Operation::kToFloat32:
      return ApplyOne<Convert<float>, T>;
    case Operation::kToFloat64:
      return ApplyOne<Convert<double>, T>;
    default:
      return nullptr;
  }
}

Kernel FindInteger(Operation operation) {
  switch (operation) {
    case Operation::kFloorDivide:
      return ApplyTwo<FloorDivide, std::int64_t>;
    case Operation::kModulo:
      return ApplyTwo<Modulo, std::int64_t>;
    case Operation::kAnd:
      return ApplyTwo<And, std::int64_t>;
    case Operation::kOr:
      return ApplyTwo<Or, std::int64_t>;
    default:
      return FindCommon<std::int64_t>(operation);
  }
}

template <class T>
Kernel FindFloat(Operation operation) {
  switch (operation) {
    case Operation::kDivide:
      return ApplyTwo<Divide, T>;
    case Operation::kFloor:
      return ApplyOne<Floor, T>;
    case Operation::kCeil:
      return ApplyOne<Ceil, T>;
    case Operation::kRound:
      return ApplyOne<Round, T>;
    case Operation::kSqrt:
      return ApplyOne<Sqrt, T>;
    case Operation::kExp:
      return ApplyArray<T, math::ExpOfEach>;
    case Operation::kLog:
      return ApplyArray<T, math::LogOfEach>;
    case Operation::kTanh:
      return ApplyArray<T, math::TanhOfEach>;
    case Operation::kSin:
      return ApplyArray<T, math::SinOfEach>;
    case Operation::kCos:
      return ApplyArray<T, math::CosOfEach>;
    default:
      return FindCommon<T>(operation);
  }
}

}  // namespace

Kernel FindKernel(Operation operation, Machine operands) {
  switch (operands) {
    case Machine::kInt64:
      return FindInteger(operation);
    case Machine::kFloat32:
      return FindFloat<float>(operation);
    default:
      return FindFloat<double>(operation);
  }
}

}  // namespace millrace::expr_internal
