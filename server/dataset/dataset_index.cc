#include "server/dataset/dataset_index.h"
