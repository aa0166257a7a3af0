#include "common/epoch/position.h"
