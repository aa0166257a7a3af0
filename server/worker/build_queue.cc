#include "common/base/result.h"
