#include "server/pipeline/pipeline.h"
