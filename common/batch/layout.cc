#include "common/batch/layout.h"
